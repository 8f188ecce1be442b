package eventlog

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ledgerfeed/ledgerfeed/domain"
)

// Feed reads the events of workspaces: the public entries of their logs up to the
// visible position. It is safe for concurrent use.
type Feed struct {
	pool   *pgxpool.Pool
	places *placesOfFeeds
}

// NewFeed makes a Feed.
func NewFeed(pool *pgxpool.Pool) *Feed { return &Feed{pool: pool, places: newPlacesOfFeeds()} }

// statement reads something of a workspace, which is $1. It scans each row into columns and then
// calls each.
type statement struct {
	sql     string
	args    []any // from $2 on
	columns []any
	each    func()
}

func (s *statement) scan(rows pgx.Rows) error {
	_, err := pgx.ForEachRow(rows, s.columns, func() error {
		s.each()
		return nil
	})
	if err != nil {
		return fmt.Errorf("scan: %w", err)
	}
	return nil
}

// read reads what statements find of a workspace, in one round trip.
func (f *Feed) read(ctx context.Context, workspaceID string, statements ...statement) error {
	var b pgx.Batch
	for i := range statements {
		s := &statements[i]
		b.Queue(s.sql, append([]any{workspaceID}, s.args...)...).Query(s.scan)
	}
	if err := f.pool.SendBatch(ctx, &b).Close(); err != nil {
		return fmt.Errorf("read the feed of %s: %w", workspaceID, err)
	}
	return nil
}

// NeedsPay is the condition, as SQL, that only readers with pay:read may see the event of an entry:
// of a payout, and of a charge whose entry says that it is not billed to the client
// (docs/contract/log.md, "What the feed and webhooks show"). Row is the name of the row of
// event_log; empty: it has none. It is never NULL. This is the only place that decides it, so that
// lists, the trees and what checks them agree.
func NeedsPay(row string) string {
	if row != "" {
		row += "."
	}
	return `(` + row + `type = '` + domain.TypePayoutPaid + `' OR ` + row + `type IN ('` + domain.TypeChargeCreated + `', '` + domain.TypeChargeDeleted + `')
		AND ` + row + `data ->> 'billed_to_client' IS NOT DISTINCT FROM 'false')`
}

// Event returns the public form of one event, or ok = false for what the feed would
// not show: unknown ids, internal entries, events that are not visible yet or were
// published before oldest, and, unless pay is set, those that need pay:read. Visible is the
// position up to which events may show, in either case. The error is a
// *domain.UnknownWorkspaceError when there is no such workspace.
func (f *Feed) Event(ctx context.Context, workspaceID, id string, oldest time.Time, pay bool) (event string, visible int64, ok bool, err error) {
	var found *string
	err = QueryRowInOrder(ctx, f.pool, []any{&visible, &found}, `
		SELECT c.position, (SELECT e.public_event FROM event_log e
		         WHERE e.workspace_id = $1 AND e.id BETWEEN $2 AND $2 AND e.public_event IS NOT NULL AND e.position <= c.position
		           AND e.created_at >= $3 AND ($4 OR NOT `+NeedsPay("e")+`) ORDER BY e.id)
		  FROM log_checkpoint c WHERE c.workspace_id = $1 AND c.consumer = '`+ReadModels+`'`,
		workspaceID, id, oldest, pay)
	if errors.Is(err, pgx.ErrNoRows) {
		return "", 0, false, &domain.UnknownWorkspaceError{WorkspaceID: workspaceID}
	}
	if err != nil {
		return "", 0, false, fmt.Errorf("read event %s of %s: %w", id, workspaceID, err)
	}
	if found == nil {
		return "", visible, false, nil
	}
	return *found, visible, true, nil
}
