package projections

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/ledgerfeed/ledgerfeed/eventlog"
)

// VerifyRequest says what to verify.
type VerifyRequest struct {
	WorkspaceID string // empty: all
	Since       *Seal  // a chain value kept of the workspace: nothing up to there was touched
}

// Verification is what a verify has found in one workspace.
type Verification struct {
	WorkspaceID string        `json:"workspace_id"`
	Position    int64         `json:"position"` // the checkpoint that the last rows were compared at
	Head        int64         `json:"head"`     // the log was proven up to here
	Chain       string        `json:"chain"`    // of the entry at head, in hex: worth keeping
	Rules       int           `json:"rules"`    // version by which the rows were made; see Status
	Rows        int64         `json:"rows"`     // that the fold holds
	LogIntact   bool          `json:"log_intact"`
	Differences int64         `json:"differences"`
	Took        time.Duration `json:"-"`
}

// Verify proves the logs of workspaces, folds them, and compares every read
// row, checkpoint and anomaly with the fold. It calls each with every
// difference and done with every workspace, one call at a time. It works
// beside a running service, changes nothing, and holds no snapshot for longer
// than it takes to read a page.
func (r *Replay) Verify(ctx context.Context, q VerifyRequest, each func(Difference), done func(Verification)) error {
	list, err := r.sizes(ctx, q.WorkspaceID)
	if err != nil {
		return err
	}
	var mu sync.Mutex
	return r.each(ctx, list, func(ctx context.Context, w workspaceSize) error {
		v, err := r.verify(ctx, w, q.Since, func(d Difference) {
			r.cfg.Meter.Differences.Add(1)
			mu.Lock()
			defer mu.Unlock()
			each(d)
		})
		if err != nil {
			return fmt.Errorf("verify %s: %w", w.id, err)
		}
		mu.Lock()
		defer mu.Unlock()
		done(v)
		return nil
	})
}

// verify verifies one workspace.
func (r *Replay) verify(ctx context.Context, w workspaceSize, since *Seal, report func(Difference)) (Verification, error) {
	began := time.Now()
	v := Verification{WorkspaceID: w.id}
	var mu sync.Mutex // the log is checked while it is folded
	count := func(d Difference) {
		mu.Lock()
		v.Differences++
		mu.Unlock()
		report(d)
	}
	f, err := r.refold(ctx, w, newLogCheck(w.id, since, count))
	if err != nil {
		return v, err
	}
	defer f.rows.close(ctx)
	head, err := f.head(ctx)
	if err != nil {
		return v, err
	}
	if err := f.through(ctx, min(head.checkpoint, max(head.position, head.newest))); err != nil {
		return v, err
	}
	f.settle()
	if err := f.verifyRows(ctx, count); err != nil {
		return v, err
	}
	// What is not projected yet, and the head.
	if head, err = f.head(ctx); err != nil {
		return v, err
	}
	through := max(head.position, head.newest)
	if err := f.walk(ctx, f.position, through, func([]logRow) error { return nil }); err != nil {
		return v, err
	}
	f.check.end(head)
	v.Position, v.Head, v.Chain, v.Rules = head.checkpoint, head.position, fmt.Sprintf("%x", head.chain), head.rules
	v.LogIntact = !f.check.broken
	if v.Rows, err = f.rows.count(ctx); err != nil {
		return v, err
	}
	v.Took = time.Since(began)
	raise(&r.cfg.Meter.LargestRows, v.Rows)
	return v, nil
}

// verifyRows compares all read tables and the checkpoint.
func (r *refold) verifyRows(ctx context.Context, report func(Difference)) error {
	// The first differences wait until it is known whether the rows are wrong
	// or the checkpoint is.
	const most = 10_000
	var waiting []Difference
	tell := func() {
		for _, d := range waiting {
			report(d)
		}
		waiting = nil
	}
	differing := false
	err := r.compareAll(ctx, nil, r.differences(func(d Difference) {
		differing = true
		if waiting = append(waiting, d); len(waiting) > most {
			tell()
		}
	}))
	if err != nil && !errors.Is(err, errCheckpointMoved) {
		return err
	}
	j, jerr := r.judge(ctx, differing)
	if jerr != nil {
		return jerr
	}
	if j.checkpoint != nil {
		report(*j.checkpoint)
		err = nil
	}
	if !j.explains {
		tell()
	}
	return err
}

// differences is a visitor that names every field.
func (r *refold) differences(report func(Difference)) visitor {
	return func(s *sheet, k key, stored [][]byte, image []string) error {
		d := Difference{WorkspaceID: r.workspaceID, Resource: s.resource, ID: s.name(k)}
		switch {
		case stored == nil:
			d.Field, d.Folded = fieldRow, shown(s.answer(image))
			report(d)
		case image == nil:
			texts := make([]string, len(stored))
			for i := range stored {
				texts[i] = string(stored[i])
			}
			d.Field, d.Stored = fieldRow, shown(s.answer(texts))
			report(d)
		default:
			s.differing(stored, image, func(field string, is, must *string) {
				d.Field, d.Stored, d.Folded = field, is, must
				report(d)
			})
		}
		return nil
	}
}

// answer is a whole row as people know it: its answer, or its columns.
func (s *sheet) answer(values []string) string {
	text := ""
	for i, c := range s.columns {
		if c.fragment {
			text += values[i]
		}
	}
	if text != "" {
		return text + "}"
	}
	for i, c := range s.columns {
		text += c.name + " " + values[i]
	}
	return text
}

// head reads the head of the log and the checkpoint.
func (r *refold) head(ctx context.Context) (*logHead, error) {
	var (
		h     logHead
		at    *time.Time
		chain []byte
	)
	err := r.cfg.Pool.QueryRow(ctx, `
		SELECT h.position, nullif(h.created_at, '-infinity'), h.chain, c.position, c.rules,
		       coalesce((SELECT e.position FROM event_log e WHERE e.workspace_id = $1 ORDER BY e.position DESC LIMIT 1), 0)
		  FROM log_head h JOIN log_checkpoint c ON c.workspace_id = h.workspace_id AND c.consumer = $2
		 WHERE h.workspace_id = $1`, r.workspaceID, eventlog.ReadModels).Scan(&h.position, &at, &chain, &h.checkpoint, &h.rules, &h.newest)
	if err != nil {
		return nil, fmt.Errorf("read the head of %s: %w", r.workspaceID, err)
	}
	if at != nil {
		h.createdAt = at.UTC()
	}
	copy(h.chain[:], chain)
	return &h, nil
}
