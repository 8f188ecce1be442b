package delivery_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/ledgerfeed/ledgerfeed/delivery"
	"github.com/ledgerfeed/ledgerfeed/delivery/attempt"
	"github.com/ledgerfeed/ledgerfeed/delivery/policy"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

func TestDeliversSignedEventsOnce(t *testing.T) {
	t.Parallel()
	b := setup(t, policy.Settings{})
	rc := testkit.NewReceiver(t, nil)
	w := testkit.Must(b.store.Create(t.Context(), workspace, delivery.Definition{URL: rc.URL + "/hook?x=1", Events: []string{"all"}}))(t)
	b.dispatcher()
	ids := b.append("invoice.reversed", 300)
	got := rc.Wait(t, 300)
	seen := map[string]bool{}
	for _, r := range got {
		if err := attempt.Verify(time.Now(), r.Header.Get("Service-Signature"), []byte(r.Body), w.Secret); err != nil {
			t.Fatal(err)
		}
		seen[r.Header.Get("Service-Event-Id")] = true
		if want := r.Header.Get("Service-Event-Id") + "_" + w.ID; r.Header.Get("Service-Delivery-Id") != want {
			t.Errorf("delivery id %q, want %q", r.Header.Get("Service-Delivery-Id"), want)
		}
		if r.Header.Get("User-Agent") != "SERVICE-Webhooks/1" || r.Header.Get("Content-Type") != "application/json" {
			t.Errorf("headers %v", r.Header)
		}
	}
	for _, id := range ids {
		if !seen[id] {
			t.Errorf("event %s did not arrive", id)
		}
	}
	if len(got) != 300 {
		t.Errorf("%d messages, want 300", len(got))
	}
	want := make([]policy.State, 300)
	for i := range want {
		want[i] = policy.Succeeded
	}
	b.states(w.ID, want...)
}

func TestRetriesByScheduleThenFails(t *testing.T) {
	t.Parallel()
	b := setup(t, policy.Settings{Schedule: policy.Schedule{50 * time.Millisecond, 100 * time.Millisecond}})
	rc := testkit.NewReceiver(t, func(_ int, w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) })
	w := testkit.Must(b.store.Create(t.Context(), workspace, delivery.Definition{URL: rc.URL, Events: []string{"invoice.reversed"}}))(t)
	b.dispatcher()
	b.append("invoice.reversed", 1)
	b.append("time_entry.approved", 1)
	d := b.states(w.ID, policy.Failed)
	if len(d[0].Attempts) != 3 || *d[0].Attempts[0].Status != 500 || *d[0].Attempts[2].Error != "answered 500 (Internal Server Error)" {
		t.Errorf("attempts %+v", d[0].Attempts)
	}
	if got := rc.All(); len(got) != 3 {
		t.Errorf("%d requests, want 3", len(got))
	}
}
