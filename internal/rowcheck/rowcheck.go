// Package rowcheck compares the read tables with a fold of the log, row by row, for tests. It
// shares no code with what projects, verifies or rebuilds the tables, so it finds mistakes there.
package rowcheck

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
)

// Querier is a pool, a connection or a transaction.
type Querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// Diff lists how stored rows differ from folded ones, in at most most lines; none if they are the
// same.
func Diff(stored, folded []string, most int) (lines []string) {
	stored, folded = slices.Sorted(slices.Values(stored)), slices.Sorted(slices.Values(folded))
	for i, j := 0, 0; (i < len(stored) || j < len(folded)) && len(lines) < most; {
		switch {
		case j == len(folded) || i < len(stored) && stored[i] < folded[j]:
			lines = append(lines, "stored, not folded: "+stored[i])
			i++
		case i == len(stored) || folded[j] < stored[i]:
			lines = append(lines, "folded, not stored: "+folded[j])
			j++
		default:
			i, j = i+1, j+1
		}
	}
	return lines
}

// Folded lists every row of a state and every anomaly since its last Reset, each as
// a line in the form of Stored.
func Folded(s *domain.State) []string {
	var list []string
	add := func(table string, r *domain.Row, f domain.Fragments, columns ...any) {
		line := []string{table, r.ID, fmt.Sprint(r.Position)}
		for _, c := range columns {
			line = append(line, fmt.Sprint(c))
		}
		list = append(list, strings.Join(append(line, f.Base, f.Pay, f.Margin), "|"))
	}
	s.Invoices.All(func(r *domain.Invoice) {
		add("invoice", &r.Row, r.Fragments(), r.Shown, r.Client.ID, r.Contractor.ID, r.Period, r.ClientBillingStatus, r.Type)
	})
	s.Charges.All(func(r *domain.Charge) {
		add("charge", &r.Row, r.Fragments(), r.BilledToClient, r.Client.ID, r.Contractor.ID, r.InvoiceID, r.Period)
	})
	s.TimeEntries.All(func(r *domain.TimeEntry) {
		add("time_entry", &r.Row, r.Fragments(), r.Client.ID, r.Contractor.ID, r.InvoiceID, r.Period, r.Status)
	})
	s.Payments.All(func(r *domain.Payment) {
		add("payment", &r.Row, r.Fragments(), r.Direction, r.Client.ID, r.Contractor.ID)
	})
	s.Clients.All(func(r *domain.Client) { add("client", &r.Row, r.Fragments()) })
	s.Contractors.All(func(r *domain.Contractor) { add("contractor", &r.Row, r.Fragments()) })
	s.Credits.All(func(r *domain.Credit) { add("client_credit", &r.Row, r.Fragments()) })
	s.CreditMoves.All(func(r *domain.CreditMove) { add("credit_move", &r.Row, r.Fragments()) })
	s.Closures.All(func(r *domain.ClosedPeriod) { add("closed_period", &r.Row, domain.Fragments{}) })
	removed := func(table string, r *domain.Tombstone) {
		base := fmt.Sprintf(`{"id":%q,"removed":true,"updated_at":%q`, r.ID, r.UpdatedAt)
		list = append(list, strings.Join([]string{table, r.ID, fmt.Sprint(r.Position), r.ClientID, r.ContractorID, r.Period, r.Status, base}, "|"))
	}
	s.RemovedTimeEntries.All(func(r *domain.Tombstone) { removed("removed_time_entry", r) })
	s.RemovedCharges.All(func(r *domain.Tombstone) { removed("removed_charge", r) })
	s.RemovedBilledCharges.All(func(r *domain.Tombstone) { removed("removed_billed_charge", r) })
	for _, a := range s.Anomalies {
		list = append(list, fmt.Sprintf("anomaly|%d|%s|%s", a.Position, a.EventID, a.Reason))
	}
	return list
}

// Stored lists every row of a workspace's read tables, each as a line: the table, the id, the
// position, the columns that find the row, and its fragments.
func Stored(ctx context.Context, q Querier, workspaceID string) (list []string, err error) {
	for _, sql := range selects() {
		lines, err := pg.Collect(ctx, q, pgx.RowTo[string], sql+` WHERE workspace_id = $1`, workspaceID)
		if err != nil {
			return nil, fmt.Errorf("read the stored rows: %w", err)
		}
		list = append(list, lines...)
	}
	return list, nil
}

func selects() []string {
	return []string{
		`SELECT concat_ws('|', 'invoice', id, position, shown::text, client_id, coalesce(contractor_id, ''), period, status, type, base, pay, margin) FROM invoice`,
		`SELECT concat_ws('|', 'charge', id, position, billed::text, client_id, coalesce(contractor_id, ''), coalesce(invoice_id, ''), period, base, pay, '') FROM charge`,
		`SELECT concat_ws('|', 'time_entry', id, position, client_id, contractor_id, coalesce(invoice_id, ''), period, status, base, pay, '') FROM time_entry`,
		`SELECT concat_ws('|', 'payment', id, position, direction, coalesce(client_id, ''), coalesce(contractor_id, ''), base, '', '') FROM payment`,
		`SELECT concat_ws('|', 'client', id, position, base, '', '') FROM client`,
		`SELECT concat_ws('|', 'contractor', id, position, base, '', '') FROM contractor`,
		`SELECT concat_ws('|', 'client_credit', id, position, base, '', '') FROM client_credit`,
		`SELECT concat_ws('|', 'credit_move', client_id || '/' || id, position, base, '', '') FROM credit_move`,
		`SELECT concat_ws('|', 'closed_period', period || '/' || client_id, position, '', '', '') FROM closed_period`,
		`SELECT concat_ws('|', 'removed_time_entry', id, position, client_id, contractor_id, period, status, base) FROM removed_time_entry`,
		`SELECT concat_ws('|', 'removed_charge', id, position, client_id, coalesce(contractor_id, ''), period, '', base) FROM removed_charge`,
		`SELECT concat_ws('|', 'removed_billed_charge', id, position, client_id, coalesce(contractor_id, ''), period, '', base) FROM removed_billed_charge`,
		`SELECT concat_ws('|', 'anomaly', position, event_id, reason) FROM anomaly`,
	}
}
