package eventlog

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/domain"
)

// entryColumns are read by scanEntries, in this order.
const entryColumns = `e.position, e.id, e.type, e.created_at, e.data::text, e.chain`

// Read returns the entries of a workspace after a position, oldest first, at
// most limit of them.
func (l *Log) Read(ctx context.Context, workspaceID string, after int64, limit int) ([]domain.Entry, error) {
	rows, err := l.pool.Query(ctx, `
		SELECT `+entryColumns+` FROM event_log e
		 WHERE e.workspace_id = $1 AND e.position > $2 ORDER BY e.position LIMIT $3`,
		workspaceID, after, limit)
	if err != nil {
		return nil, fmt.Errorf("read the log of %s: %w", workspaceID, err)
	}
	entries, err := scanEntries(rows, workspaceID)
	if err != nil {
		return nil, fmt.Errorf("read the log of %s: %w", workspaceID, err)
	}
	return entries, nil
}

func scanEntries(rows pgx.Rows, workspaceID string) ([]domain.Entry, error) {
	defer rows.Close()
	var entries []domain.Entry
	for rows.Next() {
		e := domain.Entry{WorkspaceID: workspaceID}
		if err := scanEntry(rows, &e); err != nil {
			return nil, err
		}
		entries = append(entries, e)
	}
	return entries, rows.Err()
}

func scanEntry(rows pgx.Rows, e *domain.Entry, more ...any) error {
	var chain []byte
	if err := rows.Scan(append([]any{&e.Position, &e.ID, &e.Type, &e.CreatedAt, &e.Data, &chain}, more...)...); err != nil {
		return fmt.Errorf("scan an entry: %w", err)
	}
	e.CreatedAt = e.CreatedAt.UTC()
	copy(e.Chain[:], chain)
	return nil
}

// readPage is how many entries a walk reads at a time.
const readPage = 1000

// Walk calls each with every entry of a workspace after a position, oldest
// first, up to those committed when it gets there. An error of each ends the
// walk and is returned.
func (l *Log) Walk(ctx context.Context, workspaceID string, after int64, each func(*domain.Entry) error) error {
	for {
		entries, err := l.Read(ctx, workspaceID, after, readPage)
		if err != nil {
			return err
		}
		for i := range entries {
			if err := each(&entries[i]); err != nil {
				return err
			}
		}
		if len(entries) < readPage {
			return nil
		}
		after = entries[len(entries)-1].Position
	}
}

// sweepEvery is how long a follower trusts in being woken.
const sweepEvery = time.Second

// Follow is Walk without an end: at the newest entry it waits for the next. It
// returns when ctx ends or each fails.
func (l *Log) Follow(ctx context.Context, notifier *Notifier, workspaceID string, after int64, each func(*domain.Entry) error) error {
	waiter, done := notifier.Subscribe(TopicAppended)
	defer done()
	sweep := time.NewTicker(sweepEvery)
	defer sweep.Stop()
	for {
		err := l.Walk(ctx, workspaceID, after, func(e *domain.Entry) error {
			if err := each(e); err != nil {
				return err
			}
			after = e.Position
			return nil
		})
		if err != nil {
			return err
		}
		if !awake(ctx, waiter, sweep.C, workspaceID) {
			return context.Cause(ctx)
		}
	}
}

// awake waits until the workspace was announced or it is time to sweep; it
// reports false when ctx ended first.
func awake(ctx context.Context, waiter *Subscription, sweep <-chan time.Time, workspaceID string) bool {
	for {
		select {
		case <-ctx.Done():
			return false
		case <-sweep:
			return true
		case <-waiter.C:
			if ids, all := waiter.Take(); all || slices.Contains(ids, workspaceID) {
				return true
			}
		}
	}
}
