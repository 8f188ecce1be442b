-- What the product does when it changes something: its own statement, and one line for the outbox.

BEGIN;
UPDATE invoices SET paid_at = now() WHERE id = 2;
INSERT INTO watermill_ledgerfeed (uuid, payload, metadata, transaction_id)
SELECT gen_random_uuid(), entry, '{}', pg_current_xact_id() FROM ledgerfeed_entries WHERE source = 'invoices' AND key = 2 AND type = 'invoice.paid';
COMMIT;
