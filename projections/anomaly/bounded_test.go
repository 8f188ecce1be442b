package anomaly_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
	"github.com/ledgerfeed/ledgerfeed/migrations"
	"github.com/ledgerfeed/ledgerfeed/projections/anomaly"
)

func TestMain(m *testing.M) { testkit.Main(m, migrations.Up) }

// Very many anomalies are counted and grouped up to a bound, which shows.
func TestCountsAreBounded(t *testing.T) {
	t.Parallel()
	pool := testkit.Must(pgxpool.New(t.Context(), testkit.NewDatabase(t)))(t)
	t.Cleanup(pool.Close)
	exec := func(sql string, args ...any) {
		t.Helper()
		if _, err := pool.Exec(t.Context(), sql, args...); err != nil {
			t.Fatal(err)
		}
	}
	exec(`SELECT workspace_create('few', 'Few', now()), workspace_create('many', 'Many', now())`)
	exec(`ALTER TABLE event_log DISABLE TRIGGER USER`)
	exec(`INSERT INTO event_log (workspace_id, position, id, type, created_at, data, chain)
		SELECT w, p, 'e' || p, 'invoice.issued', now(), '{}', '\x00' FROM (VALUES ('few', 5), ('many', $1::int)) v (w, n), generate_series(1, n) p`, anomaly.MostWaiting+1)
	exec(`INSERT INTO anomaly (workspace_id, position, event_id, reason) SELECT workspace_id, position, id, 'repeat' FROM event_log`)
	store := anomaly.NewStore(pool, time.Now)
	waiting := func() int64 { t.Helper(); return testkit.Must(store.Waiting(t.Context()))(t) }
	if n := waiting(); n != anomaly.MostWaiting {
		t.Errorf("%d wait, want the bound", n)
	}
	exec(`INSERT INTO anomaly_acknowledged SELECT workspace_id, position, reason, now(), 'seen' FROM anomaly WHERE workspace_id = 'many' AND position > 7`)
	if n := waiting(); n != 12 {
		t.Errorf("%d wait, want 12", n)
	}

	for _, c := range []struct {
		filter  anomaly.Filter
		counts  []int64
		atLeast bool
	}{
		{anomaly.Filter{}, []int64{5, 7}, false},
		{anomaly.Filter{First: 12}, []int64{5, 7}, false},
		{anomaly.Filter{First: 11}, []int64{5, 7}, true},
		{anomaly.Filter{First: 8}, []int64{5, 4}, true},
		{anomaly.Filter{First: 3}, []int64{4}, true},
		{anomaly.Filter{WorkspaceID: "many", All: true}, []int64{anomaly.MostWaiting + 1}, false},
	} {
		groups := testkit.Must(store.Groups(t.Context(), c.filter))(t)
		if len(groups) != len(c.counts) {
			t.Errorf("%+v: %+v", c.filter, groups)
			continue
		}
		for i, g := range groups {
			if g.Count != c.counts[i] || g.AtLeast != c.atLeast {
				t.Errorf("%+v: %+v, want %d", c.filter, g, c.counts[i])
			}
		}
	}
}
