package access

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ledgerfeed/ledgerfeed/internal/periodic"
)

const (
	exchangeTimeout = time.Second
	// exchangeOverlap is for rows that were changed before the last exchange and
	// committed after it.
	exchangeOverlap = 3 * time.Second
	// sweepMinutes is how long a count stays in the table after its minute.
	sweepMinutes = 2
)

var errExchangeTimeout = errors.New("the exchange of request counts took too long")

// exchangeState is what Run's goroutine remembers between exchanges.
type exchangeState struct {
	conn  *pgxpool.Conn // nil: to be acquired
	read  time.Time     // database time up to which changes were read
	swept int64         // minute of the last sweep
}

// Run exchanges counts with the other instances until ctx is done, and then returns
// nil. It holds one connection of the pool, so that requests that wait for
// connections cannot delay it. The error is for a second Run beside the first.
func (l *Limiter) Run(ctx context.Context) error {
	if !l.running.CompareAndSwap(false, true) {
		return errors.New("rate limiter: Run is running already")
	}
	defer l.running.Store(false)
	s := &exchangeState{}
	defer s.release()
	periodic.Run(ctx, l.cfg.ExchangeEvery, &periodic.Outage{
		Logger:  l.cfg.Log,
		Failing: "request counts are not exchanged; each instance counts alone until they are",
		Working: "request counts are exchanged again",
	}, func(ctx context.Context) error { return l.exchange(ctx, s) }, l.cfg.OnExchange)
	return nil
}

// exchange adds what was counted here to the table and reads what others added.
func (l *Limiter) exchange(ctx context.Context, s *exchangeState) (err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, exchangeTimeout, errExchangeTimeout)
	defer cancel()
	defer func() {
		if err != nil {
			s.release()
			if ctx.Err() != nil {
				err = fmt.Errorf("%w: %w", context.Cause(ctx), err)
			}
		}
	}()
	if s.conn == nil {
		if s.conn, err = l.cfg.Pool.Acquire(ctx); err != nil {
			return fmt.Errorf("get a connection to exchange request counts: %w", err)
		}
	}
	minute := minuteOf(l.cfg.Clock())
	deltas := l.addresses.appendPending(minute, l.keys.appendPending(nil))
	// Every instance locks the rows in this order, so that no two deadlock.
	slices.SortFunc(deltas, func(a, b delta) int {
		return cmp.Or(cmp.Compare(a.workspaceID, b.workspaceID), cmp.Compare(a.subject, b.subject))
	})
	err = addToTable(ctx, s.conn, deltas)
	notAdded := err != nil && pgconn.SafeToRetry(err)
	for _, d := range deltas {
		l.update(d.workspaceID, d.subject, d.minute, false, func(c *count) {
			if notAdded {
				c.notAdded(d.n)
			} else {
				c.added(d.n)
			}
		})
	}
	if err != nil {
		return err
	}
	if err := l.readTable(ctx, s, minute); err != nil {
		return err
	}
	if s.swept != minute {
		const sweep = `DELETE FROM rate_count WHERE minute < $1`
		if _, err := s.conn.Exec(ctx, sweep, minute-sweepMinutes); err != nil {
			return fmt.Errorf("sweep old request counts: %w", err)
		}
		s.swept = minute
	}
	return nil
}

func addToTable(ctx context.Context, conn *pgxpool.Conn, deltas []delta) error {
	if len(deltas) == 0 {
		return nil
	}
	var (
		workspaces = make([]string, len(deltas))
		subjects   = make([]string, len(deltas))
		minutes    = make([]int64, len(deltas))
		counts     = make([]int64, len(deltas))
	)
	for i, d := range deltas {
		workspaces[i], subjects[i], minutes[i], counts[i] = d.workspaceID, d.subject, d.minute, d.n
	}
	// A count of an earlier minute, from an instance whose clock is behind, is
	// left out.
	const add = `
		INSERT INTO rate_count AS r (workspace_id, subject, minute, taken, changed_at)
		SELECT t.w, t.s, t.m, t.n, clock_timestamp()
		  FROM unnest($1::text[], $2::text[], $3::bigint[], $4::bigint[]) AS t (w, s, m, n)
		ON CONFLICT (workspace_id, subject) DO UPDATE
		   SET taken = CASE WHEN r.minute = excluded.minute THEN r.taken + excluded.taken ELSE excluded.taken END,
		       minute = excluded.minute, changed_at = excluded.changed_at
		 WHERE r.minute <= excluded.minute`
	if _, err := conn.Exec(ctx, add, workspaces, subjects, minutes, counts); err != nil {
		return fmt.Errorf("add request counts to the table: %w", err)
	}
	return nil
}

// readTable takes over the counts that changed since the last exchange.
func (l *Limiter) readTable(ctx context.Context, s *exchangeState, minute int64) error {
	const changed = `
		SELECT workspace_id, subject, taken, clock_timestamp() FROM rate_count WHERE minute = $1 AND changed_at > $2
		UNION ALL
		SELECT '', '', 0, clock_timestamp()`
	rows, err := s.conn.Query(ctx, changed, minute, s.read.Add(-exchangeOverlap))
	if err != nil {
		return fmt.Errorf("read request counts: %w", err)
	}
	var (
		workspaceID, subject string
		taken                int64
		at                   time.Time
	)
	_, err = pgx.ForEachRow(rows, []any{&workspaceID, &subject, &taken, &at}, func() error {
		if workspaceID != "" {
			l.update(workspaceID, subject, minute, true, func(c *count) { c.setShared(taken) })
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("read request counts: %w", err)
	}
	s.read = at
	return nil
}

// update changes what is counted here of a row of the table.
func (l *Limiter) update(workspaceID, subject string, minute int64, create bool, change func(*count)) {
	if workspaceID != noWorkspace {
		l.keys.update(minute, workspaceID, subject, create, change)
		return
	}
	if network, ok := parseNetwork(subject); ok {
		l.addresses.update(minute, network, create, change)
	}
}

func (s *exchangeState) release() {
	if s.conn != nil {
		s.conn.Release()
		s.conn = nil
	}
}
