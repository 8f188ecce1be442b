package replay

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ledgerfeed/ledgerfeed/internal/audit"
	"github.com/ledgerfeed/ledgerfeed/internal/texts"
	"github.com/ledgerfeed/ledgerfeed/projections/table"
)

// RebuildRequest says what to rebuild.
type RebuildRequest struct {
	WorkspaceID string   // empty: all
	Resources   []string // some of Resources; empty: everything
}

// Rebuilt is what a rebuild did in one workspace.
type Rebuilt struct {
	WorkspaceID string        `json:"workspace_id"`
	Position    int64         `json:"position"` // the rows match a fold up to here
	Head        int64         `json:"head"`     // position of the newest entry when it began
	Rows        int64         `json:"rows"`     // that the fold holds
	Written     int64         `json:"written"`  // rows that were missing or different
	Deleted     int64         `json:"deleted"`  // rows that must not be there
	RulesBefore int           `json:"rules_before"`
	Rules       int           `json:"rules"`
	Refused     string        `json:"refused,omitempty"` // why nothing was changed
	Took        time.Duration `json:"-"`
}

// Resources returns the names that a rebuild can be limited to, as in the paths
// of the API.
func Resources() []string {
	var names []string
	for _, t := range table.NewSet().All() {
		if t.HasID() {
			names = append(names, t.Resource)
		}
	}
	return names
}

// UnknownResourceError is the error for a name that is not one of Resources.
type UnknownResourceError struct{ Resource string }

// Error names the resource and those that exist.
func (e *UnknownResourceError) Error() string {
	return fmt.Sprintf("there is no resource %q; want some of %s%s", e.Resource, strings.Join(Resources(), ", "), texts.DidYouMean(e.Resource, Resources()))
}

// Rebuild makes the rows of workspaces match a fold of their logs: it repairs what Verify would
// report. It calls done with every workspace, one call at a time.
//
// It compares a workspace while the projector continues. Then it locks the checkpoint, which blocks
// the workspace's projector but no reader and no append, and writes and commits the rows that
// differ together: readers see the old rows or the new ones. It does not write correct rows. It
// refuses a workspace whose log itself is wrong.
func (r *Replayer) Rebuild(ctx context.Context, q RebuildRequest, done func(Rebuilt)) error {
	for _, name := range q.Resources {
		if !slices.Contains(Resources(), name) {
			return &UnknownResourceError{name}
		}
	}
	return forEach(ctx, r, q.WorkspaceID, "rebuild", func(ctx context.Context, w workspaceSize) (Rebuilt, error) {
		return r.rebuild(ctx, w, rebuildScope{resources: q.Resources})
	}, done)
}

// rebuildScope says what to rebuild in a workspace.
type rebuildScope struct {
	resources []string // empty: everything
	restored  int64    // position of a skipped entry to apply after all; 0: none
}

func (s *rebuildScope) everything() bool { return len(s.resources) == 0 }

func (s *rebuildScope) includes(t *table.Table) bool {
	return s.everything() || slices.Contains(s.resources, t.Resource)
}

// change returns the line of a rebuild for the audit trail.
func (s *rebuildScope) change(b *Rebuilt) audit.Change {
	c := audit.Change{
		WorkspaceID: b.WorkspaceID, Action: audit.Rebuild, ObjectName: strings.Join(s.resources, ", "),
		Detail: fmt.Sprintf("%s written, %d deleted; rules %d, before %d", texts.Count(b.Written, "row", "rows"), b.Deleted, b.Rules, b.RulesBefore),
	}
	if s.restored != 0 {
		c.Action, c.ObjectName = audit.EntryRestore, audit.EntryName(s.restored)
	}
	return c
}

// maxNamedFaults is how many faults of a log a refusal names.
const maxNamedFaults = 3

// logFaults are the first faults of a log, by name.
type logFaults []string

func (l *logFaults) add(d Difference) {
	if len(*l) < maxNamedFaults {
		*l = append(*l, d.ID+" ("+d.Field+")")
	}
}

// refusal says why a workspace whose log has faults is not rebuilt.
func (l *logFaults) refusal() string {
	return "its log is not what was appended: " + strings.Join(*l, ", ") + "; run ledgerfeed verify for all differences"
}

// rebuild rebuilds one workspace.
func (r *Replayer) rebuild(ctx context.Context, w workspaceSize, scope rebuildScope) (b Rebuilt, err error) {
	err = r.withMemory(ctx, w, func(ctx context.Context, w workspaceSize) error {
		b, err = r.rebuildWithin(ctx, w, scope)
		return err
	})
	return b, err
}

// rebuildWithin rebuilds one workspace in the memory that it has.
func (r *Replayer) rebuildWithin(ctx context.Context, w workspaceSize, scope rebuildScope) (Rebuilt, error) {
	began := time.Now()
	b := Rebuilt{WorkspaceID: w.id}
	var faults logFaults
	f, err := r.fold(ctx, w, newLogCheck(w.id, nil, faults.add))
	if err != nil {
		return b, err
	}
	defer f.rows.close(ctx)
	f.restored = scope.restored
	head, err := f.readHead(ctx)
	if err != nil {
		return b, err
	}
	b.RulesBefore, b.Rules, b.Head = head.rules, head.rules, head.position
	if err := f.foldTo(ctx, min(head.checkpoint, head.end())); err != nil {
		return b, err
	}
	f.freeze()
	if err := f.walk(ctx, f.position, head.end(), checkOnly); err != nil {
		return b, err
	}
	if f.check.end(head); f.check.broken {
		b.Position = head.checkpoint
		b.Refused = faults.refusal()
		return b, nil
	}
	f.check = nil // entries from here on have just been appended
	if err := f.findDirty(ctx, &scope, head); err != nil {
		return b, err
	}
	if err := f.repair(ctx, &scope, &b); err != nil {
		return b, err
	}
	if b.Rows, err = f.rows.count(ctx); err != nil {
		return b, err
	}
	b.Position, b.Took = f.position, time.Since(began)
	raise(&r.cfg.Progress.LargestRows, b.Rows)
	return b, nil
}

// findDirty compares the tables and marks the rows that differ.
func (f *workspaceFold) findDirty(ctx context.Context, scope *rebuildScope, head *logHead) error {
	if head.checkpoint > head.end() { // the checkpoint is wrong too, and stays there until it is repaired
		f.frozenAt = &head.checkpoint
		defer func() { f.frozenAt = nil }()
	}
	return f.compareAll(ctx, scope.includes, func(t *table.Table, k table.Key, _ [][]byte, _ []string) error {
		return f.rows.markDirty(ctx, t, k)
	})
}
