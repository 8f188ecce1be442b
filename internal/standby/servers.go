package standby

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/ledgerfeed/ledgerfeed/internal/pg"
)

// mark is where the primary's write-ahead log ended at a moment.
type mark struct {
	at       time.Time // before the primary was asked
	system   int64     // the identifier that a primary shares with its standbys
	timeline int64     // changes when a standby becomes the primary
	end      int64     // end of the log
}

// If the log ends exactly before a page, PostgreSQL reports the position after the header that the
// page will have. The first page of a file has a longer header.
const (
	walPage         = 8192
	headerSize      = 24
	firstHeaderSize = 40
)

// readMark asks the primary for a mark. Everything that earlier statements there have shown is in
// the log before the mark, even if commits do not wait until it is written.
func readMark(ctx context.Context, primary pg.DB) (mark, error) {
	m := mark{at: time.Now()} // not an injected clock: it measures the servers
	var inFile int64
	err := primary.QueryRow(ctx, `
		SELECT (pg_control_system()).system_identifier, ('x' || substr(pg_walfile_name(at), 1, 8))::bit(32)::bigint, (at - '0/0'::pg_lsn)::bigint,
		       (pg_walfile_name_offset(at)).file_offset
		  FROM pg_current_wal_insert_lsn() AS at`).Scan(&m.system, &m.timeline, &m.end, &inFile)
	if err != nil {
		return m, fmt.Errorf("the primary does not say where its write-ahead log ends: %s", (&lostError{err}).Error())
	}
	switch {
	case inFile == firstHeaderSize:
		m.end -= firstHeaderSize
	case m.end%walPage == headerSize:
		m.end -= headerSize
	}
	return m, nil
}

// standing is the state that a server reports.
type standing struct {
	recovering bool // false: it is not a standby, or no longer one
	system     int64
	timeline   int64
	replayed   int64 // end of the log that it has replayed
}

// readStanding asks a server for its state. Only accounts with pg_read_all_stats see at once which
// timeline the server follows; others see it after the server's next checkpoint.
func readStanding(ctx context.Context, conn *pgx.Conn) (s standing, err error) {
	err = conn.QueryRow(ctx, `
		SELECT pg_is_in_recovery(), (pg_control_system()).system_identifier,
		       coalesce((SELECT received_tli FROM pg_stat_wal_receiver), (pg_control_checkpoint()).timeline_id)::bigint,
		       coalesce((pg_last_wal_replay_lsn() - '0/0'::pg_lsn)::bigint, 0)`).
		Scan(&s.recovering, &s.system, &s.timeline, &s.replayed)
	return s, err
}

// Reasons not to read from a server.
var (
	errNoMark        = errors.New("the primary has not said for too long where its write-ahead log ends")
	errNotRecovering = errors.New("it is no standby: it takes writes itself (it was promoted, or the address is that of a primary)")
	errOtherSystem   = errors.New("it is a standby of another database cluster: its system identifier is not that of the primary")
	errBehind        = fmt.Errorf("it has not replayed what the primary had %v ago", MaxLag)
)

// lostError means that a server was not reached or did not answer.
type lostError struct{ err error }

func (e *lostError) Error() string {
	if text := describe(e.err); text != e.err.Error() {
		return text
	}
	return "the connection to it broke" // the error may show addresses
}

func (e *lostError) Unwrap() error { return e.err }

// timelineError means that a server follows a different timeline from the primary's.
type timelineError struct{ standby, primary int64 }

func (e *timelineError) Error() string {
	return fmt.Sprintf("it follows timeline %d, and the primary is on %d: it did not follow when another server became the primary "+
		"(an account without pg_read_all_stats sees that it does only after its next checkpoint)", e.standby, e.primary)
}

// describe returns the text of an error without addresses and accounts.
func describe(err error) string {
	if connect, ok := errors.AsType[*pgconn.ConnectError](err); ok {
		if answered, ok := errors.AsType[*pgconn.PgError](connect); ok {
			return "it refuses connections: " + answered.Message
		}
		if errors.Is(err, context.DeadlineExceeded) {
			return "it does not answer"
		}
		return "it cannot be reached"
	}
	if answered, ok := errors.AsType[*pgconn.PgError](err); ok {
		return "it answers: " + answered.Message
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return "it does not answer"
	}
	return err.Error()
}

// Advice lists settings that a standby should have and does not.
type Advice struct {
	Feedback bool          // hot_standby_feedback is off, so statements are cancelled after Delay
	Delay    time.Duration // max_standby_streaming_delay; below 0: never
	Stats    bool          // the account lacks pg_read_all_stats, so it sees a new timeline too late
}

// Advise reads the settings of the standby at a URL.
func Advise(ctx context.Context, url string) (is Advice, err error) {
	conn, err := pg.Connect(ctx, url)
	if err != nil {
		return is, fmt.Errorf("the standby: %s", describe(err))
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	var milliseconds int64
	err = conn.QueryRow(ctx, `
		SELECT current_setting('hot_standby_feedback') = 'off', (SELECT setting::bigint FROM pg_settings WHERE name = 'max_standby_streaming_delay'),
		       NOT pg_has_role('pg_read_all_stats', 'USAGE')`).Scan(&is.Feedback, &milliseconds, &is.Stats)
	if err != nil {
		return is, fmt.Errorf("the standby: read its settings: %s", describe(err))
	}
	is.Delay = time.Duration(milliseconds) * time.Millisecond
	return is, nil
}
