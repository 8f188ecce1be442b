package projections

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/projections/table"
)

// segments are the segments of several workspaces, with the rows that each of
// them needs.
type segments struct {
	tables     *table.Set
	workspaces []string
	needs      map[string]*domain.Needs
	folds      map[string]*table.Fold
}

func newSegments(tables *table.Set, list []eventlog.Segment) *segments {
	s := &segments{tables: tables, needs: map[string]*domain.Needs{}, folds: map[string]*table.Fold{}}
	for i := range list {
		workspaceID := list[i].WorkspaceID
		s.workspaces = append(s.workspaces, workspaceID)
		needs := &domain.Needs{}
		for j := range list[i].Entries {
			needs.Add(&list[i].Entries[j])
		}
		s.needs[workspaceID] = needs
		s.folds[workspaceID] = table.NewFold()
	}
	return s
}

// load reads the rows that the segments need: first those that entries name or
// reach through an invoice or a period, in one round trip; then, where a client
// or contractor got another name, the rows that show the name.
func (s *segments) load(ctx context.Context, tx pgx.Tx) error {
	t := s.tables
	var b pgx.Batch
	queue := func(from *table.Table, by string, ids func(*domain.Needs) domain.Set) {
		lookup := table.By(by)
		for _, w := range s.workspaces {
			for id := range ids(s.needs[w]) {
				lookup.Add(w, id)
			}
		}
		from.QueueLoad(&b, lookup, s.folds)
	}
	linesOf := func(n *domain.Needs) domain.Set { return n.LinesOf }
	queue(t.Invoices, "id", func(n *domain.Needs) domain.Set { return n.Invoices })
	queue(t.Invoices, "period", func(n *domain.Needs) domain.Set { return n.InvoicesIn })
	queue(t.Charges, "id", func(n *domain.Needs) domain.Set { return n.Charges })
	queue(t.TimeEntries, "id", func(n *domain.Needs) domain.Set { return n.TimeEntries })
	queue(t.Charges, "invoice_id", linesOf)
	queue(t.TimeEntries, "invoice_id", linesOf)
	queue(t.Payments, "id", func(n *domain.Needs) domain.Set { return n.Payments })
	queue(t.Clients, "id", func(n *domain.Needs) domain.Set { return n.Clients })
	queue(t.Contractors, "id", func(n *domain.Needs) domain.Set { return n.Contractors })
	queue(t.Credits, "id", func(n *domain.Needs) domain.Set { return n.Credits })
	queue(t.ClosedPeriods, "period", func(n *domain.Needs) domain.Set { return n.Periods })
	removedCharges := func(n *domain.Needs) domain.Set { return n.RemovedCharges }
	queue(t.RemovedTimeEntries, "id", func(n *domain.Needs) domain.Set { return n.RemovedTimeEntries })
	queue(t.RemovedCharges, "id", removedCharges)
	queue(t.RemovedBilledCharges, "id", removedCharges)
	t.CreditMoves.QueueLoad(&b, s.creditMoves(), s.folds)
	if err := send(ctx, tx, &b); err != nil {
		return err
	}
	return s.loadRenamed(ctx, tx)
}

func (s *segments) creditMoves() *table.Lookup {
	lookup := table.By("client_id", "id")
	for _, w := range s.workspaces {
		for key := range s.needs[w].CreditMoves {
			clientID, creditID := domain.SplitCreditMoveKey(key)
			lookup.Add(w, clientID, creditID)
		}
	}
	return lookup
}

// loadRenamed reads the rows that show a client or contractor whose name the
// segment changes.
func (s *segments) loadRenamed(ctx context.Context, tx pgx.Tx) error {
	clients, contractors := table.By("client_id"), table.By("contractor_id")
	for _, w := range s.workspaces {
		needs, state := s.needs[w], s.folds[w].State
		for id, name := range needs.ClientNames {
			stored := ""
			if c := state.Clients.Get(id); c != nil {
				stored = c.Name
			}
			if domain.Renamed(name, stored) {
				clients.Add(w, id)
			}
		}
		for id, name := range needs.ContractorNames {
			stored := ""
			if c := state.Contractors.Get(id); c != nil {
				stored = c.Name
			}
			if domain.Renamed(name, stored) {
				contractors.Add(w, id)
			}
		}
	}
	var b pgx.Batch
	t := s.tables
	for _, party := range []*table.Lookup{clients, contractors} {
		for _, shows := range []*table.Table{t.Invoices, t.Charges, t.TimeEntries, t.Payments} {
			shows.QueueLoad(&b, party, s.folds)
		}
	}
	return send(ctx, tx, &b)
}

// save writes what the fold has changed, in one round trip.
func (s *segments) save(ctx context.Context, tx pgx.Tx) error {
	var b pgx.Batch
	for _, t := range s.tables.All() {
		t.QueueSave(&b, s.workspaces, s.folds)
	}
	return send(ctx, tx, &b)
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
