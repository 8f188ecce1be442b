package eventlog

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// RightClock is the SQL condition that a process's clock, as SQL, is right: the rule by
// which the log refuses appends.
func RightClock(now string) string {
	return `coalesce(` + now + `::timestamptz BETWEEN log_clock() - interval '5 minutes' AND log_clock() + interval '5 minutes', true)`
}

// CheckClock compares a process's clock with the database's by that rule; nil: it is
// right.
func CheckClock(ctx context.Context, pool *pgxpool.Pool, now time.Time) (*ClockError, error) {
	var (
		right bool
		e     ClockError
	)
	err := pool.QueryRow(ctx, `SELECT `+RightClock("$1")+`, log_stamp($1), log_stamp(coalesce(log_clock(), $1))`, now).Scan(&right, &e.Now, &e.Database)
	if err != nil {
		return nil, fmt.Errorf("compare the clock with the database's: %w", err)
	}
	if right {
		return nil, nil //nolint:nilnil // nil is a clock that is right
	}
	return &e, nil
}

// Clock is the time by which the log judges whether an entry is ahead: the database's, whatever
// the process's clock says.
func (l *Log) Clock(ctx context.Context) (now time.Time, err error) {
	if err := l.pool.QueryRow(ctx, `SELECT date_trunc('milliseconds', coalesce(log_clock(), $1))`, l.clock()).Scan(&now); err != nil {
		return time.Time{}, fmt.Errorf("ask for the database's time: %w", err)
	}
	return now.UTC(), nil
}
