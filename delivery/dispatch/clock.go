package dispatch

import (
	"context"
	"errors"
	"time"

	"github.com/ledgerfeed/ledgerfeed/eventlog"
)

// A process whose clock is wrong does not deliver. With a clock that is ahead every event
// is past its retention, and so are the pages of the history; retries that it records
// wait for years; and receivers refuse what it signs.

// clockError says that the process's clock and the database's are more than 5 minutes
// apart.
type clockError struct{ *eventlog.ClockError }

func (e *clockError) Error() string {
	return e.Difference() + ": nothing is delivered by this process until they are right"
}

func isClockError(err error) bool {
	_, ok := errors.AsType[*clockError](err)
	return ok
}

// checkClock returns a *clockError unless the process's clock is right.
func (s *store) checkClock(ctx context.Context, now time.Time) error {
	wrong, err := eventlog.CheckClock(ctx, s.pool, now)
	if wrong != nil {
		return &clockError{wrong}
	}
	return err
}
