package service

import (
	"context"
	"time"

	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/internal/flow"
)

// clockInterval is how often a process compares its clock with the database's.
const clockInterval = 10 * time.Second

// compareClock makes the process unready while its clock is more than 5 minutes from
// the database's. With such a clock the API shows no event, because each is past its
// retention, or takes keys that have expired; load balancers send no requests then.
func (s *Service) compareClock(ctx context.Context) error {
	wrong, err := eventlog.CheckClock(ctx, s.pool, s.env.Clock())
	if err != nil {
		return err
	}
	was := s.wrongClock.Load()
	switch {
	case wrong != nil:
		reason := wrong.Difference()
		if was == nil {
			s.env.Logger.ErrorContext(ctx, "the process is not ready", "reason", reason)
		}
		s.wrongClock.Store(&reason)
	case was != nil:
		s.env.Logger.InfoContext(ctx, "the clock is right again")
		s.wrongClock.Store(nil)
	}
	return nil
}

// watchClock compares the clocks from time to time.
func (s *Service) watchClock(ctx context.Context) error {
	for flow.Pause(ctx, clockInterval) {
		_ = s.compareClock(ctx) // the database is away, which /readyz notices by itself
	}
	return nil
}
