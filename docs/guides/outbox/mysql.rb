require "json"
require "mysql2"

payload = { workspace_id: "acme", id: "in_2_paid", type: "invoice.paid",
            data: { invoice_id: "in_2", invoice_number: "2026-002", client_id: "cl_2" } }

db = Mysql2::Client.new(socket: ENV.fetch("SHOP_SOCKET"), username: "root", database: ENV.fetch("SHOP_DATABASE"), encoding: "utf8mb4")
db.query("START TRANSACTION")
db.query("UPDATE invoices SET paid_at = now() WHERE id = 2")
db.prepare("INSERT INTO watermill_ledgerfeed (uuid, payload) VALUES (UUID(), ?)").execute(payload.to_json)
db.query("COMMIT")
