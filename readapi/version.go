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

	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/internal/flow"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
)

// version is the state of the data in an answer.
type version struct {
	name string // changes when the answer does

	// position is the visible position of the data (docs/contract/decisions.md, "Positions"). Below
	// 0: the answer is not about a workspace's data.
	position int64

	moved int64 // when position was reached, in Unix microseconds; 0: unknown
}

// olderThan reports whether v is older than other. A repair makes rows newer at the same position.
func (v version) olderThan(other version) bool {
	return v.position < other.position || v.position == other.position && v.moved > 0 && v.moved < other.moved
}

// raise sets v to the newer of v and other.
func (v *version) raise(other version) {
	if other.position > v.position || other.position == v.position && other.moved > v.moved {
		*v = other
	}
}

// noPosition is the position of answers that are not about a workspace's data.
const noPosition = -1

// formatRowsVersion makes the version of a workspace's read tables from the visible position and
// the time it moved. The time tells apart the rows before and after a repair at the same position.
func formatRowsVersion(position int64, movedAt string) version {
	moved, _ := strconv.ParseInt(movedAt, 10, 64) // never fails: movedAt is a formatted number
	return version{strconv.FormatInt(position, 10) + "." + movedAt, position, moved}
}

// formatFeedVersion makes the version of a workspace's feed from the version of its rows and the
// first position that is still within its retention.
func formatFeedVersion(rows version, kept int64) version {
	return version{rows.name + "." + strconv.FormatInt(kept, 10), rows.position, rows.moved}
}

// versionQuery asks for the version of a workspace's rows.
type versionQuery struct {
	workspaceID string

	version version
	err     error
}

var errNoVersionRow = errors.New("the workspace has no checkpoint")

// newVersionReader makes a coalescer that reads the versions of workspaces.
func newVersionReader(pool pg.DB, timeout time.Duration) *flow.Coalescer[*versionQuery] {
	return newCoalescer(pool, timeout, func(ctx context.Context, queries []*versionQuery) {
		asked := map[string]struct{}{} // several queries may name the same workspace
		for _, q := range queries {
			asked[q.workspaceID] = struct{}{}
		}
		found, err := readVersions(ctx, pool, slices.Collect(maps.Keys(asked)))
		for _, q := range queries {
			q.version, q.err = found[q.workspaceID], err
			if err == nil && q.version.name == "" {
				q.err = fmt.Errorf("read the version of workspace %s: %w", q.workspaceID, errNoVersionRow)
			}
		}
	})
}

// readPositions returns the visible position of each workspace that has one.
func readPositions(ctx context.Context, pool pg.DB, workspaceIDs []string) (map[string]int64, error) {
	found, err := readVersions(ctx, pool, workspaceIDs)
	positions := make(map[string]int64, len(found))
	for id, v := range found {
		positions[id] = v.position
	}
	return positions, err
}

// versionOf returns the statement that selects the versions of workspaces that meet a condition.
func versionOf(condition string) string {
	return `
		SELECT workspace_id, position, coalesce((extract(epoch FROM moved_at) * 1000000)::bigint, 0)::text
		  FROM log_checkpoint WHERE workspace_id ` + condition + ` AND consumer = '` + eventlog.ReadModels + `'`
}

// readVersions returns the version of each workspace that has one.
func readVersions(ctx context.Context, pool pg.DB, workspaceIDs []string) (map[string]version, error) {
	found := make(map[string]version, len(workspaceIDs))
	if err := scanVersions(found)(pool.Query(ctx, versionOf("= ANY ($1)"), workspaceIDs)); err != nil {
		return nil, err
	}
	return found, nil
}

// scanVersions returns a function that puts the rows of versionOf into found.
func scanVersions(found map[string]version) func(pgx.Rows, error) error {
	return func(rows pgx.Rows, err error) error {
		var (
			id, movedAt string
			position    int64
		)
		if err == nil {
			_, err = pgx.ForEachRow(rows, []any{&id, &position, &movedAt}, func() error {
				found[id] = formatRowsVersion(position, movedAt)
				return nil
			})
		}
		if err != nil {
			return fmt.Errorf("read the versions of workspaces: %w", err)
		}
		return nil
	}
}

// rowsVersion returns the version for endpoints that show rows of read tables.
func rowsVersion(q *request) (version, error) {
	query := &versionQuery{workspaceID: q.key.WorkspaceID}
	if err := q.from.versions.Do(q, query); err != nil {
		return version{}, fmt.Errorf("read the version of a workspace: %w", err)
	}
	return query.version, query.err
}

// feedVersion returns the version of the list of events.
func feedVersion(q *request) (version, error) {
	rows, err := rowsVersion(q)
	if err != nil {
		return version{}, err
	}
	// It is safe to read this after the version: where the feed begins depends only on the clock
	// and on entries that have long been in the log.
	kept, err := q.from.feed.KeptFrom(q, q.key.WorkspaceID, q.oldestKept())
	if err != nil {
		return version{}, err
	}
	return formatFeedVersion(rows, kept), nil
}

// oldestKept returns the publish time before which events can no longer be read.
func (q *request) oldestKept() time.Time { return q.asOf.Add(-q.api.cfg.Retention) }

// documentVersion returns a constant version: every tag already depends on the OpenAPI document.
func documentVersion(*request) (version, error) {
	return version{name: "document", position: noPosition}, nil
}
