package delivery_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ledgerfeed/ledgerfeed/delivery"
	"github.com/ledgerfeed/ledgerfeed/delivery/policy"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

// TestFailingSaysWhenItEnds: the forecast is the retry at which the webhook is turned off,
// and there is none when the retries end before.
func TestFailingSaysWhenItEnds(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		schedule policy.Schedule
		off      time.Duration // after the first attempt; 0: no date
		events   int
		retries  int
		waiting  int
	}{
		"two events":   {policy.Schedule{time.Hour, 10 * time.Hour, 10 * time.Hour, 10 * time.Hour}, 31 * time.Hour, 2, 8, 2},
		"a lone one":   {policy.Schedule{time.Hour, 10 * time.Hour, 10 * time.Hour, 10 * time.Hour}, 0, 1, 4, 1},
		"too early":    {policy.Schedule{time.Hour, 10 * time.Hour}, 0, 2, 4, 2},
		"none to come": {policy.Schedule{}, 0, 2, 0, 0},
	} {
		b := setup(t, policy.Settings{Schedule: c.schedule, TurnOffAfter: 30 * time.Hour})
		rc := testkit.NewReceiver(t, func(_ int, w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) })
		w := testkit.Must(b.store.Create(t.Context(), workspace, delivery.Definition{URL: rc.URL, Events: []string{"all"}}))(t)
		if f := testkit.Must(w.Failing(t.Context(), b.store))(t); f != nil {
			t.Errorf("%s: a webhook that is not failing: %+v", name, f)
		}
		_, stop := b.dispatcher()
		b.append("invoice.reversed", c.events)
		state := policy.Pending
		if len(c.schedule) == 0 {
			state = policy.Failed
		}
		b.states(w.ID, slices.Repeat([]policy.State{state}, c.events)...)
		stop()
		got := testkit.Must(b.store.Get(t.Context(), w.ID))(t)
		f := testkit.Must(got.Failing(t.Context(), b.store))(t)
		if f.Last == nil || !strings.HasPrefix(*f.Last.Error, "answered 502") || f.Retries != c.retries || f.Waiting != c.waiting {
			t.Fatalf("%s: %+v, the last attempt %s", name, f, *f.Last.Error)
		}
		after := time.Duration(0)
		for _, delay := range c.schedule {
			after += delay
		}
		if ends := f.Ends.Sub(got.FailingSince.Time); len(c.schedule) > 0 && (ends < after-time.Minute || ends > after+time.Minute) || len(c.schedule) == 0 && !f.Ends.IsZero() {
			t.Errorf("%s: the retries end at %v, %v after the first attempt, want %v", name, f.Ends, ends, after)
		}
		if c.off == 0 && !f.OffAt.IsZero() {
			t.Errorf("%s: it is to be turned off at %v", name, f.OffAt)
		}
		if after := f.OffAt.Sub(got.FailingSince.Time); c.off > 0 && (after < c.off-time.Minute || after > c.off+time.Minute) {
			t.Errorf("%s: it is to be turned off after %v, want %v", name, after, c.off)
		}
	}
}
