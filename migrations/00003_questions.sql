-- Columns by which statements filter by day and add up amounts, and lists of credit
-- (docs/contract/decisions.md, "Responses"). The rows of before have no values in them, until a
-- rebuild makes the rows anew (rules 3).

-- +goose Up

-- Days are YYYY-MM-DD. An amount is in hundredths and hours are in ten-thousandths, so that sums are
-- exact and fast. The indexes of months hold what totals of a month need, so that these read hardly a row.
ALTER TABLE invoice
    ADD COLUMN reversed boolean,
    ADD COLUMN open boolean,
    ADD COLUMN day text COLLATE "C",
    ADD COLUMN last_day text COLLATE "C",
    ADD COLUMN currency text COLLATE "C",
    ADD COLUMN gross_amount bigint,
    ADD COLUMN credit_applied numeric,
    ADD COLUMN net_due bigint,
    ADD COLUMN delivered_value bigint,
    ADD COLUMN recognized_revenue bigint,
    ADD COLUMN billable_hours bigint,
    ADD COLUMN payout_amount bigint,
    ADD COLUMN margin_amount bigint;
COMMENT ON COLUMN invoice.open IS 'The client has something left to pay.';
COMMENT ON COLUMN invoice.day IS 'First day of the period.';
COMMENT ON COLUMN invoice.last_day IS 'Last day of the period.';
COMMENT ON COLUMN invoice.credit_applied IS 'In hundredths; a sum of any number of amounts.';
COMMENT ON COLUMN invoice.payout_amount IS 'In hundredths; read only for pay:read.';
COMMENT ON COLUMN invoice.margin_amount IS 'In hundredths; read only for margin:read.';
COMMENT ON COLUMN invoice.reversed IS 'The field of the same name.';
COMMENT ON COLUMN invoice.currency IS 'The field of the same name.';
COMMENT ON COLUMN invoice.gross_amount IS 'In hundredths.';
COMMENT ON COLUMN invoice.net_due IS 'In hundredths.';
COMMENT ON COLUMN invoice.delivered_value IS 'In hundredths.';
COMMENT ON COLUMN invoice.recognized_revenue IS 'In hundredths.';
COMMENT ON COLUMN invoice.billable_hours IS 'In ten-thousandths.';
CREATE INDEX invoice_month ON invoice (workspace_id, (left(day, 7) || left(last_day, 7)), position, id)
    INCLUDE (day, last_day, shown, client_id, contractor_id, status, currency, type, reversed, gross_amount, credit_applied, net_due, delivered_value, recognized_revenue, billable_hours, payout_amount, margin_amount);
CREATE INDEX invoice_open ON invoice (workspace_id, position, id) WHERE open;

ALTER TABLE charge
    ADD COLUMN status text COLLATE "C",
    ADD COLUMN day text COLLATE "C",
    ADD COLUMN currency text COLLATE "C",
    ADD COLUMN amount bigint,
    ADD COLUMN pay_amount bigint;
COMMENT ON COLUMN charge.pay_amount IS 'In hundredths; read only for pay:read.';
COMMENT ON COLUMN charge.day IS 'The field date.';
COMMENT ON COLUMN charge.currency IS 'The field of the same name.';
COMMENT ON COLUMN charge.amount IS 'In hundredths.';
CREATE INDEX charge_month ON charge (workspace_id, left(day, 7), position, id) INCLUDE (day, billed, client_id, contractor_id, status, currency, amount, pay_amount);

ALTER TABLE time_entry
    ADD COLUMN day text COLLATE "C",
    ADD COLUMN currency text COLLATE "C",
    ADD COLUMN hours bigint,
    ADD COLUMN session_count bigint,
    ADD COLUMN bill_amount bigint,
    ADD COLUMN pay_amount bigint;
COMMENT ON COLUMN time_entry.day IS 'The field work_date.';
COMMENT ON COLUMN time_entry.pay_amount IS 'In hundredths; read only for pay:read.';
COMMENT ON COLUMN time_entry.currency IS 'The field of the same name.';
COMMENT ON COLUMN time_entry.hours IS 'In ten-thousandths.';
COMMENT ON COLUMN time_entry.session_count IS 'The field of the same name.';
COMMENT ON COLUMN time_entry.bill_amount IS 'In hundredths.';
CREATE INDEX time_entry_month ON time_entry (workspace_id, left(day, 7), position, id) INCLUDE (day, client_id, contractor_id, status, currency, hours, session_count, bill_amount, pay_amount);

ALTER TABLE payment
    ADD COLUMN day text COLLATE "C",
    ADD COLUMN currency text COLLATE "C",
    ADD COLUMN amount bigint;
COMMENT ON COLUMN payment.day IS 'Day of confirmed_at, in UTC.';
COMMENT ON COLUMN payment.currency IS 'The field of the same name.';
COMMENT ON COLUMN payment.amount IS 'In hundredths.';
CREATE INDEX payment_month ON payment (workspace_id, left(day, 7), position, id) INCLUDE (day, direction, client_id, contractor_id, currency, amount);

ALTER TABLE removed_time_entry ADD COLUMN day text COLLATE "C";
ALTER TABLE removed_charge ADD COLUMN day text COLLATE "C";
ALTER TABLE removed_billed_charge ADD COLUMN day text COLLATE "C";
COMMENT ON COLUMN removed_time_entry.day IS 'That which the row had last.';
COMMENT ON COLUMN removed_charge.day IS 'That which the row had last.';
COMMENT ON COLUMN removed_billed_charge.day IS 'That which the row had last.';
CREATE INDEX removed_time_entry_month ON removed_time_entry (workspace_id, left(day, 7), position, id);
CREATE INDEX removed_charge_month ON removed_charge (workspace_id, left(day, 7), position, id);
CREATE INDEX removed_billed_charge_month ON removed_billed_charge (workspace_id, left(day, 7), position, id);

-- Credit is two lists of the workspace, too. A row has the client's name.
COMMENT ON TABLE client_credit IS 'Credit of clients, without its history (/v1/credits, /v1/clients/{id}/credit).';
COMMENT ON TABLE credit_move IS 'The history of clients'' credit (/v1/credit-history): one row for each entry.';
ALTER TABLE client_credit ALTER COLUMN base SET STATISTICS 0;
CREATE INDEX client_credit_list ON client_credit (workspace_id, position, id);
DROP INDEX credit_move_list;
CREATE INDEX credit_move_client ON credit_move (workspace_id, client_id, position, id);
CREATE INDEX credit_move_list ON credit_move (workspace_id, position, id);

-- +goose Down

DROP INDEX credit_move_list;
DROP INDEX credit_move_client;
CREATE INDEX credit_move_list ON credit_move (workspace_id, client_id, position);
DROP INDEX client_credit_list;
COMMENT ON TABLE client_credit IS 'Credit of a client (/v1/clients/{id}/credit), without its history.';
COMMENT ON TABLE credit_move IS 'The history of a client''s credit: one row for each entry, never changed.';
ALTER TABLE removed_billed_charge DROP COLUMN day;
ALTER TABLE removed_charge DROP COLUMN day;
ALTER TABLE removed_time_entry DROP COLUMN day;
ALTER TABLE payment DROP COLUMN amount, DROP COLUMN currency, DROP COLUMN day;
ALTER TABLE time_entry DROP COLUMN pay_amount, DROP COLUMN bill_amount, DROP COLUMN session_count, DROP COLUMN hours, DROP COLUMN currency, DROP COLUMN day;
ALTER TABLE charge DROP COLUMN pay_amount, DROP COLUMN amount, DROP COLUMN currency, DROP COLUMN day, DROP COLUMN status;
ALTER TABLE invoice
    DROP COLUMN margin_amount, DROP COLUMN payout_amount, DROP COLUMN billable_hours, DROP COLUMN recognized_revenue, DROP COLUMN delivered_value,
    DROP COLUMN net_due, DROP COLUMN credit_applied, DROP COLUMN gross_amount, DROP COLUMN currency, DROP COLUMN last_day, DROP COLUMN day,
    DROP COLUMN open, DROP COLUMN reversed;
