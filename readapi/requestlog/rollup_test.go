package requestlog_test

import (
	"testing"
	"time"

	"github.com/ledgerfeed/ledgerfeed/internal/rollup"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
	"github.com/ledgerfeed/ledgerfeed/readapi/requestlog"
)

// TestRequestsAreCountedByInterval: what is kept is counted, too, by the time the store
// ends.
func TestRequestsAreCountedByInterval(t *testing.T) {
	t.Parallel()
	b := setup(t)
	store := b.store(0)
	for range 3 {
		store.Record(&requestlog.Record{At: b.clock.Now(), WorkspaceID: "acme", KeyID: "key_1", Method: "GET", Route: "/v1/invoices", Status: 200, Duration: 40 * time.Millisecond})
	}
	store.Record(&requestlog.Record{At: b.clock.Now(), WorkspaceID: "acme", KeyID: "key_1", Method: "GET", Status: 429, Refusal: "rate_limit"})
	store.Record(&requestlog.Record{At: b.clock.Now(), WorkspaceID: "acme", KeyID: "key_1", Method: "GET", Status: 401, Refusal: "revoked"})
	b.run(store)
	r, in := rollup.NewReader(b.pool), rollup.Last(b.clock.Now(), time.Minute, 1)
	got := map[string]int64{}
	for _, c := range testkit.Must(r.Requests(t.Context(), "acme", in))(t) {
		got[c.Kind] += c.N
	}
	if got["2"] != 3 || got["0"] != 2 || len(got) != 2 {
		t.Errorf("requests by class: %v", got)
	}
	if l := testkit.Must(r.RequestLatency(t.Context(), "acme", in))(t); l.All.Count() != 3 || l.All.Quantile(0.5) < 30*time.Millisecond || l.All.Quantile(0.5) > 50*time.Millisecond {
		t.Errorf("requests took %v", l.All)
	}
	keys := testkit.Must(r.Keys(t.Context(), "acme", in, 10))(t)
	if want := (rollup.KeyUse{KeyID: "key_1", Requests: 3, RateLimited: 1, Peak: 3}); len(keys) != 1 || keys[0] != want {
		t.Errorf("use of keys: %+v", keys)
	}
}
