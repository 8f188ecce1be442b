package dispatch

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// A process whose clock is wrong does not deliver. With a clock that is ahead every event
// is past its retention, and so are the pages of the history; retries that it records
// wait for years; and receivers refuse what it signs.

// rightClock is the SQL condition that a process's clock, as SQL, is right: by the rule
// by which the log refuses appends.
func rightClock(now string) string {
	return `coalesce(` + now + `::timestamptz BETWEEN log_clock() - interval '5 minutes' AND log_clock() + interval '5 minutes', true)`
}

// clockError says that the process's clock and the database's are more than 5 minutes
// apart.
type clockError struct{ now, database string }

func (e *clockError) Error() string {
	return fmt.Sprintf("the clock of this program says %s and the database's %s, which is more than 5 minutes apart: nothing is delivered by this process until they are right",
		e.now, e.database)
}

func isClockError(err error) bool {
	_, ok := errors.AsType[*clockError](err)
	return ok
}

// checkClock returns a *clockError unless the process's clock is right.
func (s *store) checkClock(ctx context.Context, now time.Time) error {
	var (
		right bool
		e     clockError
	)
	err := s.pool.QueryRow(ctx, `SELECT `+rightClock("$1")+`, log_stamp($1), log_stamp(coalesce(log_clock(), $1))`, now).Scan(&right, &e.now, &e.database)
	if err != nil {
		return fmt.Errorf("compare the clock with the database's: %w", err)
	}
	if !right {
		return &e
	}
	return nil
}
