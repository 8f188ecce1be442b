package delivery

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/ledgerfeed/ledgerfeed/delivery/dispatch"
	"github.com/ledgerfeed/ledgerfeed/delivery/policy"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
)

// Failing describes a webhook that is failing.
type Failing struct {
	Last    *AttemptView // the last attempt; nil: it is no longer kept
	Waiting int          // deliveries that wait for another attempt, up to forecastDeliveries of them
	Retries int          // retries still scheduled for the pending deliveries, up to forecastDeliveries of them
	Ends    time.Time    // when the last of Retries is made; zero: there are none
	OffAt   time.Time    // when it is turned off at the latest if every retry fails; zero: the retries end before that
}

// More reports whether more deliveries may wait than were counted.
func (f *Failing) More() bool { return f.Waiting == forecastDeliveries }

// forecastDeliveries is how many pending deliveries a forecast uses, those due soonest.
const forecastDeliveries = 500

// Failing forecasts when the retries still to come would turn off a failing webhook
// (docs/contract/decisions.md, "Webhooks"), under the store's settings. It cannot know about new
// events. It returns nil for a webhook that is off, paused or not failing.
func (w *Webhook) Failing(ctx context.Context, s *Store) (*Failing, error) {
	if !w.On() || w.Paused() || w.FailingSince.IsZero() {
		return nil, nil
	}
	f := &Failing{}
	for _, state := range []policy.State{policy.Pending, policy.Failed} {
		page, err := s.Deliveries(ctx, w.ID, Query{State: state, Limit: 25})
		if err != nil {
			return nil, err
		}
		for i := range page.Deliveries {
			attempts := page.Deliveries[i].Attempts
			// All times have the same format, which sorts as text.
			if n := len(attempts); n > 0 && (f.Last == nil || string(attempts[n-1].At) > string(f.Last.At)) {
				f.Last = &attempts[n-1]
			}
		}
	}
	health, waiting, attempts, err := w.toCome(ctx, s)
	if err != nil {
		return nil, fmt.Errorf("read the retries of %s: %w", w.ID, err)
	}
	if f.Waiting, f.Retries = waiting, len(attempts); f.Retries > 0 {
		f.Ends = attempts[f.Retries-1].Ended
	}
	f.OffAt = health.TurnOffAt(attempts, s.cfg.Settings.TurnOffAfter)
	return f, nil
}

// toCome returns the webhook's health, how many deliveries wait, and the retries still to come as
// failures, oldest first.
func (w *Webhook) toCome(ctx context.Context, s *Store) (h policy.Health, waiting int, attempts []policy.Failure, err error) {
	err = s.cfg.Pool.QueryRow(ctx, `SELECT failures, warned FROM webhook WHERE workspace_id = $1 AND webhook_id = $2`, w.WorkspaceID, w.ID).Scan(&h.Memory, &h.Warned)
	if err != nil {
		return h, 0, nil, err
	}
	h.FailingSince = w.FailingSince.Time
	var (
		event int64
		at    time.Time
		made  int
		once  bool
		now   = s.now()
	)
	err = pg.ForEach(ctx, s.cfg.Pool, fmt.Sprintf(`
		SELECT q.position, q.next_attempt_at, q.attempts - q.before, q.once FROM webhook_waiting q
		  JOIN webhook w ON w.workspace_id = q.workspace_id AND w.webhook_id = q.webhook_id AND q.epoch >= `+dispatch.KeptEpoch+`
		 WHERE q.workspace_id = $1 AND q.webhook_id = $2 ORDER BY q.next_attempt_at LIMIT %d`, forecastDeliveries),
		[]any{w.WorkspaceID, w.ID}, []any{&event, &at, &made, &once}, func() error {
			waiting++
			if at = at.UTC(); at.Before(now) {
				at = now
			}
			for more := true; more; at, more = s.cfg.Settings.Schedule.Next(made, at) {
				attempts = append(attempts, policy.Failure{Ended: at, Event: event})
				if made++; once {
					break
				}
			}
			return nil
		})
	if err != nil {
		return h, 0, nil, fmt.Errorf("query: %w", err)
	}
	slices.SortFunc(attempts, func(a, b policy.Failure) int { return a.Ended.Compare(b.Ended) })
	return h, waiting, attempts, nil
}
