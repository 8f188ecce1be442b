package delivery_test

import (
	"cmp"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/ledgerfeed/ledgerfeed/delivery"
	"github.com/ledgerfeed/ledgerfeed/delivery/policy"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

// TestMessagesCarryTheirPosition: every attempt has the position of its event's entry, also
// when it is sent again and for a test ping. Deliveries show it.
func TestMessagesCarryTheirPosition(t *testing.T) {
	t.Parallel()
	b := setup(t, policy.Settings{Schedule: policy.Schedule{20 * time.Millisecond}})
	rc := testkit.NewReceiver(t, func(n int, w http.ResponseWriter, _ *http.Request) {
		if n == 1 {
			w.WriteHeader(http.StatusInternalServerError)
		}
	})
	w := testkit.Must(b.store.Create(t.Context(), workspace, delivery.Definition{URL: rc.URL, Events: []string{"invoice.reversed"}}))(t)
	b.dispatcher()
	b.append("time_entry.approved", 2) // which the webhook did not choose
	b.append("invoice.reversed", 1)
	rc.Wait(t, 2)
	testkit.Must(b.store.Test(t.Context(), w.ID))(t)
	b.project(workspace)
	rc.Wait(t, 3)
	list := b.states(w.ID, policy.Succeeded, policy.Succeeded)
	testkit.Must(b.store.Resend(t.Context(), list[1].ID))(t)
	for i, m := range rc.Wait(t, 4) {
		id := m.Header.Get("Service-Event-Id")
		var position int64
		if err := b.pool.QueryRow(t.Context(), `SELECT position FROM event_log WHERE workspace_id = $1 AND id = $2`, workspace, id).Scan(&position); err != nil {
			t.Fatal(err)
		}
		if got := m.Header.Values("Service-Log-Position"); len(got) != 1 || got[0] != strconv.FormatInt(position, 10) {
			t.Errorf("message %d, of the event %s, has the positions %q, want %d", i+1, id, got, position)
		}
		for j := range list {
			if list[j].EventID == id && list[j].Position != position {
				t.Errorf("the delivery of %s shows the position %d, want %d", id, list[j].Position, position)
			}
		}
	}
}

// inLogOrder returns the events of messages by their positions, and fails where an event came
// with two positions.
func inLogOrder(t *testing.T, messages []testkit.Received) (events []string) {
	t.Helper()
	at := map[string]int64{}
	for _, m := range messages {
		id := m.Header.Get("Service-Event-Id")
		position := testkit.Must(strconv.ParseInt(m.Header.Get("Service-Log-Position"), 10, 64))(t)
		if other, known := at[id]; known && other != position {
			t.Errorf("%s came with the positions %d and %d", id, other, position)
		}
		at[id] = position
	}
	return slices.SortedFunc(maps.Keys(at), func(a, b string) int { return cmp.Compare(at[a], at[b]) })
}
