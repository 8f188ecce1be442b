package service

import (
	"context"
	"fmt"
	"time"

	"github.com/ledgerfeed/ledgerfeed/internal/flow"
)

// clockInterval is how often a process compares its clock with the database's.
const clockInterval = 10 * time.Second

// compareClock makes the process unready while its clock is more than 5 minutes from
// the database's. With such a clock the API shows no event, because each is past its
// retention, or takes keys that have expired; load balancers send no requests then.
func (s *Service) compareClock(ctx context.Context) error {
	var (
		right         bool
		now, database string
	)
	err := s.pool.QueryRow(ctx, `
		SELECT coalesce($1::timestamptz BETWEEN log_clock() - interval '5 minutes' AND log_clock() + interval '5 minutes', true),
		       log_stamp($1), log_stamp(coalesce(log_clock(), $1))`, s.env.Clock()).Scan(&right, &now, &database)
	if err != nil {
		return fmt.Errorf("compare the clock with the database's: %w", err)
	}
	was := s.wrongClock.Load()
	switch {
	case !right:
		reason := fmt.Sprintf("the clock of this program says %s and the database's %s, which is more than 5 minutes apart", now, database)
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
