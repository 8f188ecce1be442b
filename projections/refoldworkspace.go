package projections

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/eventlog"
)

// refold is the log of one workspace, folded from position 1.
type refold struct {
	*Replay
	workspaceID string
	size        workspaceSize
	position    int64 // entries up to here are folded
	rows        foldedRows
	skipped     map[int64]struct{}
	restored    int64               // an entry that was passed over is folded all the same; 0: none
	locked      bool                // the checkpoint is: there is no time to lose
	check       *logCheck           // nil: entries are taken as they are
	at          int64               // position of the entry being folded
	folded      func(*domain.Entry) // called after an entry is folded, if set

	// The rows are compared with the fold as it is, while the checkpoint stays
	// here; nil: with the fold up to the checkpoint.
	pinned *int64

	settled int64 // position of settle
}

// refold makes the fold of a workspace, which the caller must close, with
// nothing folded yet.
func (r *Replay) refold(ctx context.Context, w workspaceSize, check *logCheck) (*refold, error) {
	f := r.unfolded(w.id, check)
	f.size = w
	if !r.tooLarge(w) {
		f.rows = newMemoryRows(r.sheets, f.apply)
		return f, nil
	}
	rows, err := r.newFreshRows(ctx, w.id, f.apply)
	if err != nil {
		return nil, err
	}
	f.rows = rows
	return f, nil
}

// unfolded makes a refold that has no rows yet.
func (r *Replay) unfolded(workspaceID string, check *logCheck) *refold {
	return &refold{Replay: r, workspaceID: workspaceID, skipped: map[int64]struct{}{}, check: check}
}

// logRow is an entry as it is stored, with what the fold does not need.
type logRow struct {
	domain.Entry
	public *string
}

// logPage is how many entries are read at once. Pages are read ahead, so that
// the database and the fold work side by side.
const logPage = 1000

// through folds all entries up to a position. Some may be missing: finding
// that out is the check's.
func (r *refold) through(ctx context.Context, target int64) error {
	if target <= r.position {
		return nil
	}
	if err := r.readSkips(ctx, target); err != nil {
		return err
	}
	err := r.walk(ctx, r.position, target, func(page []logRow) error {
		return r.fold(ctx, page)
	})
	if err != nil {
		return err
	}
	r.position = target
	return nil
}

// walk reads entries after a position up to another, checks them, and hands
// them over page by page.
func (r *refold) walk(ctx context.Context, after, through int64, each func([]logRow) error) error {
	if after >= through {
		return nil
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	type result struct {
		page []logRow
		err  error
	}
	pages := make(chan result, 1)
	go func() {
		defer close(pages)
		for {
			page, err := r.read(ctx, after, through)
			if r.check != nil {
				for i := range page {
					r.check.entry(&page[i])
				}
			}
			select {
			case pages <- result{page, err}:
			case <-ctx.Done():
				return
			}
			if err != nil || len(page) < logPage {
				return
			}
			after = page[len(page)-1].Position
		}
	}()
	var failed error
	for p := range pages { // to its end, so that nobody reads on in the background
		if failed == nil {
			failed = p.err
		}
		if failed != nil {
			stop()
			continue
		}
		if failed = each(p.page); failed == nil {
			r.cfg.Meter.EntriesDone.Add(int64(len(p.page)))
			failed = r.pace(ctx, len(p.page))
		}
	}
	if failed == nil && ctx.Err() != nil {
		failed = context.Cause(ctx)
	}
	return failed
}

// pace waits as long as it is wanted, unless others wait meanwhile.
func (r *refold) pace(ctx context.Context, n int) error {
	if r.locked || n == 0 {
		return nil
	}
	if r.tooLarge(r.size) {
		n *= freshCost
	}
	return r.cfg.Pace(ctx, n)
}

func (r *refold) read(ctx context.Context, after, through int64) ([]logRow, error) {
	rows, err := r.cfg.Pool.Query(ctx, `
		SELECT position, id, type, created_at, data::text, public_event, chain FROM event_log
		 WHERE workspace_id = $1 AND position > $2 AND position <= $3 ORDER BY position LIMIT $4`,
		r.workspaceID, after, through, logPage)
	if err != nil {
		return nil, fmt.Errorf("read the log of %s: %w", r.workspaceID, err)
	}
	defer rows.Close()
	page := make([]logRow, 0, min(logPage, through-after))
	var chain []byte
	for rows.Next() {
		page = append(page, logRow{Entry: domain.Entry{WorkspaceID: r.workspaceID}})
		e := &page[len(page)-1]
		if err := rows.Scan(&e.Position, &e.ID, &e.Type, &e.CreatedAt, &e.Data, &e.public, &chain); err != nil {
			return nil, fmt.Errorf("read the log of %s: %w", r.workspaceID, err)
		}
		e.CreatedAt = e.CreatedAt.UTC()
		copy(e.Chain[:], chain)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("read the log of %s: %w", r.workspaceID, err)
	}
	return page, nil
}

// fold folds a page. A rule that panics is an error of this workspace, not the
// end of the program.
func (r *refold) fold(ctx context.Context, page []logRow) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the entry at position %d of %s cannot be folded: %v", r.at, r.workspaceID, p)
		}
	}()
	entries := make([]domain.Entry, 0, len(page))
	for i := range page {
		if _, skip := r.skipped[page[i].Position]; !skip {
			entries = append(entries, page[i].Entry)
		}
	}
	if err := r.rows.fold(ctx, entries); err != nil {
		return err
	}
	if len(page) > 0 {
		r.position = page[len(page)-1].Position
	}
	return nil
}

// apply gives one entry its effect.
func (r *refold) apply(s *domain.State, e *domain.Entry) {
	r.at = e.Position
	r.cfg.Rules.Apply(s, e)
	if r.folded != nil {
		r.folded(e)
	}
}

// readSkips notes the entries that an operator made the projector pass over.
// One is kept in the transaction that moves the checkpoint past it, so whoever
// has seen the checkpoint sees the skip.
func (r *refold) readSkips(ctx context.Context, through int64) error {
	rows, err := r.cfg.Pool.Query(ctx, `
		SELECT position FROM log_skip
		 WHERE workspace_id = $1 AND consumer = $2 AND position > $3 AND position <= $4 AND position <> $5`,
		r.workspaceID, eventlog.ReadModels, r.position, through, r.restored)
	if err != nil {
		return fmt.Errorf("read which entries of %s were passed over: %w", r.workspaceID, err)
	}
	var position int64
	if _, err := pgx.ForEachRow(rows, []any{&position}, func() error {
		r.skipped[position] = struct{}{}
		return nil
	}); err != nil {
		return fmt.Errorf("read which entries of %s were passed over: %w", r.workspaceID, err)
	}
	return nil
}

// settle ends the first fold: from here on it is noted which rows change.
func (r *refold) settle() {
	r.settled = r.position
	r.rows.settle()
}
