package replica

import (
	"context"

	"github.com/jackc/pgx/v5/pgxpool"
)

// mark is where the primary's write-ahead log ends at a moment.
type mark struct {
	system   int64 // the identifier that a primary shares with its replicas
	timeline int64 // changes when a replica becomes the primary
	end      int64 // of what was written to the log
}

// primaryError says that the primary could not be asked. It says nothing of the replica.
type primaryError struct{ err error }

func (e *primaryError) Error() string {
	return "the primary does not say where its write-ahead log ends: " + describe(e.err)
}

func (e *primaryError) Unwrap() error { return e.err }

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
		return m, &primaryError{err}
	}
	if m.end%walPage == headerSize {
		m.end -= headerSize
	}
	return m, nil
}
