package replay

import (
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/internal/audit"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
	"github.com/ledgerfeed/ledgerfeed/projections/table"
)

const (
	// maxUnderLock is the most entries that are folded while the checkpoint is locked. If there are
	// more, the repair releases the lock, folds them, and begins again.
	maxUnderLock = 2000

	// maxAttempts limits how often that happens. A workspace that grows faster than it is folded is
	// then locked for as long as it takes.
	maxAttempts = 5
)

// repair writes the rows that differ, in a transaction that locks the checkpoint.
func (f *workspaceFold) repair(ctx context.Context, scope *rebuildScope, b *Rebuilt) error {
	for attempt := 0; ; attempt++ {
		behind := false
		err := pg.InTx(ctx, f.cfg.Changes, func(tx pgx.Tx) error {
			position, err := lockCheckpoint(ctx, tx, f.workspaceID)
			if err != nil {
				return err
			}
			f.locked = true
			defer func() { f.locked = false }()
			if behind = position > f.position+maxUnderLock && attempt < maxAttempts; behind {
				return nil
			}
			return f.repairAt(ctx, tx, position, scope, b)
		})
		if err != nil {
			return err
		}
		if !behind {
			break
		}
		head, err := f.readHead(ctx)
		if err != nil {
			return err
		}
		if err := f.catchUp(ctx, min(head.checkpoint, head.end())); err != nil {
			return err
		}
	}
	if b.Written+b.Deleted > 0 && f.cfg.Notify != nil {
		f.cfg.Notify(eventlog.TopicProjected, f.workspaceID)
	}
	return nil
}

// repairAt makes the rows match a position, while the checkpoint is locked.
func (f *workspaceFold) repairAt(ctx context.Context, tx pgx.Tx, position int64, scope *rebuildScope, b *Rebuilt) error {
	if err := f.catchUp(ctx, position); err != nil {
		return err
	}
	for _, t := range f.tables {
		if !scope.includes(t) {
			continue
		}
		if err := f.repairTable(ctx, tx, t, b); err != nil {
			return err
		}
	}
	if scope.restored != 0 {
		if err := f.deleteSkip(ctx, tx, scope.restored); err != nil {
			return err
		}
	}
	if err := f.moveCheckpoint(ctx, tx, position, scope, b); err != nil {
		return err
	}
	return audit.Add(ctx, tx, f.cfg.Clock(), scope.change(b))
}

// lockCheckpoint blocks the projector of a workspace and returns the checkpoint, or the end of the
// log if the checkpoint is above it.
func lockCheckpoint(ctx context.Context, tx pgx.Tx, workspaceID string) (int64, error) {
	var checkpoint, end int64
	err := tx.QueryRow(ctx, `SELECT position FROM log_checkpoint WHERE workspace_id = $1 AND consumer = $2 FOR UPDATE`,
		workspaceID, eventlog.ReadModels).Scan(&checkpoint)
	if err != nil {
		return 0, fmt.Errorf("lock the checkpoint of %s: %w", workspaceID, err)
	}
	// A separate statement, so that it sees what was committed before the lock was taken.
	err = tx.QueryRow(ctx, `SELECT position FROM log_head WHERE workspace_id = $1`, workspaceID).Scan(&end)
	if err != nil {
		return 0, fmt.Errorf("read the head of %s: %w", workspaceID, err)
	}
	return min(checkpoint, end), nil
}

// moveCheckpoint records with the checkpoint that rows have changed (readers use position and
// moved_at as the version of the rows) and, after a rebuild of everything, which rules made all of
// them. If rows have changed, a workspace that is waiting after a failure is retried.
func (f *workspaceFold) moveCheckpoint(ctx context.Context, tx pgx.Tx, position int64, scope *rebuildScope, b *Rebuilt) error {
	var rules *int // nil keeps the version: older rules may have made the rows of other resources
	if scope.everything() {
		b.Rules = f.cfg.Rules.Version
		rules = &b.Rules
	}
	_, err := tx.Exec(ctx, `
		UPDATE log_checkpoint SET position = $3, rules = coalesce($4, rules),
		       moved_at = CASE WHEN $5 THEN greatest($6, (moved_at AT TIME ZONE 'UTC' + interval '1 microsecond') AT TIME ZONE 'UTC') ELSE moved_at END,
		       retry_at = CASE WHEN $5 THEN NULL ELSE retry_at END
		 WHERE workspace_id = $1 AND consumer = $2 AND (position <> $3 OR rules <> $4 OR $5)`,
		f.workspaceID, eventlog.ReadModels, position, rules, b.Written+b.Deleted > 0, f.cfg.Clock())
	if err != nil {
		return fmt.Errorf("mark %s as rebuilt: %w", f.workspaceID, err)
	}
	return nil
}

// repairTable compares every row that may be wrong, while the checkpoint is locked, and writes
// those that are. These are rows that the comparison found, rows that the fold has changed since,
// and rows that the projector has written since, possibly from wrong ones.
func (f *workspaceFold) repairTable(ctx context.Context, tx pgx.Tx, t *table.Table, b *Rebuilt) error {
	err := t.KeysSince(ctx, tx, f.workspaceID, f.firstFold, func(k table.Key) error { return f.rows.markDirty(ctx, t, k) })
	if err != nil {
		return err
	}
	most := firstPageRows // rows may be large
	return f.rows.dirty(ctx, t, func(keys []table.Key) error {
		for len(keys) > 0 {
			some := keys[:min(most, len(keys))]
			size, err := f.repairRows(ctx, tx, t, some, b)
			if err != nil {
				return err
			}
			most, keys = table.NextRows(len(some), size), keys[len(some):]
		}
		return nil
	})
}

// repairRows repairs the rows with these keys, and returns how many bytes the expected rows have.
func (f *workspaceFold) repairRows(ctx context.Context, tx pgx.Tx, t *table.Table, keys []table.Key, b *Rebuilt) (size int, err error) {
	stored, err := t.Pick(ctx, tx, f.workspaceID, keys)
	if err != nil {
		return 0, err
	}
	var r tableRepair
	err = f.rows.expected(ctx, t, keys, func(i int, expected []string) error {
		r.add(keys[i], stored[keys[i]], expected)
		for _, v := range expected {
			size += len(v)
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	if err := r.write(ctx, tx, t, f.workspaceID); err != nil {
		return 0, err
	}
	deleted, written := int64(len(r.extra)), int64(len(r.different)+len(r.missing))
	b.Deleted += deleted
	b.Written += written
	f.cfg.Progress.RowsWritten.Add(deleted + written)
	return size, nil
}

// tableRepair is what is wrong with some rows of a table.
type tableRepair struct {
	extra              []table.Key // rows that must not be there
	different, missing []table.Row // rows as they must be
}

// add compares a row. stored is nil if the row is missing; expected is nil if it must not be there.
func (r *tableRepair) add(k table.Key, stored [][]byte, expected []string) {
	switch {
	case stored == nil && expected == nil:
	case expected == nil:
		r.extra = append(r.extra, k)
	case stored == nil:
		r.missing = append(r.missing, table.Row{Key: k, Values: slices.Clone(expected)})
	case !table.Equal(stored, expected):
		r.different = append(r.different, table.Row{Key: k, Values: slices.Clone(expected)})
	}
}

func (r *tableRepair) write(ctx context.Context, tx pgx.Tx, t *table.Table, workspaceID string) error {
	if len(r.extra) > 0 {
		if err := t.Delete(ctx, tx, workspaceID, r.extra); err != nil {
			return err
		}
	}
	if len(r.different) > 0 {
		if err := t.Save(ctx, tx, workspaceID, r.different); err != nil {
			return err
		}
	}
	if len(r.missing) > 0 { // nothing else can add them while the checkpoint is locked
		return t.Copy(ctx, tx, workspaceID, r.missing)
	}
	return nil
}
