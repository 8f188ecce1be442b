-- Sample data, with what real tables have: quotes, line breaks, backslashes, empty texts, odd cents.

INSERT INTO clients (name, active, created_at, version) VALUES
  ('Blue Door Ltd', true, '2026-01-05 09:00Z', 3),
  ('O''Neill & "Sons" \ Co', true, '2026-01-06 10:30Z', 1),
  ('Zürich Möbel AG', false, '2026-02-01 08:15Z', 2);

INSERT INTO contractors (name, email, created_at) VALUES
  ('Rosa Tran', 'rosa@example.com', '2026-01-05 09:05Z'),
  ('Jonas Weber', '', '2026-01-05 09:06Z');

INSERT INTO projects (client_id, name) VALUES (1, 'Website'), (2, 'Audit'), (3, 'Shop');

INSERT INTO invoices (client_id, contractor_id, month, total_cents, currency, number, created_at, issued_at, sent_at, paid_at, voided_at) VALUES
  (1, 1, '2026-01-01', 42000, 'EUR', '2026-001', '2026-01-07 08:00Z', '2026-02-01 09:00Z', '2026-02-01 09:00Z', '2026-02-10 12:00Z', NULL),
  (2, 2, '2026-01-01', 12345, 'EUR', '2026-002', '2026-01-08 08:00Z', '2026-02-01 09:01Z', '2026-02-02 07:30Z', NULL, NULL),
  (2, NULL, '2026-02-01', 5, 'EUR', NULL, '2026-02-03 08:00Z', NULL, NULL, NULL, NULL),
  (3, 1, '2026-02-01', 99999, 'CHF', '2026-003', '2026-02-05 08:00Z', '2026-03-01 09:00Z', '2026-03-01 09:10Z', NULL, '2026-03-02 10:00Z');

INSERT INTO work (project_id, contractor_id, invoice_id, day, minutes, bill_cents, pay_cents, note, created_at, approved_at) VALUES
  (1, 1, 1, '2026-01-09', 450, 30000, 22500, E'Start page\nand footer', '2026-01-09 17:00Z', '2026-01-30 10:00Z'),
  (1, 1, 1, '2026-01-12', 180, 12000, 9000, '', '2026-01-12 17:00Z', '2026-01-30 10:00Z'),
  (2, 2, 2, '2026-01-15', 50, 12345, 8001, 'Read C:\ledger "2025"', '2026-01-15 17:00Z', '2026-01-30 10:05Z'),
  (2, 2, NULL, '2026-02-16', 20, 4115, 2667, 'Not billed yet', '2026-02-16 17:00Z', NULL),
  (3, 1, 4, '2026-02-17', 600, 99999, 70000, 'Basket', '2026-02-17 17:00Z', '2026-02-27 10:00Z');

INSERT INTO payments (invoice_id, amount_cents, method, received_at) VALUES
  (1, 42000, 'bank', '2026-02-10 12:00Z'), (2, 2345, 'card', '2026-02-20 12:00Z');

INSERT INTO payouts (invoice_id, contractor_id, amount_cents, paid_at) VALUES (1, 1, 31500, '2026-02-15 12:00Z');
