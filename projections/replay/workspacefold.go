package replay

import (
	"context"
	"fmt"
	"time"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
)

// workspaceFold folds the log of one workspace again, from position 1. Only one goroutine may use
// it.
type workspaceFold struct {
	*Replayer
	workspaceID string
	size        workspaceSize
	rows        rowStore
	position    int64 // entries up to here are folded
	firstFold   int64 // position at freeze

	skipped    map[int64]struct{}  // positions of entries without an effect
	restored   int64               // position of a skipped entry to apply after all; 0: none
	check      *logCheck           // nil: entries are not checked
	trees      treeFold            // nil: the event trees are neither checked nor rebuilt
	locked     bool                // the checkpoint is locked, so the rate is not limited
	askedAt    int64               // position at which it was last asked for deletions
	applying   int64               // position of the entry being folded, for the error if folding panics
	afterApply func(*domain.Entry) // called after an entry was folded, if set
	onSkip     func(*domain.Entry) // called for an entry that is skipped, if set

	// frozenAt is set while rows are compared without folding further; the checkpoint must then
	// stay at this position. nil: entries are folded up to the checkpoint at which rows are read.
	frozenAt *int64
}

// fold prepares the fold of a workspace, in memory or in shadow tables. Nothing is folded yet. The
// caller must close its rows.
func (r *Replayer) fold(ctx context.Context, w workspaceSize, check *logCheck) (*workspaceFold, error) {
	f := r.foldWithoutRows(w.id, check)
	f.size = w
	if w.budget != nil {
		f.rows = newMemoryStore(r.tables, f.apply)
		return f, nil
	}
	rows, err := r.newShadowStore(ctx, w.id, f.apply)
	if err != nil {
		return nil, err
	}
	rows.limit = f.limitRate
	f.rows = rows
	return f, nil
}

// foldWithoutRows leaves it to the caller to set rows.
func (r *Replayer) foldWithoutRows(workspaceID string, check *logCheck) *workspaceFold {
	return &workspaceFold{Replayer: r, workspaceID: workspaceID, skipped: map[int64]struct{}{}, check: check}
}

// logPage is how many entries are read at once, unless their data exceeds pageBytes. Pages are read
// ahead, so that the database and the fold work in parallel.
const (
	logPage   = 1000
	pageBytes = 2 << 20
)

// foldTo folds all entries up to a position. Missing entries are not an error
// here: the check reports them.
func (f *workspaceFold) foldTo(ctx context.Context, position int64) error {
	if position <= f.position {
		return nil
	}
	if err := f.readSkips(ctx, position); err != nil {
		return err
	}
	if err := f.walk(ctx, f.position, position, f.foldPage); err != nil {
		return err
	}
	f.position = position
	return nil
}

// walk reads and checks the entries after a position, up to and including through, and calls each
// with page after page.
func (f *workspaceFold) walk(ctx context.Context, after, through int64, each func(context.Context, []logRow) error) error {
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
		for most := logPage; ; {
			page, more, err := f.readLog(ctx, f.workspaceID, after, through, most)
			if err == nil {
				err = checkPage(ctx, f, page)
			}
			select {
			case pages <- result{page, err}:
			case <-ctx.Done():
				return
			}
			if err != nil || !more {
				return
			}
			after = page[len(page)-1].Position
			most = min(2*len(page), logPage) // rows beyond the page would be read and thrown away
		}
	}()
	var failed error
	for p := range pages { // until it is closed, so that the goroutine has ended
		if failed == nil {
			failed = p.err
		}
		if failed != nil {
			stop()
			continue
		}
		if failed = each(ctx, p.page); failed == nil {
			f.cfg.Progress.EntriesDone.Add(int64(len(p.page)))
			failed = f.limitRate(ctx, len(p.page))
		}
	}
	if failed == nil && ctx.Err() != nil {
		failed = context.Cause(ctx)
	}
	return failed
}

// checkOnly reads entries and checks them without folding them.
func checkOnly(context.Context, []logRow) error { return nil }

// limitRate waits for the rate limiter, but not while the checkpoint is locked.
func (f *workspaceFold) limitRate(ctx context.Context, n int) error {
	if f.locked {
		return nil
	}
	if _, inTables := f.rows.(*shadowStore); inTables {
		n *= shadowCost
	}
	return f.cfg.Limit(ctx, n)
}

// readLog reads the next entries; more says that others may follow.
func (r *Replayer) readLog(ctx context.Context, workspaceID string, after, through int64, most int) (page []logRow, more bool, err error) {
	// Most workspaces forget nobody, so whom an entry is about is looked up only where somebody is
	// forgotten.
	rows, err := r.cfg.Pool.Query(ctx, `
		SELECT e.position, e.id, e.type, e.created_at, e.data::text, e.public_event, e.chain, e.public_event IS NOT NULL AND `+eventlog.NeedsPay("e")+`,
		       d.salt, d.value, coalesce(d.subject, ''), coalesce(f.position, 0), coalesce(f.passed, 0),
		       log_forgets(e.type, e.data) IS NOT NULL AND NOT EXISTS (
		           SELECT FROM log_forgotten g WHERE g.workspace_id = e.workspace_id AND g.subject = log_forgets(e.type, e.data) AND g.position = e.position)
		  FROM `+eventlog.FromLog+`
		  LEFT JOIN LATERAL (
		       SELECT max(g.position) AS position, max(g.position) FILTER (WHERE g.reached >= e.position) AS passed FROM log_forgotten g
		        WHERE (SELECT EXISTS (SELECT FROM log_forgotten a WHERE a.workspace_id = $1)) AND log_commits(e.data::text)
		          AND g.workspace_id = e.workspace_id AND g.subject = ANY (string_to_array(log_subject(e.type, e.data), ' ')) AND g.position > e.position) AS f ON true
		 WHERE e.workspace_id = $1 AND e.position > $2 AND e.position <= $3 ORDER BY e.position LIMIT $4`,
		workspaceID, after, through, most)
	if err != nil {
		return nil, false, fmt.Errorf("read the log of %s: %w", workspaceID, err)
	}
	defer rows.Close()
	page = make([]logRow, 0, min(int64(most), through-after))
	var (
		chain, salt []byte
		value       *string
	)
	size := 0
	for !more && rows.Next() {
		page = append(page, logRow{Entry: domain.Entry{WorkspaceID: workspaceID}})
		e := &page[len(page)-1]
		if err := rows.Scan(&e.Position, &e.ID, &e.Type, &e.CreatedAt, &e.Data, &e.public, &chain, &e.pay, &salt, &value, &e.subject, &e.forgotten, &e.passed, &e.unmarked); err != nil {
			return nil, false, fmt.Errorf("read the log of %s: %w", workspaceID, err)
		}
		e.CreatedAt = e.CreatedAt.UTC()
		copy(e.Chain[:], chain)
		eventlog.SetDetached(&e.Entry, salt, value)
		size += len(e.Data) + len(e.Value)
		more = size >= pageBytes
	}
	rows.Close()
	if err := rows.Err(); err != nil {
		return nil, false, fmt.Errorf("read the log of %s: %w", workspaceID, err)
	}
	return page, more || len(page) == most, nil
}

// readHead reads the head of the log and the checkpoint.
func (f *workspaceFold) readHead(ctx context.Context) (*logHead, error) {
	var (
		h     logHead
		at    *time.Time
		chain []byte
	)
	err := f.cfg.Pool.QueryRow(ctx, `
		SELECT h.position, nullif(h.created_at, '-infinity'), h.chain, c.position, c.rules,
		       coalesce((SELECT e.position FROM event_log e WHERE e.workspace_id = $1 ORDER BY e.position DESC LIMIT 1), 0)
		  FROM log_head h JOIN log_checkpoint c ON c.workspace_id = h.workspace_id AND c.consumer = $2
		 WHERE h.workspace_id = $1`, f.workspaceID, eventlog.ReadModels).Scan(&h.position, &at, &chain, &h.checkpoint, &h.rules, &h.newest)
	if err != nil {
		return nil, fmt.Errorf("read the head of %s: %w", f.workspaceID, err)
	}
	if at != nil {
		h.createdAt = at.UTC()
	}
	copy(h.chain[:], chain)
	return &h, nil
}

// foldPage folds a page of entries. A rule that panics is an error of this
// workspace and does not end the program.
func (f *workspaceFold) foldPage(ctx context.Context, page []logRow) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the entry at position %d of %s cannot be folded: %v", f.applying, f.workspaceID, p)
		}
	}()
	entries := make([]domain.Entry, 0, len(page))
	for i := range page {
		if _, skip := f.skipped[page[i].Position]; !skip {
			entries = append(entries, page[i].Entry)
		} else if f.onSkip != nil {
			f.onSkip(&page[i].Entry)
		}
	}
	if f.size.budget != nil && !f.size.budget.add(page) {
		return errOutgrown
	}
	if err := f.rows.fold(ctx, entries); err != nil {
		return err
	}
	if len(page) > 0 {
		f.position = page[len(page)-1].Position
	}
	return nil
}

// apply folds one entry by the rules.
func (f *workspaceFold) apply(s *domain.State, e *domain.Entry) {
	f.applying = e.Position
	f.cfg.Rules.Apply(s, e)
	if f.afterApply != nil {
		f.afterApply(e)
	}
}

// readSkips reads which entries up to a position an operator made the projector skip. The
// transaction that moves the checkpoint past an entry also stores its skip, so everyone who has
// read the checkpoint sees the skip.
func (f *workspaceFold) readSkips(ctx context.Context, through int64) error {
	var position int64
	const skips = `
		SELECT position FROM log_skip
		 WHERE workspace_id = $1 AND consumer = $2 AND position > $3 AND position <= $4 AND position <> $5`
	args := []any{f.workspaceID, eventlog.ReadModels, f.position, through, f.restored}
	err := pg.ForEach(ctx, f.cfg.Pool, skips, args, []any{&position}, func() error {
		f.skipped[position] = struct{}{}
		return nil
	})
	if err != nil {
		return fmt.Errorf("read which entries of %s are skipped: %w", f.workspaceID, err)
	}
	return nil
}

// freeze ends the first fold: from here on, rows that change are dirty.
func (f *workspaceFold) freeze() {
	f.firstFold = f.position
	f.rows.freeze()
}
