package readapi

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
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

// feedVersion names a state of a workspace's feed: what is visible, which is its
// rows' version, and where it begins as events pass their retention.
func feedVersion(rows string, kept int64) string {
	return rows + "." + strconv.FormatInt(kept, 10)
}

// versionQuestion asks for the version of a workspace's rows.
type versionQuestion struct {
	workspaceID string

	version string
	err     error
}

var errNoStanding = errors.New("the workspace has no checkpoint")

// newVersions reads the versions of workspaces.
func newVersions(pool *pgxpool.Pool, patience time.Duration) *gather[versionQuestion] {
	return newGather(pool, patience, func(ctx context.Context, questions []*versionQuestion) {
		found, err := readVersions(ctx, pool, questions)
		for _, q := range questions {
			q.version, q.err = found[q.workspaceID], err
			if err == nil && q.version == "" {
				q.err = fmt.Errorf("read the version of workspace %s: %w", q.workspaceID, errNoStanding)
			}
		}
	})
}

// readVersions finds the versions of workspaces; empty: one has none.
func readVersions(ctx context.Context, pool *pgxpool.Pool, questions []*versionQuestion) (map[string]string, error) {
	found := make(map[string]string, len(questions))
	for _, q := range questions { // many may ask for the same
		found[q.workspaceID] = ""
	}
	rows, err := pool.Query(ctx, `
		SELECT workspace_id, position, coalesce((extract(epoch FROM moved_at) * 1000000)::bigint, 0)::text
		  FROM log_checkpoint WHERE workspace_id = ANY ($1) AND consumer = '`+eventlog.ReadModels+`'`, slices.Collect(maps.Keys(found)))
	if err != nil {
		return nil, fmt.Errorf("read the versions of workspaces: %w", err)
	}
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
	q := &versionQuestion{workspaceID: c.key.WorkspaceID}
	if err := c.api.versions.put(c.ctx, q); err != nil {
		return "", fmt.Errorf("read the version of a workspace: %w", err)
	}
	return q.version, q.err
}

func (c *call) versionOfFeed() (string, error) {
	version, err := c.versionOfRows()
	if err != nil {
		return "", err
	}
	// Read after the version: where the feed begins depends on the clock and on
	// entries that are long since in the log.
	kept, err := c.api.cfg.Feed.KeptFrom(c.ctx, c.key.WorkspaceID, c.oldestKept())
	if err != nil {
		return "", err
	}
	return feedVersion(version, kept), nil
}

// oldestKept is the publish time of the oldest events that can be read.
func (c *call) oldestKept() time.Time { return c.began.Add(-c.api.cfg.Retention) }
