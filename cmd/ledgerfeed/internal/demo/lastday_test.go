package demo

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/delivery"
	"github.com/ledgerfeed/ledgerfeed/delivery/keyring"
	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
	"github.com/ledgerfeed/ledgerfeed/migrations"
)

func TestMain(m *testing.M) { testkit.Main(m, migrations.Up) }

// TestMake: what is made up is of the last day, there is some of everything, and the counts
// are those of the rows.
func TestMake(t *testing.T) {
	t.Parallel()
	pool := testkit.Must(pg.Open(t.Context(), testkit.NewDatabase(t), pg.Options{MaxConns: 4}))(t)
	t.Cleanup(pool.Close)
	testkit.AnyClock(t, pool)
	now := time.Date(2026, 11, 23, 13, 30, 0, 0, time.UTC)
	clock := testkit.NewClock(now).Now
	if _, err := pool.Exec(t.Context(), `SELECT workspace_create('w', 'W', $1)`, now.AddDate(0, 0, -9)); err != nil {
		t.Fatal(err)
	}
	log := testkit.Must(eventlog.New(eventlog.Config{Pool: pool, Clock: clock, Notify: func(eventlog.Topic, ...string) {}}))(t)
	for i := range 300 { // over four days
		d := testkit.Must(domain.NewDraft("w", "time_entry.declined", fmt.Appendf(nil, `{"time_entry_id":"te_%d"}`, i)))(t)
		d.CreatedAt = now.Add(time.Duration(i-300) * 20 * time.Minute)
		if _, err := log.Append(t.Context(), d); err != nil {
			t.Fatal(err)
		}
	}
	store := testkit.Must(delivery.NewStore(delivery.StoreConfig{
		Pool: pool, Keyring: testkit.Must(keyring.New("0123456789abcdef"))(t), Log: log, Notify: func(eventlog.Topic, ...string) {}, Clock: clock,
	}))(t)
	var ids []string
	for i := range 3 {
		ids = append(ids, testkit.Must(store.Create(t.Context(), "w", delivery.Definition{URL: fmt.Sprintf("https://hooks.acme.example/%d", i), Events: []string{delivery.AllEvents}}))(t).ID)
	}
	m := Maker{Pool: pool, Clock: clock, Logger: testkit.Discard(), WorkspaceID: "w"}
	if err := m.Make(t.Context(), [2]Key{{ID: "key_1", Prefix: "p1"}, {ID: "key_2", Prefix: "p2"}}, Webhooks{Well: ids[0], Failing: ids[1], Off: ids[2]}); err != nil {
		t.Fatal(err)
	}
	ask := func(sql string, args ...any) map[string]int64 {
		t.Helper()
		rows, err := pool.Query(t.Context(), sql, args...)
		if err != nil {
			t.Fatal(err)
		}
		found := map[string]int64{}
		var name string
		var n int64
		if _, err := pgx.ForEachRow(rows, []any{&name, &n}, func() error {
			found[name] = n
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		return found
	}
	requests := ask(`SELECT status::text, count(*) FROM request_log WHERE workspace_id = 'w' AND at >= $1 AND at < $2 GROUP BY status`, now.Add(-24*time.Hour), now.Add(time.Minute))
	if requests["200"] < 500 || requests["404"] == 0 || requests["400"] == 0 {
		t.Errorf("requests by status: %v", requests)
	}
	for i, want := range [][]string{{"succeeded"}, {"pending"}, {"failed", "cancelled"}} {
		states := ask(`SELECT state, count(*) FROM webhook_delivery WHERE webhook_id = $1 GROUP BY state`, ids[i])
		for _, state := range want {
			if states[state] == 0 || len(states) != len(want) {
				t.Errorf("deliveries to webhook %d: %v, want some %v", i, states, want)
			}
		}
		waiting := ask(`SELECT 'pending', count(*) FROM webhook_waiting WHERE webhook_id = $1`, ids[i])
		if waiting["pending"] != states["pending"] {
			t.Errorf("webhook %d: %d wait, %d are pending", i, waiting["pending"], states["pending"])
		}
		attempts := ask(`SELECT 'all', sum(jsonb_array_length(attempts)) FROM webhook_delivery WHERE webhook_id = $1`, ids[i])
		counted := ask(`SELECT 'all', sum(attempts) FROM attempt_rollup WHERE step = 60 AND webhook_id = $1`, ids[i])
		if attempts["all"] != counted["all"] {
			t.Errorf("webhook %d: %d attempts, %d counted", i, attempts["all"], counted["all"])
		}
	}
	states := map[string]string{}
	for _, w := range testkit.Must(store.List(t.Context(), "w"))(t) {
		text := testkit.Must(json.Marshal(w.State))(t)
		states[w.ID] = fmt.Sprint(string(text), w.FailingSince.IsZero())
	}
	if states[ids[0]] != `"on"true` || states[ids[1]] != `"on"false` || states[ids[2]] != `"off"false` {
		t.Errorf("the webhooks are %v", states)
	}
}
