package projections

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
)

// RebuildRequest says what to rebuild.
type RebuildRequest struct {
	WorkspaceID string   // empty: all
	Resources   []string // some of Resources; empty: everything
}

// Rebuilt is what a rebuild did in one workspace.
type Rebuilt struct {
	WorkspaceID string        `json:"workspace_id"`
	Position    int64         `json:"position"` // the rows are those of a fold up to here
	Rows        int64         `json:"rows"`     // that the fold holds
	Written     int64         `json:"written"`  // rows that were missing or different
	Deleted     int64         `json:"deleted"`  // rows that must not be there
	RulesBefore int           `json:"rules_before"`
	Rules       int           `json:"rules"`
	Refused     string        `json:"refused,omitempty"` // why nothing was touched
	Took        time.Duration `json:"-"`
}

// Rebuild makes the rows of workspaces those of a fold of their logs: what
// Verify would report is repaired. It calls done with every workspace, one call
// at a time.
//
// A workspace is compared while the projector goes on. Then its checkpoint is
// locked, which keeps the projector waiting but no reader and no append, and
// the rows that differ are written and all is committed at once: readers see
// the old rows or the new ones. Rows whose answer is right are left alone. A
// workspace whose log itself is wrong is refused.
func (r *Replay) Rebuild(ctx context.Context, q RebuildRequest, done func(Rebuilt)) error {
	asked, err := r.asked(q.Resources)
	if err != nil {
		return err
	}
	list, err := r.sizes(ctx, q.WorkspaceID)
	if err != nil {
		return err
	}
	var mu sync.Mutex
	return r.each(ctx, list, func(ctx context.Context, w workspaceSize) error {
		b, err := r.rebuild(ctx, w, rebuildScope{asked: asked, all: len(q.Resources) == 0})
		if err != nil {
			return fmt.Errorf("rebuild %s: %w", w.id, err)
		}
		mu.Lock()
		defer mu.Unlock()
		done(b)
		return nil
	})
}

// UnknownResourceError names a resource that there is not.
type UnknownResourceError struct{ Resource string }

// Error names the resource and those that there are.
func (e *UnknownResourceError) Error() string {
	return fmt.Sprintf("there is no resource %q; want some of %s", e.Resource, strings.Join(Resources(), ", "))
}

// asked tells which sheets belong to the resources. Closed periods show in
// invoices alone; anomalies belong to no resource.
func (r *Replay) asked(resources []string) (func(*sheet) bool, error) {
	for _, name := range resources {
		if !slices.Contains(Resources(), name) {
			return nil, &UnknownResourceError{name}
		}
	}
	return func(s *sheet) bool {
		resource := s.resource
		if resource == sheetClosedPeriods {
			resource = "invoices"
		}
		return len(resources) == 0 || slices.Contains(resources, resource)
	}, nil
}

// rebuildScope is what of a workspace is rebuilt.
type rebuildScope struct {
	asked   func(*sheet) bool
	all     bool  // every sheet is asked for
	restore int64 // position of an entry that was passed over and gets its effect after all; 0: none
}

// rebuild rebuilds one workspace.
func (r *Replay) rebuild(ctx context.Context, w workspaceSize, scope rebuildScope) (Rebuilt, error) {
	began := time.Now()
	b := Rebuilt{WorkspaceID: w.id}
	var broken []string
	f, err := r.refold(ctx, w, newLogCheck(w.id, nil, func(d Difference) {
		if len(broken) < 3 {
			broken = append(broken, d.ID+" ("+d.Field+")")
		}
	}))
	if err != nil {
		return b, err
	}
	defer f.rows.close(ctx)
	f.restored = scope.restore
	head, err := f.head(ctx)
	if err != nil {
		return b, err
	}
	b.RulesBefore, b.Rules = head.rules, head.rules
	end := max(head.position, head.newest)
	if err := f.through(ctx, min(head.checkpoint, end)); err != nil {
		return b, err
	}
	f.settle()
	if err := f.walk(ctx, f.position, end, func([]logRow) error { return nil }); err != nil {
		return b, err
	}
	if f.check.end(head); f.check.broken {
		b.Position = head.checkpoint
		b.Refused = "its log is not what was appended: " + strings.Join(broken, ", ") + "; ledgerfeed verify tells more"
		return b, nil
	}
	f.check = nil // what comes from here on was appended a moment ago
	if head.checkpoint > end {
		f.pinned = &head.checkpoint // to be repaired as well
	}
	err = f.compareAll(ctx, scope.asked, func(s *sheet, k key, _ [][]byte, _ []string) error {
		return f.rows.doubt(ctx, s, k)
	})
	if err != nil {
		return b, err
	}
	f.pinned = nil
	if err := f.repair(ctx, scope, &b); err != nil {
		return b, err
	}
	if b.Rows, err = f.rows.count(ctx); err != nil {
		return b, err
	}
	b.Position, b.Took = f.position, time.Since(began)
	raise(&r.cfg.Meter.LargestRows, b.Rows)
	return b, nil
}

// mostUnderLock is how many entries are folded while the checkpoint is locked;
// with more, they are folded first and it is locked again.
const mostUnderLock = 2000

// repair writes what differs, in the transaction that holds the checkpoint.
func (r *refold) repair(ctx context.Context, scope rebuildScope, b *Rebuilt) error {
	for attempt := 0; ; attempt++ {
		again := false
		err := pg.InTx(ctx, r.cfg.Pool, func(tx pgx.Tx) error {
			checkpoint, end, err := r.lock(ctx, tx)
			if err != nil {
				return err
			}
			r.locked = true
			defer func() { r.locked = false }()
			position := min(checkpoint, end)
			if again = position > r.position+mostUnderLock && attempt < 5; again {
				return nil
			}
			if err := r.reach(ctx, position); err != nil {
				return err
			}
			for _, s := range r.sheets {
				if !scope.asked(s) {
					continue
				}
				if err := r.repairSheet(ctx, tx, s, b); err != nil {
					return err
				}
			}
			if err := r.takeBackSkip(ctx, tx); err != nil {
				return err
			}
			return r.mark(ctx, tx, position, scope.all, b)
		})
		if err != nil {
			return err
		}
		if !again {
			break
		}
		head, err := r.head(ctx)
		if err != nil {
			return err
		}
		if err := r.reach(ctx, min(head.checkpoint, max(head.position, head.newest))); err != nil {
			return err
		}
	}
	if b.Written+b.Deleted > 0 && r.cfg.Notify != nil {
		r.cfg.Notify(eventlog.TopicProjected, r.workspaceID)
	}
	return nil
}

// lock holds the projector of the workspace, and returns the checkpoint and
// where the log ends.
func (r *refold) lock(ctx context.Context, tx pgx.Tx) (checkpoint, end int64, err error) {
	err = tx.QueryRow(ctx, `SELECT position FROM log_checkpoint WHERE workspace_id = $1 AND consumer = $2 FOR UPDATE`,
		r.workspaceID, eventlog.ReadModels).Scan(&checkpoint)
	if err != nil {
		return 0, 0, fmt.Errorf("lock the checkpoint of %s: %w", r.workspaceID, err)
	}
	// A statement of its own, so that it sees what was committed before.
	err = tx.QueryRow(ctx, `SELECT position FROM log_head WHERE workspace_id = $1`, r.workspaceID).Scan(&end)
	if err != nil {
		return 0, 0, fmt.Errorf("read the head of %s: %w", r.workspaceID, err)
	}
	return checkpoint, end, nil
}

// mark notes with the checkpoint that rows have changed (position and moved_at
// are the version by which readers tell), and by which rules all of them are
// made now. A workspace that failed at its rows is tried again.
func (r *refold) mark(ctx context.Context, tx pgx.Tx, position int64, all bool, b *Rebuilt) error {
	var rules *int // nil: rows of other resources stay as they were made
	if all {
		b.Rules = r.cfg.Rules.Version
		rules = &b.Rules
	}
	_, err := tx.Exec(ctx, `
		UPDATE log_checkpoint SET position = $3, rules = coalesce($4, rules),
		       moved_at = CASE WHEN $5 THEN greatest($6, moved_at + interval '1 microsecond') ELSE moved_at END,
		       retry_at = CASE WHEN $5 THEN NULL ELSE retry_at END
		 WHERE workspace_id = $1 AND consumer = $2 AND (position <> $3 OR rules <> $4 OR $5)`,
		r.workspaceID, eventlog.ReadModels, position, rules, b.Written+b.Deleted > 0, r.cfg.Clock())
	if err != nil {
		return fmt.Errorf("mark %s as rebuilt: %w", r.workspaceID, err)
	}
	return nil
}
