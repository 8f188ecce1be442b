package copying

import (
	"context"
	"fmt"
	"strings"
)

// viewWords is how a database writes what the views need.
type viewWords interface {
	// exact is an amount with two decimals in a form that is added up exactly.
	exact(amount string) string
	// money is an exact amount as columns have it.
	money(exact string) string
	// hours adds up hours.
	hours(column string) string
	// month is the month of a date or time, such as 2026-10.
	month(column string, k kind) string
	// days is how many days ago a time was.
	days(column string) string
}

// view is a view for reports.
type view struct{ name, query string }

// reports are the views. Names of lists, and {state} for the table of their state, stand for tables.
func reports(w viewWords) []view {
	sum := func(amount, factor string) string { return w.money("sum((" + factor + ") * " + w.exact(amount) + ")") }
	// of adds up, for the invoice i, amounts of other rows.
	of := func(amount, rows string) string {
		return "coalesce((SELECT sum(" + w.exact(amount) + ") FROM " + rows + "), 0)"
	}
	const signed = "CASE type WHEN 'credit_note' THEN -1 ELSE 1 END"
	// Without payments:read the copy has no payments, so what is paid is unknown, and not zero.
	paid := "CASE WHEN EXISTS (SELECT 1 FROM {state} WHERE list = 'payments' AND ' ' || permissions || ' ' LIKE '% payments:read %') THEN " +
		of("p.amount", "{payments} AS p WHERE p.removed_at IS NULL AND p.invoice_id = i.id AND p.direction = 'received_from_client'") + " END"
	credited := of("n.gross_amount", "{invoices} AS n WHERE n.removed_at IS NULL AND n.type = 'credit_note' AND n.credit_note_source_invoice_id = i.id")
	return []view{
		{"revenue_by_month", `SELECT ` + w.month("period_start", date) + ` AS month, client_id, client_name, currency, count(*) AS documents,
			` + sum("gross_amount", signed) + ` AS invoiced, ` + sum("gross_amount", "CASE type WHEN 'package' THEN 1 ELSE 0 END") + ` AS packages,
			` + sum("recognized_revenue", signed) + ` AS recognized_revenue
			FROM {invoices} WHERE removed_at IS NULL GROUP BY 1, 2, 3, 4`},
		{"unpaid_invoices", `SELECT id, number, client_id, client_name, currency, net_due,
			` + w.money("paid") + ` AS paid, ` + w.money("credited") + ` AS credited, ` + w.money(w.exact("net_due")+" - paid - credited") + ` AS left_to_pay, sent_at, days,
			CASE WHEN days <= 30 THEN '0-30' WHEN days <= 60 THEN '31-60' WHEN days <= 90 THEN '61-90' ELSE 'over 90' END AS age
			FROM (SELECT *, ` + w.days("sent_at") + ` AS days, ` + paid + ` AS paid, ` + credited + ` AS credited FROM {invoices} AS i
			WHERE removed_at IS NULL AND type <> 'credit_note' AND NOT reversed AND NOT billed_externally AND client_billing_status = 'sent'
			AND ` + w.exact("net_due") + ` > 0) AS aged`},
		{"hours_by_contractor", `SELECT ` + w.month("work_date", date) + ` AS month, contractor_id, contractor_name, currency, count(*) AS time_entries,
			` + w.hours("hours") + ` AS hours, ` + sum("bill_amount", "1") + ` AS bill_amount
			FROM {time_entries} WHERE removed_at IS NULL AND status <> 'declined' GROUP BY 1, 2, 3, 4`},
		{"credit_left", `SELECT client_id, client_name, currency, balance, general_credit,
			(SELECT count(*) FROM {credits_packages} AS p WHERE p.parent_client_id = c.client_id AND p.status = 'active') AS active_packages,
			(SELECT min(p.expires_at) FROM {credits_packages} AS p WHERE p.parent_client_id = c.client_id AND p.status = 'active') AS next_expiry
			FROM {credits} AS c WHERE removed_at IS NULL`},
		{"payouts_by_month", `SELECT ` + w.month("confirmed_at", moment) + ` AS month, contractor_id, contractor_name, currency, count(*) AS payouts,
			` + sum("amount", "1") + ` AS amount
			FROM {payments} WHERE removed_at IS NULL AND direction = 'paid_to_contractor' GROUP BY 1, 2, 3, 4`},
	}
}

// createViews makes the views that are not there. A reader who wants another one changes it freely.
func (w *writer) createViews(ctx context.Context) error {
	for _, v := range reports(w.views()) {
		have, err := w.columns(ctx, w.conn, v.name)
		if err != nil {
			return fmt.Errorf("look for the view %s: %w", v.name, err)
		}
		if len(have) > 0 {
			continue
		}
		query := strings.ReplaceAll(v.query, "{state}", w.table(stateTable))
		for _, name := range []string{"invoices", "time_entries", "credits_packages", "credits", "payments"} {
			query = strings.ReplaceAll(query, "{"+name+"}", w.table(name))
		}
		if err := w.exec(ctx, "CREATE VIEW "+w.table(v.name)+" AS "+query); err != nil {
			return fmt.Errorf("make the view %s: %w", v.name, err)
		}
	}
	return nil
}

type sqliteWords struct{}

func (sqlite) views() viewWords { return sqliteWords{} }

// exact is a whole number of cents.
func (sqliteWords) exact(amount string) string {
	return "CAST(replace(" + amount + ", '.', '') AS INTEGER)"
}

func (sqliteWords) money(exact string) string {
	// || is null where there is nothing to add up; printf alone would write a zero.
	return fmt.Sprintf("CASE WHEN %[1]s < 0 THEN '-' WHEN %[1]s IS NOT NULL THEN '' END || printf('%%d.%%02d', abs(%[1]s) / 100, abs(%[1]s) %% 100)", "("+exact+")")
}

// hours have four decimals at most.
func (sqliteWords) hours(column string) string {
	return fmt.Sprintf("printf('%%d.%%04d', %[1]s / 10000, %[1]s %% 10000)", "sum(CAST(round("+column+" * 10000) AS INTEGER))")
}

func (sqliteWords) month(column string, _ kind) string { return "substr(" + column + ", 1, 7)" }

func (sqliteWords) days(column string) string {
	return "CAST(julianday('now', 'start of day') - julianday(" + column + ", 'start of day') AS INTEGER)"
}

type postgresWords struct{}

func (postgres) views() viewWords { return postgresWords{} }

func (postgresWords) exact(amount string) string { return amount }

func (postgresWords) money(exact string) string { return "round(" + exact + ", 2)" }

func (postgresWords) hours(column string) string { return "sum(" + column + ")" }

func (postgresWords) month(column string, k kind) string {
	if k == moment {
		column += " AT TIME ZONE 'UTC'"
	}
	return "to_char(" + column + ", 'YYYY-MM')"
}

func (postgresWords) days(column string) string {
	return "(now() AT TIME ZONE 'UTC')::date - (" + column + " AT TIME ZONE 'UTC')::date"
}
