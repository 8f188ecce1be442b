package service

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/internal/flow"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
	"github.com/ledgerfeed/ledgerfeed/readapi"
	"github.com/ledgerfeed/ledgerfeed/readapi/access"
)

// clockInterval is how often a process compares its clock with the database's.
const clockInterval = 10 * time.Second

// compareClock makes the process unready while its clock is more than 5 minutes from
// the database's. With such a clock the API would show no event, because each is past
// its retention, or take keys that have expired: it answers 503 instead, and load
// balancers send it no requests.
func (s *Service) compareClock(ctx context.Context) error {
	err := eventlog.CheckClock(ctx, s.shared, s.env.Clock())
	wrong, isWrong := errors.AsType[*eventlog.ClockError](err)
	was := s.wrongClock.Load()
	switch {
	case isWrong:
		reason := wrong.Difference()
		if was == nil {
			s.env.Logger.ErrorContext(ctx, "the process is not ready", "reason", reason)
		}
		s.wrongClock.Store(&reason)
	case err != nil:
		return err
	case was != nil:
		s.env.Logger.InfoContext(ctx, "the clock is right again")
		s.wrongClock.Store(nil)
	}
	return nil
}

// watchClock compares the clocks from time to time.
func (s *Service) watchClock(ctx context.Context) error {
	for flow.Sleep(ctx, clockInterval) {
		_ = pg.Within(ctx, clockInterval, s.compareClock) // the database is away, which /readyz notices by itself
	}
	return nil
}

// keysByClock checks API keys as long as the process's clock is right.
type keysByClock struct {
	keys  readapi.Authenticator
	wrong *atomic.Pointer[string] // what is wrong with the clock; nil: nothing
}

// Authenticate finds the key of a text; see readapi.Authenticator.
func (k keysByClock) Authenticate(ctx context.Context, text string) (*access.Key, error) {
	return k.authenticate(ctx, text, k.keys.Authenticate)
}

// AuthenticateSlowly finds it for addresses that are slowed down.
func (k keysByClock) AuthenticateSlowly(ctx context.Context, text string) (*access.Key, error) {
	return k.authenticate(ctx, text, k.keys.AuthenticateSlowly)
}

func (k keysByClock) authenticate(ctx context.Context, text string, by func(context.Context, string) (*access.Key, error)) (*access.Key, error) {
	if reason := k.wrong.Load(); reason != nil {
		return nil, fmt.Errorf("%w: %s", access.ErrUnavailable, *reason)
	}
	return by(ctx, text)
}
