package projections

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/eventlog"
)

// folding is the segments of a claim on their way: for each workspace, the
// rows that its segment needs.
type folding struct {
	tables *tables
	order  []string // workspaces
	needs  map[string]*domain.Needs
	states map[string]*domain.State
}

func newFolding(t *tables, segments []eventlog.Segment) *folding {
	f := &folding{tables: t, needs: map[string]*domain.Needs{}, states: map[string]*domain.State{}}
	for i := range segments {
		s := &segments[i]
		f.order = append(f.order, s.WorkspaceID)
		needs := &domain.Needs{}
		for j := range s.Entries {
			needs.Add(&s.Entries[j])
		}
		f.needs[s.WorkspaceID] = needs
		f.states[s.WorkspaceID] = domain.NewState()
	}
	return f
}

// keysOf gathers a set of ids from every workspace's needs.
func (f *folding) keysOf(set func(*domain.Needs) domain.Set) *keys {
	var k keys
	for _, w := range f.order {
		k.addSet(w, set(f.needs[w]))
	}
	return &k
}

// load fetches the rows that the segments need: first those that entries name
// or reach through an invoice or a period, in one round trip; then, where a
// party got another name, those that show it.
func (f *folding) load(ctx context.Context, tx pgx.Tx) error {
	t := f.tables
	var b pgx.Batch
	t.invoices.queueLoad(&b, "id", f.keysOf(func(n *domain.Needs) domain.Set { return n.Invoices }), f.states)
	t.invoices.queueLoad(&b, "period", f.keysOf(func(n *domain.Needs) domain.Set { return n.InvoicesIn }), f.states)
	t.charges.queueLoad(&b, "id", f.keysOf(func(n *domain.Needs) domain.Set { return n.Charges }), f.states)
	t.timeEntries.queueLoad(&b, "id", f.keysOf(func(n *domain.Needs) domain.Set { return n.TimeEntries }), f.states)
	lines := f.keysOf(func(n *domain.Needs) domain.Set { return n.LinesOf })
	t.charges.queueLoad(&b, "invoice_id", lines, f.states)
	t.timeEntries.queueLoad(&b, "invoice_id", lines, f.states)
	t.payments.queueLoad(&b, "id", f.keysOf(func(n *domain.Needs) domain.Set { return n.Payments }), f.states)
	t.clients.queueLoad(&b, "id", f.keysOf(func(n *domain.Needs) domain.Set { return n.Clients }), f.states)
	t.contractors.queueLoad(&b, "id", f.keysOf(func(n *domain.Needs) domain.Set { return n.Contractors }), f.states)
	t.credits.queueLoad(&b, "id", f.keysOf(func(n *domain.Needs) domain.Set { return n.Credits }), f.states)
	f.queueLoadMoves(&b)
	f.queueLoadClosures(&b)
	if err := send(ctx, tx, &b); err != nil {
		return err
	}
	return f.loadRenamed(ctx, tx)
}

func (f *folding) loadRenamed(ctx context.Context, tx pgx.Tx) error {
	var clients, contractors keys
	for _, w := range f.order {
		state := f.states[w]
		for id, name := range f.needs[w].ClientNames {
			stored := ""
			if c := state.Clients.Get(id); c != nil {
				stored = c.Name
			}
			if domain.Renamed(name, stored) {
				clients.add(w, id)
			}
		}
		for id, name := range f.needs[w].ContractorNames {
			stored := ""
			if c := state.Contractors.Get(id); c != nil {
				stored = c.Name
			}
			if domain.Renamed(name, stored) {
				contractors.add(w, id)
			}
		}
	}
	var b pgx.Batch
	t := f.tables
	t.invoices.queueLoad(&b, "client_id", &clients, f.states)
	t.charges.queueLoad(&b, "client_id", &clients, f.states)
	t.timeEntries.queueLoad(&b, "client_id", &clients, f.states)
	t.payments.queueLoad(&b, "client_id", &clients, f.states)
	t.invoices.queueLoad(&b, "contractor_id", &contractors, f.states)
	t.charges.queueLoad(&b, "contractor_id", &contractors, f.states)
	t.timeEntries.queueLoad(&b, "contractor_id", &contractors, f.states)
	t.payments.queueLoad(&b, "contractor_id", &contractors, f.states)
	return send(ctx, tx, &b)
}

func (f *folding) queueLoadMoves(b *pgx.Batch) {
	keys := f.keysOf(func(n *domain.Needs) domain.Set { return n.CreditMoves })
	if keys.empty() {
		return
	}
	clients := make([]string, len(keys.ids))
	credits := make([]string, len(keys.ids))
	for i, key := range keys.ids {
		clients[i], credits[i] = domain.SplitCreditMoveKey(key)
	}
	// The fold asks only whether a credit id is taken.
	b.Queue(`
		SELECT t.workspace_id, t.client_id, t.id, t.position FROM `+f.tables.named("credit_move")+` t
		  JOIN unnest($1::text[], $2::text[], $3::text[]) AS k (workspace_id, client_id, id) USING (workspace_id, client_id, id)`,
		keys.workspaces, clients, credits).Query(func(found pgx.Rows) error {
		var workspaceID string
		for found.Next() {
			row := &domain.CreditMove{}
			if err := found.Scan(&workspaceID, &row.ClientID, &row.CreditID, &row.Position); err != nil {
				return fmt.Errorf("load from credit_move: %w", err)
			}
			row.ID = domain.CreditMoveKey(row.ClientID, row.CreditID)
			f.states[workspaceID].CreditMoves.Load(row)
		}
		return found.Err()
	})
}

func (f *folding) queueLoadClosures(b *pgx.Batch) {
	keys := f.keysOf(func(n *domain.Needs) domain.Set { return n.Periods })
	if keys.empty() {
		return
	}
	b.Queue(`
		SELECT t.workspace_id, t.period, t.client_id, t.position FROM `+f.tables.named("closed_period")+` t
		  JOIN unnest($1::text[], $2::text[]) AS k (workspace_id, period) USING (workspace_id, period)`,
		keys.workspaces, keys.ids).Query(func(found pgx.Rows) error {
		var workspaceID string
		for found.Next() {
			row := &domain.ClosedPeriod{}
			if err := found.Scan(&workspaceID, &row.Period, &row.ClientID, &row.Position); err != nil {
				return fmt.Errorf("load from closed_period: %w", err)
			}
			row.ID = domain.ClosedPeriodKey(row.Period, row.ClientID)
			f.states[workspaceID].Closures.Load(row)
		}
		return found.Err()
	})
}

func send(ctx context.Context, tx pgx.Tx, b *pgx.Batch) error {
	if b.Len() == 0 {
		return nil
	}
	if err := tx.SendBatch(ctx, b).Close(); err != nil {
		return fmt.Errorf("projector: %w", err)
	}
	return nil
}
