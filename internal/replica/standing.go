package replica

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// standing is what a replica says of itself.
type standing struct {
	recovering bool  // false: it is no replica, or no longer
	system     int64 // as of mark
	timeline   int64
	replayed   int64     // end of what it has replayed
	started    time.Time // when the server was started: tells servers apart
}

// readStanding asks a replica. Which timeline it follows is told at once only to accounts
// with pg_read_all_stats; to others, after its next checkpoint.
func readStanding(ctx context.Context, conn *pgx.Conn) (s standing, err error) {
	err = conn.QueryRow(ctx, `
		SELECT pg_is_in_recovery(), (pg_control_system()).system_identifier,
		       coalesce((SELECT received_tli FROM pg_stat_wal_receiver), (pg_control_checkpoint()).timeline_id)::bigint,
		       coalesce((pg_last_wal_replay_lsn() - '0/0'::pg_lsn)::bigint, 0), pg_postmaster_start_time()`).
		Scan(&s.recovering, &s.system, &s.timeline, &s.replayed, &s.started)
	if err != nil {
		return s, fmt.Errorf("ask the replica how much it has replayed: %w", err)
	}
	return s, nil
}

// Reasons for which a replica is not read from.
var (
	errNotRecovering = errors.New("it is not a replica: it takes writes itself (it was promoted, or the address is that of a primary)")
	errOtherSystem   = errors.New("it is a replica of another database cluster: its system identifier is not that of the primary")
	errUnknown       = errors.New("it was not looked at yet")
)

// TimelineError says that a replica follows another history than the primary's.
type TimelineError struct{ Replica, Primary int64 }

func (e *TimelineError) Error() string {
	return fmt.Sprintf("it follows timeline %d, and the primary is on %d: it did not follow when another server became the primary "+
		"(an account without pg_read_all_stats sees that it does only after its next checkpoint)", e.Replica, e.Primary)
}

// BehindError says that a replica is too far behind the primary.
type BehindError struct{ MaxLag time.Duration }

func (e *BehindError) Error() string {
	return fmt.Sprintf("it has not replayed what the primary had %v ago (LEDGERFEED_READ_MAX_LAG)", e.MaxLag)
}

// fits reports whether a server is a replica of the primary; nil: it is.
func (s *standing) fits(m *mark) error {
	switch {
	case !s.recovering:
		return errNotRecovering
	case s.system != m.system:
		return errOtherSystem
	case s.timeline != m.timeline:
		return &TimelineError{s.timeline, m.timeline}
	}
	return nil
}

// describe is an error without addresses and accounts.
func describe(err error) string {
	if primary, ok := errors.AsType[*primaryError](err); ok {
		return primary.Error()
	}
	if connect, ok := errors.AsType[*pgconn.ConnectError](err); ok {
		if answered, ok := errors.AsType[*pgconn.PgError](connect); ok {
			return "it refuses connections: " + answered.Message
		}
		return "it cannot be reached"
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return "it does not answer"
	}
	return err.Error()
}
