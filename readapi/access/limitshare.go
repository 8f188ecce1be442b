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
)

// everyWorkspace stands for the workspace of counts that belong to none. No
// workspace can have this id.
const everyWorkspace = "*"

// parcel is counts of one key or address on their way to the table.
type parcel struct {
	workspaceID, subject string
	minute, n            int64
}

const (
	exchangeTimeout = time.Second
	// exchangeOverlap is for rows that were changed before the last exchange
	// and committed after it.
	exchangeOverlap = 3 * time.Second
	// sweepMinutes is how long a count stays in the table after its minute.
	sweepMinutes = 2
)

var errExchangeTimeout = errors.New("the exchange of request counts took too long")

// sharer is what Run knows; only Run's goroutine touches it.
type sharer struct {
	conn  *pgxpool.Conn // nil: to be acquired
	seen  time.Time     // of the database's clock: changes before are known
	swept int64         // minute of the last sweep
}

// Run exchanges counts with the other instances until ctx is done, and then
// returns nil. It keeps one connection of the pool for itself, so that requests
// that wait for connections cannot delay it.
func (l *Limiter) Run(ctx context.Context) error {
	if !l.running.CompareAndSwap(false, true) {
		return errors.New("access limiter: Run is running already")
	}
	defer l.running.Store(false)
	s := &sharer{}
	defer s.release()
	repeat(ctx, l.cfg.ExchangeEvery, func(ctx context.Context) error { return l.exchange(ctx, s) }, l.cfg.OnExchange, mood{
		log:     l.cfg.Log,
		failing: "request counts are not exchanged; each instance counts alone until they are",
		working: "request counts are exchanged again",
	})
	return nil
}

// exchange brings what was counted here to the table and learns what is there.
func (l *Limiter) exchange(ctx context.Context, s *sharer) (err error) {
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
	parcels := l.addresses.depart(minute, l.keys.depart(nil))
	// In one order everywhere, so that two instances never wait for each other.
	slices.SortFunc(parcels, func(a, b parcel) int {
		return cmp.Or(cmp.Compare(a.workspaceID, b.workspaceID), cmp.Compare(a.subject, b.subject))
	})
	if err := send(ctx, s.conn, parcels); err != nil {
		for _, p := range parcels {
			l.with(p.workspaceID, p.subject, p.minute, false, func(c *count) {
				if pgconn.SafeToRetry(err) {
					c.returned(p.n)
				} else {
					c.arrived(p.n)
				}
			})
		}
		return err
	}
	for _, p := range parcels {
		l.with(p.workspaceID, p.subject, p.minute, false, func(c *count) { c.arrived(p.n) })
	}
	if err := l.learn(ctx, s, minute); err != nil {
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

// send adds counts to the table.
func send(ctx context.Context, conn *pgxpool.Conn, parcels []parcel) error {
	if len(parcels) == 0 {
		return nil
	}
	var (
		workspaces = make([]string, len(parcels))
		subjects   = make([]string, len(parcels))
		minutes    = make([]int64, len(parcels))
		counts     = make([]int64, len(parcels))
	)
	for i, p := range parcels {
		workspaces[i], subjects[i], minutes[i], counts[i] = p.workspaceID, p.subject, p.minute, p.n
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
		return fmt.Errorf("bring request counts to the table: %w", err)
	}
	return nil
}

// learn reads what changed in the table since the last exchange.
func (l *Limiter) learn(ctx context.Context, s *sharer, minute int64) error {
	const changed = `
		SELECT workspace_id, subject, taken, clock_timestamp() FROM rate_count WHERE minute = $1 AND changed_at > $2
		UNION ALL
		SELECT '', '', 0, clock_timestamp()`
	rows, err := s.conn.Query(ctx, changed, minute, s.seen.Add(-exchangeOverlap))
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
			l.with(workspaceID, subject, minute, true, func(c *count) { c.learn(taken) })
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("read request counts: %w", err)
	}
	s.seen = at
	return nil
}

// with runs do on what is counted here of a row of the table.
func (l *Limiter) with(workspaceID, subject string, minute int64, create bool, do func(*count)) {
	if workspaceID != everyWorkspace {
		l.keys.with(minute, workspaceID, subject, create, do)
		return
	}
	if network, ok := networkNamed(subject); ok {
		l.addresses.with(minute, network, create, do)
	}
}

func (s *sharer) release() {
	if s.conn != nil {
		s.conn.Release()
		s.conn = nil
	}
}
