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
	entries    map[string][]domain.Entry
	needs      map[string]*domain.Needs
	folds      map[string]*table.Fold

	most   int // of rows that an entry reaches without naming them
	budget table.Budget
	large  map[largeSet]struct{}
}

// largeSet is the rows of a workspace that hold an id in a column, where they are
// too many to be loaded.
type largeSet struct{ workspaceID, column, id string }

// newSegments has no limit to what is loaded, and nothing in large.
func newSegments(tables *table.Set, list []eventlog.Segment) *segments {
	s := &segments{
		tables: tables, entries: map[string][]domain.Entry{}, needs: map[string]*domain.Needs{}, folds: map[string]*table.Fold{},
		budget: table.Budget{Bytes: 1 << 62}, large: map[largeSet]struct{}{},
	}
	for i := range list {
		workspaceID, entries := list[i].WorkspaceID, list[i].Entries
		s.workspaces = append(s.workspaces, workspaceID)
		s.entries[workspaceID] = entries
		needs := &domain.Needs{}
		for j := range entries {
			needs.Add(&entries[j])
		}
		s.needs[workspaceID] = needs
		s.folds[workspaceID] = table.NewFold()
	}
	return s
}

// load reads the rows that the segments need: first those that entries name or
// reach through an invoice or a period, in one round trip; then, where a client
// or contractor got another name, the rows that show the name. It stops where the
// budget is exceeded.
func (s *segments) load(ctx context.Context, tx pgx.Tx) error {
	t := s.tables
	var b pgx.Batch
	named := func(from *table.Table, by string, ids func(*domain.Needs) domain.Set) {
		s.queue(&b, from, table.By(by), ids)
	}
	reached := func(from *table.Table, by string, ids func(*domain.Needs) domain.Set) {
		s.queue(&b, from, s.bounded(by), ids)
	}
	linesOf := func(n *domain.Needs) domain.Set { return n.LinesOf }
	named(t.Invoices, "id", func(n *domain.Needs) domain.Set { return n.Invoices })
	reached(t.Invoices, "period", func(n *domain.Needs) domain.Set { return n.InvoicesIn })
	named(t.Charges, "id", func(n *domain.Needs) domain.Set { return n.Charges })
	named(t.TimeEntries, "id", func(n *domain.Needs) domain.Set { return n.TimeEntries })
	reached(t.Charges, "invoice_id", linesOf)
	reached(t.TimeEntries, "invoice_id", linesOf)
	named(t.Payments, "id", func(n *domain.Needs) domain.Set { return n.Payments })
	named(t.Clients, "id", func(n *domain.Needs) domain.Set { return n.Clients })
	named(t.Contractors, "id", func(n *domain.Needs) domain.Set { return n.Contractors })
	named(t.Credits, "id", func(n *domain.Needs) domain.Set { return n.Credits })
	named(t.ClosedPeriods, "period", func(n *domain.Needs) domain.Set { return n.Periods })
	removedCharges := func(n *domain.Needs) domain.Set { return n.RemovedCharges }
	named(t.RemovedTimeEntries, "id", func(n *domain.Needs) domain.Set { return n.RemovedTimeEntries })
	named(t.RemovedCharges, "id", removedCharges)
	named(t.RemovedBilledCharges, "id", removedCharges)
	t.CreditMoves.QueueLoad(&b, s.creditMoves(), s.folds, &s.budget)
	if err := send(ctx, tx, &b); err != nil || s.budget.Exceeded {
		return err
	}
	return s.loadRenamed(ctx, tx)
}

func (s *segments) queue(b *pgx.Batch, from *table.Table, lookup *table.Lookup, ids func(*domain.Needs) domain.Set) {
	for _, w := range s.workspaces {
		for id := range ids(s.needs[w]) {
			lookup.Add(w, id)
		}
	}
	from.QueueLoad(b, lookup, s.folds, &s.budget)
}

// bounded is a lookup by a column of which any number of rows may hold an id.
func (s *segments) bounded(column string) *table.Lookup {
	return table.By(column).Bounded(s.most, func(workspaceID string, values []string) {
		s.large[largeSet{workspaceID, column, values[0]}] = struct{}{}
	})
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
	clients, contractors := s.bounded("client_id"), s.bounded("contractor_id")
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
			shows.QueueLoad(&b, party, s.folds, &s.budget)
		}
	}
	return send(ctx, tx, &b)
}

// cut takes from each segment the first entry that reaches a large set, and those
// after it, and notes its position in stops.
func (s *segments) cut(stops map[string]int64) {
	for w, entries := range s.entries {
		if i := s.firstLarge(w, entries); i < len(entries) {
			stops[w] = entries[i].Position
			s.entries[w] = entries[:i]
		}
	}
}

// firstLarge is the index of the first entry that reaches a large set; without one,
// the number of entries.
func (s *segments) firstLarge(workspaceID string, entries []domain.Entry) int {
	if len(s.large) == 0 {
		return len(entries)
	}
	for i := range entries {
		var needs domain.Needs
		needs.Add(&entries[i])
		for id := range needs.LinesOf {
			if s.isLarge(workspaceID, "invoice_id", id) {
				return i
			}
		}
		for period := range needs.InvoicesIn {
			if s.isLarge(workspaceID, "period", period) {
				return i
			}
		}
		for id := range needs.ClientNames {
			if s.isLarge(workspaceID, "client_id", id) {
				return i
			}
		}
		for id := range needs.ContractorNames {
			if s.isLarge(workspaceID, "contractor_id", id) {
				return i
			}
		}
	}
	return len(entries)
}

func (s *segments) isLarge(workspaceID, column, id string) bool {
	_, large := s.large[largeSet{workspaceID, column, id}]
	return large
}

// maxPending is how many statements of about a mebibyte are sent at once.
const maxPending = 4

// save writes what the fold has changed, in one round trip unless it is much.
func (s *segments) save(ctx context.Context, tx pgx.Tx) error {
	var b pgx.Batch
	large := 0
	for _, t := range s.tables.All() {
		err := t.QueueSave(s.workspaces, s.folds, func(sql string, args []any, full bool) error {
			b.Queue(sql, args...)
			if full {
				large++
			}
			if large < maxPending {
				return nil
			}
			err := send(ctx, tx, &b)
			b, large = pgx.Batch{}, 0
			return err
		})
		if err != nil {
			return err
		}
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
