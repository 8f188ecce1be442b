//go:build unix

package localpg

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/internal/pg"
)

// joined is a hold on a server that another process, or another Server in this process, owns.
type joined struct {
	place place
	owner int       // process id
	conn  *pgx.Conn // ends when the server ends
}

// useLock is the key of the advisory lock that joined programs share. An owner takes it exclusively
// before it stops the server.
const useLock = 7_231_046_915

// join connects to a server that may be running.
func (s *setup) join(ctx context.Context) (*joined, error) {
	if !s.place.isReady() {
		return nil, errNotReady
	}
	conn, err := s.place.connect(ctx)
	if err != nil {
		return nil, err
	}
	if !s.cfg.TakeOver {
		// If the owner is about to stop the server, this waits and then fails.
		if _, err := conn.Exec(ctx, "SELECT pg_advisory_lock_shared($1)", useLock); err != nil {
			return nil, errors.Join(err, conn.Close(ctx))
		}
		// A stopping server ends its sessions one by one, so the owner's session may release the
		// lock before this session ends. By then the server refuses new connections: try one.
		again, err := s.place.connect(ctx)
		if err != nil {
			return nil, errors.Join(err, conn.Close(ctx))
		}
		if err := again.Close(ctx); err != nil {
			return nil, errors.Join(err, conn.Close(ctx))
		}
	}
	return &joined{place: s.place, owner: s.place.owner(), conn: conn}, nil
}

func (j *joined) wait(ctx context.Context) error {
	_, err := j.conn.WaitForNotification(ctx) // none come: it returns when the connection ends
	if ctx.Err() == nil {
		return fmt.Errorf("the local PostgreSQL in %s has stopped: the program that had started it, process %d, has ended or stopped it, or the server has failed: %w", j.place.dir, j.owner, err)
	}
	return nil
}

func (j *joined) release(ctx context.Context) error {
	return j.conn.Close(ctx)
}

// awaitJoined waits until no joined program is left, for at most options.joined. The connection
// that it returns, if any, keeps other programs from joining until it is closed.
func (s *setup) awaitJoined(ctx context.Context) *pgx.Conn {
	conn, err := s.place.connect(ctx) // if this fails, others cannot connect either
	if err != nil {
		return conn
	}
	lock := func(atMost time.Duration) error {
		_, err := conn.Exec(ctx, "SET lock_timeout = "+strconv.FormatInt(atMost.Milliseconds(), 10))
		if err == nil {
			_, err = conn.Exec(ctx, "SELECT pg_advisory_lock($1)", useLock)
		}
		return err
	}
	// The session of a command that has just ended may hold the lock for a moment longer.
	if err := lock(time.Second); !pg.Locked(err) {
		return conn
	}
	var others string // their process ids
	_ = conn.QueryRow(ctx, `SELECT coalesce(string_agg(DISTINCT substr(application_name, length($1) + 1), ', '), '')
		FROM pg_stat_activity JOIN pg_locks USING (pid) WHERE locktype = 'advisory' AND granted AND starts_with(application_name, $1)`, useName).Scan(&others)
	s.log.Warn("waiting for other programs that use this PostgreSQL before it is stopped", "directory", s.place.dir, "processes", others, "at_most", s.opts.joined)
	if err := lock(s.opts.joined); err != nil {
		s.log.Warn("stopping PostgreSQL although other programs use it; they get an error", "directory", s.place.dir, "processes", others)
	}
	return conn
}
