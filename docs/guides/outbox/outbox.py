import json
import os

import psycopg

payload = {"workspace_id": "acme", "id": "in_2_paid", "type": "invoice.paid",
           "data": {"invoice_id": "in_2", "invoice_number": "2026-002", "client_id": "cl_2"}}

with psycopg.connect(os.environ["SHOP"]) as tx:  # commits at the end, or rolls back
    tx.execute("UPDATE invoices SET paid_at = now() WHERE id = 2")
    tx.execute("INSERT INTO watermill_ledgerfeed (uuid, payload, metadata, transaction_id) VALUES (gen_random_uuid(), %s, '{}', pg_current_xact_id())",
               [json.dumps(payload)])
