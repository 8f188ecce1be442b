package replay

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/ledgerfeed/ledgerfeed/eventlog/eventtree"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
	"github.com/ledgerfeed/ledgerfeed/projections/table"
)

// VerifyRequest says what to verify.
type VerifyRequest struct {
	WorkspaceID string           // empty: all
	Since       *ChainCheckpoint // a kept chain value of the workspace: proves that nothing up to it was changed
	Kept        []eventtree.Kept // kept checkpoints of the workspace's event trees: they prove the same
}

// Verification is what Verify has found in one workspace.
type Verification struct {
	WorkspaceID string        `json:"workspace_id"`
	Position    int64         `json:"position"` // the checkpoint that the last rows were compared at
	Head        int64         `json:"head"`     // the log was checked up to here
	Chain       string        `json:"chain"`    // of the entry at head, in hex: with head, a ChainCheckpoint to keep
	Rules       int           `json:"rules"`    // version by which the rows were made; see projections.Status
	Rows        int64         `json:"rows"`     // that the fold holds
	LogIntact   bool          `json:"log_intact"`
	Differences int64         `json:"differences"`
	Took        time.Duration `json:"-"`
}

// Verify checks the logs of workspaces, folds them, and compares every read row, checkpoint and
// anomaly with the fold. It also compares the event trees, as far as they are built, with the log.
// It calls each with every difference and done with every workspace, one call at a time. It works
// alongside a running service, changes nothing, and holds no snapshot for longer than it takes to
// read a page.
func (r *Replayer) Verify(ctx context.Context, q VerifyRequest, each func(Difference), done func(Verification)) error {
	var mu sync.Mutex // each and done are not called at the same time either
	return forEach(ctx, r, q.WorkspaceID, "verify", func(ctx context.Context, w workspaceSize) (Verification, error) {
		return r.verify(ctx, w, q, func(d Difference) {
			r.cfg.Progress.Differences.Add(1)
			mu.Lock()
			defer mu.Unlock()
			each(d)
		})
	}, func(v Verification) {
		mu.Lock()
		defer mu.Unlock()
		done(v)
	})
}

// verify verifies one workspace.
func (r *Replayer) verify(ctx context.Context, w workspaceSize, q VerifyRequest, report func(Difference)) (v Verification, err error) {
	type place struct{ resource, id, field string }
	reported, again := map[place]struct{}{}, false
	err = r.withMemory(ctx, w, func(ctx context.Context, w workspaceSize) error {
		v, err = r.verifyWithin(ctx, w, q, func(d Difference) {
			at := place{d.Resource, d.ID, d.Field}
			if _, ok := reported[at]; again && ok {
				return
			}
			if !again && len(reported) < mostRemembered {
				reported[at] = struct{}{}
			}
			report(d)
		})
		again = true // a workspace that outgrows the memory is verified from its start
		return err
	})
	return v, err
}

// mostRemembered is how many differences are not reported again when a workspace is verified again.
const mostRemembered = 10_000

// verifyWithin verifies one workspace in the memory that it has.
func (r *Replayer) verifyWithin(ctx context.Context, w workspaceSize, q VerifyRequest, report func(Difference)) (Verification, error) {
	began := time.Now()
	v := Verification{WorkspaceID: w.id}
	var mu sync.Mutex // the log is checked and folded in different goroutines
	count := func(d Difference) {
		mu.Lock()
		defer mu.Unlock()
		v.Differences++
		report(d)
	}
	f, err := r.fold(ctx, w, newLogCheck(w.id, q.Since, count))
	if err != nil {
		return v, err
	}
	defer f.rows.close(ctx)
	// Read the trees before the head, so that the checked log includes everything in them.
	if f.trees, err = r.newTreeCheck(ctx, w.id, q.Kept, count); err != nil {
		return v, err
	}
	head, err := f.readHead(ctx)
	if err != nil {
		return v, err
	}
	if err := f.foldTo(ctx, min(head.checkpoint, head.end())); err != nil {
		return v, err
	}
	f.freeze()
	if err := f.verifyRows(ctx, count); err != nil {
		return v, err
	}
	// What is left is the log after the checkpoint, and the head.
	if head, err = f.readHead(ctx); err != nil {
		return v, err
	}
	if err := f.walk(ctx, f.position, head.end(), checkOnly); err != nil {
		return v, err
	}
	f.check.end(head)
	if err := f.checkDeletions(ctx); err != nil {
		return v, err
	}
	if err := f.trees.End(ctx, r.cfg.Pool); err != nil {
		return v, err
	}
	v.Position, v.Head, v.Chain, v.Rules = head.checkpoint, head.position, fmt.Sprintf("%x", head.chain), head.rules
	v.LogIntact = !f.check.broken
	if v.Rows, err = f.rows.count(ctx); err != nil {
		return v, err
	}
	v.Took = time.Since(began)
	raise(&r.cfg.Progress.LargestRows, v.Rows)
	return v, nil
}

// errForgottenMeanwhile means that values were deleted while rows from before were compared: the fold
// up to there cannot have what these rows show.
var errForgottenMeanwhile = errors.New("values were deleted meanwhile")

// checkForgottenMeanwhile is called for a difference. It asks once for each position of the fold.
func (f *workspaceFold) checkForgottenMeanwhile(ctx context.Context) error {
	if f.askedAt == f.position {
		return nil
	}
	f.askedAt = f.position
	var meanwhile bool
	err := f.cfg.Pool.QueryRow(ctx, `SELECT EXISTS (SELECT FROM log_forgotten WHERE workspace_id = $1 AND position > $2 AND reached > 0)`, f.workspaceID, f.position).Scan(&meanwhile)
	if err != nil {
		return fmt.Errorf("look for deletions in %s: %w", f.workspaceID, err)
	}
	if meanwhile {
		return errForgottenMeanwhile
	}
	return nil
}

// checkDeletions reports deletions of detached values that no entry of the log began.
func (f *workspaceFold) checkDeletions(ctx context.Context) error {
	var (
		subject  string
		position int64
	)
	const unfounded = `
		SELECT g.subject, g.position FROM log_forgotten g LEFT JOIN event_log e ON e.workspace_id = g.workspace_id AND e.position = g.position
		 WHERE g.workspace_id = $1 AND log_forgets(e.type, e.data) IS DISTINCT FROM g.subject ORDER BY g.position`
	err := pg.ForEach(ctx, f.cfg.Pool, unfounded, []any{f.workspaceID}, []any{&subject, &position}, func() error {
		f.check.difference(fmt.Sprintf("position %d", position), "deletion", shown(subject), nil)
		return nil
	})
	if err != nil {
		return fmt.Errorf("read the deletions of %s: %w", f.workspaceID, err)
	}
	return nil
}

// maxHeldBack is how many differences of rows are held back until it is known
// whether the rows or the checkpoint are wrong. With more, all are reported.
const maxHeldBack = 10_000

// verifyRows compares all read tables and the checkpoint.
func (f *workspaceFold) verifyRows(ctx context.Context, report func(Difference)) error {
	var heldBack []Difference
	reportHeldBack := func() {
		for _, d := range heldBack {
			report(d)
		}
		heldBack = nil
	}
	differing := false
	compare := func() error {
		note := f.differences(func(d Difference) {
			differing = true
			if heldBack = append(heldBack, d); len(heldBack) > maxHeldBack {
				reportHeldBack()
			}
		})
		return f.compareAll(ctx, everyTable, func(t *table.Table, k table.Key, stored [][]byte, expected []string) error {
			if err := f.checkForgottenMeanwhile(ctx); err != nil {
				return err
			}
			return note(t, k, stored, expected)
		})
	}
	err := compare()
	for errors.Is(err, errForgottenMeanwhile) {
		heldBack, differing = nil, false
		err = compare() // the fold goes on past the entry that forgets
	}
	if err != nil && !errors.Is(err, errCheckpointMoved) {
		return err
	}
	diagnosis, derr := f.diagnoseCheckpoint(ctx, differing)
	if derr != nil {
		return derr
	}
	if diagnosis.checkpoint != nil {
		report(*diagnosis.checkpoint)
		err = nil
	}
	if !diagnosis.explainsRows {
		reportHeldBack()
	}
	return err
}

// differences returns a mismatch that reports every field.
func (f *workspaceFold) differences(report func(Difference)) mismatch {
	return func(t *table.Table, k table.Key, stored [][]byte, expected []string) error {
		d := Difference{WorkspaceID: f.workspaceID, Resource: t.Label, ID: t.KeyName(k)}
		switch {
		case stored == nil:
			d.Field, d.Folded = fieldRow, shown(t.Answer(expected))
			report(d)
		case expected == nil:
			texts := make([]string, len(stored))
			for i := range stored {
				texts[i] = string(stored[i])
			}
			d.Field, d.Stored = fieldRow, shown(t.Answer(texts))
			report(d)
		default:
			compareValues(t, stored, expected, func(field string, is, must *string) {
				d.Field, d.Stored, d.Folded = field, is, must
				report(d)
			})
		}
		return nil
	}
}
