-- The mapping: one row for each entry, with the table and the key that it comes from. The backfill
-- reads all of them in order, and the outbox the one that a change makes.

CREATE FUNCTION lf_money(cents bigint) RETURNS text LANGUAGE sql IMMUTABLE AS
  $$ SELECT (cents / 100.0)::numeric(14, 2)::text $$;

CREATE FUNCTION lf_time(at timestamptz) RETURNS text LANGUAGE sql IMMUTABLE AS
  $$ SELECT to_char(at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') $$;

CREATE VIEW ledgerfeed_facts (source, key, step, at, id, type, data) AS
SELECT 'clients', c.id, 1, c.created_at, format('cl_%s_v%s', c.id, c.version), 'client.recorded', jsonb_build_object(
    'client_id', 'cl_' || c.id, 'name', c.name, 'status', CASE WHEN c.active THEN 'active' ELSE 'former' END)
  FROM clients c
UNION ALL
SELECT 'contractors', c.id, 1, c.created_at, format('co_%s_v%s', c.id, c.version), 'contractor.recorded', jsonb_build_object(
    'contractor_id', 'co_' || c.id, 'name', c.name, 'email', nullif(c.email, ''))
  FROM contractors c
UNION ALL
SELECT 'invoices', i.id, 2, i.created_at, format('in_%s_v%s', i.id, i.version), 'invoice.recorded', jsonb_build_object(
    'invoice_id', 'in_' || i.id, 'number', 'order ' || i.id, 'client_id', 'cl_' || i.client_id,
    'contractor_id', 'co_' || i.contractor_id, 'period', to_char(i.month, 'YYYY-MM'),
    'gross_amount', lf_money(i.total_cents), 'currency', i.currency)
  FROM invoices i
UNION ALL
SELECT 'work', w.id, 3, w.created_at, format('te_%s_v%s', w.id, w.version), 'time_entry.recorded', jsonb_build_object(
    'time_entry_id', 'te_' || w.id, 'work_date', w.day, 'client_id', 'cl_' || p.client_id,
    'contractor_id', 'co_' || w.contractor_id, 'service', p.name, 'description', nullif(w.note, ''),
    'hours', round(w.minutes / 60.0, 4), 'invoice_id', 'in_' || w.invoice_id, 'period', to_char(w.day, 'YYYY-MM'),
    'currency', coalesce(i.currency, 'EUR'), 'bill_amount', lf_money(w.bill_cents), 'pay_amount', lf_money(w.pay_cents))
  FROM work w JOIN projects p ON p.id = w.project_id LEFT JOIN invoices i ON i.id = w.invoice_id
UNION ALL
SELECT 'work', w.id, 4, w.approved_at, format('te_%s_v%s_approved', w.id, w.version), 'time_entry.approved', jsonb_build_object(
    'time_entry_id', 'te_' || w.id)
  FROM work w WHERE w.approved_at IS NOT NULL
UNION ALL
SELECT 'invoices', i.id, 5, i.issued_at, format('in_%s_issued', i.id), 'invoice.issued', jsonb_build_object(
    'invoice_id', 'in_' || i.id, 'invoice_number', i.number, 'client_id', 'cl_' || i.client_id, 'amount', lf_money(i.total_cents))
  FROM invoices i WHERE i.issued_at IS NOT NULL
UNION ALL
SELECT 'invoices', i.id, 6, i.sent_at, format('in_%s_sent', i.id), 'invoice.sent', jsonb_build_object(
    'invoice_id', 'in_' || i.id, 'invoice_number', i.number, 'client_id', 'cl_' || i.client_id)
  FROM invoices i WHERE i.sent_at IS NOT NULL
UNION ALL
SELECT 'payments', p.id, 7, p.received_at, format('pm_%s', p.id), 'payment.confirmed', jsonb_build_object(
    'payment_id', 'pm_' || p.id, 'invoice_id', 'in_' || i.id, 'invoice_number', i.number, 'client_id', 'cl_' || i.client_id,
    'amount', lf_money(p.amount_cents), 'currency', i.currency, 'source', p.method)
  FROM payments p JOIN invoices i ON i.id = p.invoice_id
UNION ALL
SELECT 'invoices', i.id, 8, i.paid_at, format('in_%s_paid', i.id), 'invoice.paid', jsonb_build_object(
    'invoice_id', 'in_' || i.id, 'invoice_number', i.number, 'client_id', 'cl_' || i.client_id)
  FROM invoices i WHERE i.paid_at IS NOT NULL
UNION ALL
SELECT 'payouts', p.id, 9, p.paid_at, format('po_%s', p.id), 'payout.paid', jsonb_build_object(
    'payment_id', 'po_' || p.id, 'invoice_id', 'in_' || i.id, 'client_id', 'cl_' || i.client_id,
    'contractor_id', 'co_' || p.contractor_id, 'amount', lf_money(p.amount_cents), 'currency', i.currency, 'source', 'payroll')
  FROM payouts p JOIN invoices i ON i.id = p.invoice_id
UNION ALL
SELECT 'invoices', i.id, 10, i.voided_at, format('in_%s_voided', i.id), 'invoice.voided', jsonb_build_object(
    'invoice_id', 'in_' || i.id, 'invoice_number', i.number, 'client_id', 'cl_' || i.client_id)
  FROM invoices i WHERE i.voided_at IS NOT NULL;

CREATE VIEW ledgerfeed_entries AS
SELECT source, key, step, at, type, jsonb_build_object(
    'workspace_id', 'acme', 'id', id, 'type', type, 'data', jsonb_strip_nulls(data)) AS entry
  FROM ledgerfeed_facts;
