import json
import os

import pymysql

payload = {"workspace_id": "acme", "id": "in_2_paid", "type": "invoice.paid",
           "data": {"invoice_id": "in_2", "invoice_number": "2026-002", "client_id": "cl_2"}}

with pymysql.connect(unix_socket=os.environ["SHOP_SOCKET"], user="root", database=os.environ["SHOP_DATABASE"]) as db:
    tx = db.cursor()  # in a transaction that rolls back unless it is committed
    tx.execute("UPDATE invoices SET paid_at = now() WHERE id = 2")
    tx.execute("INSERT INTO watermill_ledgerfeed (uuid, payload) VALUES (UUID(), %s)", [json.dumps(payload)])
    db.commit()
