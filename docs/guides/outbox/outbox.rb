require "json"
require "pg"

payload = { workspace_id: "acme", id: "in_2_paid", type: "invoice.paid",
            data: { invoice_id: "in_2", invoice_number: "2026-002", client_id: "cl_2" } }

PG.connect(ENV.fetch("SHOP")).transaction do |tx|
  tx.exec("UPDATE invoices SET paid_at = now() WHERE id = 2")
  tx.exec_params("INSERT INTO watermill_ledgerfeed (uuid, payload, metadata, transaction_id) VALUES (gen_random_uuid(), $1, '{}', pg_current_xact_id())", [payload.to_json])
end
