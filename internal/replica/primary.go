package replica

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"
)

// mark is where the primary's write-ahead log ends at a moment.
type mark struct {
	system   int64 // the identifier that a primary shares with its replicas
	timeline int64 // changes when a replica becomes the primary
	end      int64 // of what was written to the log
}

// headerSize is that of a page of the write-ahead log. Where the log ends just before a
// page, PostgreSQL names the place behind the header that the page will have.
const (
	walPage    = 8192
	headerSize = 24
)

// readMark asks the primary. What a statement there has shown before is in its log up to
// the mark, also where commits do not wait until it is written.
func readMark(ctx context.Context, primary *pgxpool.Pool) (m mark, err error) {
	err = primary.QueryRow(ctx, `
		SELECT (pg_control_system()).system_identifier, ('x' || substr(pg_walfile_name(at), 1, 8))::bit(32)::bigint, (at - '0/0'::pg_lsn)::bigint
		  FROM pg_current_wal_insert_lsn() AS at`).Scan(&m.system, &m.timeline, &m.end)
	if err != nil {
		return m, fmt.Errorf("ask the primary for the end of its write-ahead log: %w", err)
	}
	if m.end%walPage == headerSize {
		m.end -= headerSize
	}
	return m, nil
}
