package delivery_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/ledgerfeed/ledgerfeed/delivery"
	"github.com/ledgerfeed/ledgerfeed/delivery/policy"
	"github.com/ledgerfeed/ledgerfeed/internal/rollup"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

// TestAttemptsAreCountedByInterval: attempts that were recorded are counted by the time
// the dispatcher ends, and nothing waits while somebody has locked the table of counts.
func TestAttemptsAreCountedByInterval(t *testing.T) {
	t.Parallel()
	b := setup(t, policy.Settings{Schedule: policy.Schedule{50 * time.Millisecond}})
	rc := testkit.NewReceiver(t, func(n int, w http.ResponseWriter, _ *http.Request) {
		if n == 1 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	w := testkit.Must(b.store.Create(t.Context(), workspace, delivery.Definition{URL: rc.URL, Events: []string{"all"}}))(t)
	tx := testkit.Must(testkit.OwnerConn(t, b.pool).Begin(t.Context()))(t)
	defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
	testkit.Must(tx.Exec(t.Context(), `LOCK TABLE attempt_rollup IN SHARE MODE`))(t)
	_, stop := b.dispatcher()
	b.append("invoice.reversed", 60)
	rc.Wait(t, 61)
	want := make([]policy.State, 60)
	for i := range want {
		want[i] = policy.Succeeded
	}
	b.states(w.ID, want...)
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	stop()
	r, got := rollup.NewReader(b.pool), map[string]int64{}
	in := rollup.Last(time.Now(), time.Hour, 2)
	for _, c := range testkit.Must(r.Attempts(t.Context(), workspace, in))(t) {
		got[c.Kind] += c.N
	}
	if got["success"] != 60 || got["answered"] != 1 || len(got) != 2 {
		t.Errorf("attempts by outcome: %v", got)
	}
	if l := testkit.Must(r.AnswerLatency(t.Context(), workspace, in))(t); l.All.Count() != 61 || l.Kinds[w.ID] == nil {
		t.Errorf("receivers answered in %v", l.All)
	}
}
