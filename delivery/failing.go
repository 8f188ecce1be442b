package delivery

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/delivery/dispatch"
	"github.com/ledgerfeed/ledgerfeed/delivery/policy"
)

// Failing is what is known about a webhook that fails.
type Failing struct {
	Last    *AttemptView // the last attempt; nil: it is not kept any more
	Retries int          // pending deliveries, of those that were looked at
	OffAt   time.Time    // when it is turned off at the latest if every retry fails; zero: the retries end before
}

// forecastDeliveries bounds the pending deliveries from which a forecast is made: the soonest.
const forecastDeliveries = 500

// Failing forecasts when a failing webhook is turned off by the retries that are still to
// come (docs/contract/decisions.md, "Webhooks"), by the settings of the store. What new
// events add is not known. It is nil for a webhook that is off, paused or not failing.
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
			// The times have one form, whose order is that of the text.
			if n := len(attempts); n > 0 && (f.Last == nil || string(attempts[n-1].At) > string(f.Last.At)) {
				f.Last = &attempts[n-1]
			}
		}
	}
	health, attempts, err := w.toCome(ctx, s)
	if err != nil {
		return nil, fmt.Errorf("read the retries of %s: %w", w.ID, err)
	}
	f.Retries = len(attempts)
	f.OffAt = health.TurnOffAt(attempts, s.cfg.Settings.TurnOffAfter)
	return f, nil
}

// toCome are the webhook's health and the times of the retries that its schedule still has,
// oldest first.
func (w *Webhook) toCome(ctx context.Context, s *Store) (h policy.Health, attempts []policy.Failure, err error) {
	err = s.cfg.Pool.QueryRow(ctx, `SELECT failures, warned FROM webhook WHERE workspace_id = $1 AND webhook_id = $2`, w.WorkspaceID, w.ID).Scan(&h.Memory, &h.Warned)
	if err != nil {
		return h, nil, err
	}
	h.FailingSince = w.FailingSince.Time
	rows, err := s.cfg.Pool.Query(ctx, fmt.Sprintf(`
		SELECT q.position, q.next_attempt_at, q.attempts - q.before, q.once FROM webhook_waiting q
		  JOIN webhook w ON w.workspace_id = q.workspace_id AND w.webhook_id = q.webhook_id AND q.epoch >= `+dispatch.KeptEpoch+`
		 WHERE q.workspace_id = $1 AND q.webhook_id = $2 ORDER BY q.next_attempt_at LIMIT %d`, forecastDeliveries), w.WorkspaceID, w.ID)
	if err != nil {
		return h, nil, fmt.Errorf("query: %w", err)
	}
	var (
		event int64
		at    time.Time
		made  int
		once  bool
		now   = s.now()
	)
	_, err = pgx.ForEachRow(rows, []any{&event, &at, &made, &once}, func() error {
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
		return h, nil, fmt.Errorf("scan: %w", err)
	}
	slices.SortFunc(attempts, func(a, b policy.Failure) int { return a.Ended.Compare(b.Ended) })
	return h, attempts, nil
}
