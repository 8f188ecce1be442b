-- The sums of your tables, in the words of the API. The last column is what the API must answer.

SELECT 'invoices', currency, count(*), lf_money(sum(total_cents)::bigint) FROM invoices GROUP BY currency
UNION ALL
SELECT 'time-entries', coalesce(i.currency, 'EUR'), count(*), lf_money(sum(bill_cents)::bigint)
  FROM work w LEFT JOIN invoices i ON i.id = w.invoice_id GROUP BY 2
UNION ALL
SELECT 'payments', i.currency, count(*), lf_money(sum(p.amount_cents)::bigint)
  FROM (SELECT invoice_id, amount_cents FROM payments UNION ALL SELECT invoice_id, amount_cents FROM payouts) p
  JOIN invoices i ON i.id = p.invoice_id GROUP BY 2
ORDER BY 1, 2;
