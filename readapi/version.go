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
	"github.com/ledgerfeed/ledgerfeed/internal/batch"
)

// version is the state of what an answer shows.
type version struct {
	name string // changes when the answer does

	// position is the visible position that the answer is of (docs/contract/decisions.md,
	// "Positions"). Below 0: the answer is not about a workspace's data.
	position int64

	moved int64 // when that position was reached, in microseconds; 0: not known
}

// olderThan reports whether a state is of before another. Rows that were repaired at the
// same position are newer than before.
func (v version) olderThan(other version) bool {
	return v.position < other.position || v.position == other.position && v.moved > 0 && v.moved < other.moved
}

// raise makes v the newer one of both.
func (v *version) raise(other version) {
	if other.position > v.position || other.position == v.position && other.moved > v.moved {
		*v = other
	}
}

// noPosition is the position of answers that are not about a workspace's data.
const noPosition = -1

// formatRowsVersion names a state of a workspace's read tables: the visible position
// and, so that a repair at the same position shows too, when it moved.
func formatRowsVersion(position int64, movedAt string) version {
	moved, _ := strconv.ParseInt(movedAt, 10, 64) // the database made it of a number
	return version{strconv.FormatInt(position, 10) + "." + movedAt, position, moved}
}

// formatFeedVersion names a state of a workspace's feed: what is visible, which is
// the version of its rows, and where the feed begins as events pass their retention.
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

// newVersionReader reads the versions of workspaces.
func newVersionReader(pool *pgxpool.Pool, timeout time.Duration) *batch.Coalescer[*versionQuery] {
	return newCoalescer(pool, timeout, func(ctx context.Context, queries []*versionQuery) {
		asked := map[string]struct{}{} // many may ask for the same
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
func readPositions(ctx context.Context, pool *pgxpool.Pool, workspaceIDs []string) (map[string]int64, error) {
	found, err := readVersions(ctx, pool, workspaceIDs)
	positions := make(map[string]int64, len(found))
	for id, v := range found {
		positions[id] = v.position
	}
	return positions, err
}

// versionOf selects the versions of workspaces that meet a condition.
func versionOf(condition string) string {
	return `
		SELECT workspace_id, position, coalesce((extract(epoch FROM moved_at) * 1000000)::bigint, 0)::text
		  FROM log_checkpoint WHERE workspace_id ` + condition + ` AND consumer = '` + eventlog.ReadModels + `'`
}

// readVersions returns the version of each workspace that has one.
func readVersions(ctx context.Context, pool *pgxpool.Pool, workspaceIDs []string) (map[string]version, error) {
	found := make(map[string]version, len(workspaceIDs))
	if err := scanVersions(found)(pool.Query(ctx, versionOf("= ANY ($1)"), workspaceIDs)); err != nil {
		return nil, err
	}
	return found, nil
}

// scanVersions puts rows of versionOf into a map.
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

// rowsVersion is the version of endpoints that show rows of read tables.
func rowsVersion(q *request) (version, error) {
	query := &versionQuery{workspaceID: q.key.WorkspaceID}
	if err := q.from.versions.Do(q, query); err != nil {
		return version{}, fmt.Errorf("read the version of a workspace: %w", err)
	}
	return query.version, query.err
}

// feedVersion is the version of the list of events.
func feedVersion(q *request) (version, error) {
	rows, err := rowsVersion(q)
	if err != nil {
		return version{}, err
	}
	// Read after the version: where the feed begins depends on the clock and on
	// entries that have long been in the log.
	kept, err := q.from.feed.KeptFrom(q, q.key.WorkspaceID, q.oldestKept())
	if err != nil {
		return version{}, err
	}
	return formatFeedVersion(rows, kept), nil
}

// oldestKept is the publish time of the oldest events that can be read.
func (q *request) oldestKept() time.Time { return q.asOf.Add(-q.api.cfg.Retention) }

// documentVersion is the version of the OpenAPI document, which is part of every tag
// already.
func documentVersion(*request) (version, error) {
	return version{name: "document", position: noPosition}, nil
}
