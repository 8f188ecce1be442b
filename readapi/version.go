package readapi

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ledgerfeed/ledgerfeed/eventlog"
)

// rowsVersion names a state of a workspace's read tables: the visible position
// and, so that a repair at the same position shows too, when it moved.
func rowsVersion(position int64, movedAt string) string {
	return strconv.FormatInt(position, 10) + "." + movedAt
}

// feedVersion names a state of a workspace's feed: what is visible, and where
// it begins as events pass their retention.
func feedVersion(visible int64, movedAt string, kept int64) string {
	return rowsVersion(visible, movedAt) + "." + strconv.FormatInt(kept, 10)
}

// versions reads the versions of workspaces. Requests that ask while a question
// is under way share the next one: each gets an answer that is no older than its
// request, and however many ask, the database hears a few questions at a time.
type versions struct {
	pool *pgxpool.Pool

	mu    sync.Mutex
	next  *versionQuestion
	under int // questions under way
}

// versionQuestion is one question for the versions of several workspaces.
type versionQuestion struct {
	workspaces []string
	done       chan struct{} // closed when the fields below are set
	found      map[string]string
	err        error
}

const (
	versionQuestions = 2               // under way at once
	versionPatience  = 5 * time.Second // with one question
)

var errNoStanding = errors.New("the workspace has no checkpoint")

// read gives the version of a workspace's rows.
func (v *versions) read(ctx context.Context, workspaceID string) (string, error) {
	v.mu.Lock()
	q := v.next
	if q == nil {
		q = &versionQuestion{done: make(chan struct{})}
		v.next = q
	}
	q.workspaces = append(q.workspaces, workspaceID)
	if v.under < versionQuestions {
		v.under++
		go v.ask() //nolint:gosec // G118: the question belongs to several requests and outlives each
	}
	v.mu.Unlock()
	select {
	case <-q.done:
	case <-ctx.Done():
		return "", fmt.Errorf("read the version of a workspace: %w", ctx.Err())
	}
	if q.err != nil {
		return "", q.err
	}
	version, ok := q.found[workspaceID]
	if !ok {
		return "", fmt.Errorf("read the version of workspace %s: %w", workspaceID, errNoStanding)
	}
	return version, nil
}

// ask asks until no request waits.
func (v *versions) ask() {
	for {
		v.mu.Lock()
		q := v.next
		v.next = nil
		if q == nil {
			v.under--
			v.mu.Unlock()
			return
		}
		v.mu.Unlock()
		ctx, cancel := context.WithTimeout(context.Background(), versionPatience)
		q.found, q.err = readVersions(ctx, v.pool, q.workspaces)
		cancel()
		close(q.done)
	}
}

func readVersions(ctx context.Context, pool *pgxpool.Pool, workspaceIDs []string) (map[string]string, error) {
	rows, err := pool.Query(ctx, `
		SELECT workspace_id, position, coalesce((extract(epoch FROM moved_at) * 1000000)::bigint, 0)::text
		  FROM log_checkpoint WHERE workspace_id = ANY ($1) AND consumer = '`+eventlog.ReadModels+`'`, workspaceIDs)
	if err != nil {
		return nil, fmt.Errorf("read the versions of workspaces: %w", err)
	}
	found := make(map[string]string, len(workspaceIDs))
	var (
		id, movedAt string
		position    int64
	)
	if _, err := pgx.ForEachRow(rows, []any{&id, &position, &movedAt}, func() error {
		found[id] = rowsVersion(position, movedAt)
		return nil
	}); err != nil {
		return nil, fmt.Errorf("read the versions of workspaces: %w", err)
	}
	return found, nil
}

func (c *call) versionOfRows() (string, error) {
	return c.api.versions.read(c.ctx, c.key.WorkspaceID)
}

func (c *call) versionOfFeed() (string, error) {
	version, err := c.api.versions.read(c.ctx, c.key.WorkspaceID)
	if err != nil {
		return "", err
	}
	// Read after the version: where the feed begins depends on the clock and on
	// entries that are long since in the log.
	kept, err := c.api.cfg.Log.KeptFrom(c.ctx, c.key.WorkspaceID, c.oldestKept())
	if err != nil {
		return "", err //nolint:wrapcheck // says what could not be read
	}
	return version + "." + strconv.FormatInt(kept, 10), nil
}

// oldestKept is the publish time of the oldest events that can be read.
func (c *call) oldestKept() time.Time { return c.began.Add(-c.api.cfg.Retention) }
