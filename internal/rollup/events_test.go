package rollup_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/ledgerfeed/ledgerfeed/internal/rollup"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

// logOf makes a log in which every third entry is internal; the last is published at the
// end.
func logOf(t *testing.T, pool testkit.DB, workspace string, n int, every time.Duration, end time.Time) {
	t.Helper()
	testkit.Must(pool.Exec(t.Context(), `SELECT workspace_create($1, $1, $2)`, workspace, end))(t)
	more(t, pool, workspace, 0, n, every, end)
}

// more appends entries after position from, and makes them visible. They are written
// into the table as nobody but its owner can: appending gives them the present time.
func more(t *testing.T, pool testkit.DB, workspace string, from, n int, every time.Duration, end time.Time) {
	t.Helper()
	testkit.AsOwner(t, pool, `
		INSERT INTO event_log (workspace_id, position, id, type, created_at, data, public_event, chain)
		SELECT $1, $2::bigint + g, 'id-' || $2::bigint + g, 'charge.deleted', $5::timestamptz - ($3::bigint - g) * $4::interval, '{}', CASE WHEN g % 3 > 0 THEN '{}' END, '\x00'
		  FROM generate_series(1, $3::bigint) g`, workspace, from, n, every, end)
	testkit.AsOwner(t, pool, `UPDATE log_head SET position = $2 WHERE workspace_id = $1`, workspace, from+n)
	testkit.AsOwner(t, pool, `UPDATE log_checkpoint SET position = $2 WHERE workspace_id = $1 AND consumer = 'read_models'`, workspace, from+n)
}

// TestEventsAreCountedOnce: several processes follow the same logs, and every public
// entry that is visible and not too old is counted once.
func TestEventsAreCountedOnce(t *testing.T) {
	t.Parallel()
	pool := testkit.Pool(t)
	logOf(t, pool, acme, 12_000, 4*time.Minute, noon()) // the last 33 days
	for i := range 20 {
		logOf(t, pool, fmt.Sprint("small-", i), 3, time.Minute, noon())
	}
	clock := testkit.NewClock(noon())
	countAll := func() {
		var group sync.WaitGroup
		for range 4 {
			group.Go(func() {
				events := rollup.NewEvents(pool, clock.Now, testkit.Discard())
				for range 6 { // a look reads a bounded part of a log
					testkit.Eventually(t, func() error { return events.Count(context.WithoutCancel(t.Context())) })
				}
			})
		}
		group.Wait()
	}
	r := rollup.NewReader(pool)
	check := func(workspace string, in rollup.Range, want int64) {
		t.Helper()
		if got := sum(testkit.Must(r.Events(t.Context(), workspace, in))(t), ""); got != want {
			t.Errorf("%s by %v: %d events, want %d", workspace, in.Width, got, want)
		}
	}
	countAll()
	// 15 entries an hour, of which 10 are public.
	check(acme, rollup.Last(noon().Add(-time.Hour), time.Hour, 24), 240)
	check(acme, rollup.Last(noon().Add(-24*time.Hour), 24*time.Hour, 7), 7*240)
	check("small-7", rollup.Last(noon(), time.Minute, 60), 2)
	countAll() // nothing is new
	check("small-7", rollup.Last(noon(), time.Minute, 60), 2)
	more(t, pool, "small-7", 3, 6, time.Minute, noon())
	countAll()
	check("small-7", rollup.Last(noon(), time.Minute, 60), 6)
	check("small-8", rollup.Last(noon(), time.Hour, 2), 2)
}

// TestALockedCursorDelaysNoOther: while somebody has locked the cursor of a workspace,
// the events of others are counted.
func TestALockedCursorDelaysNoOther(t *testing.T) {
	t.Parallel()
	pool := testkit.Pool(t)
	logOf(t, pool, "locked", 3, time.Minute, noon())
	logOf(t, pool, "zebra", 3, time.Minute, noon())
	events := rollup.NewEvents(pool, testkit.NewClock(noon()).Now, testkit.Discard())
	count := func() {
		t.Helper()
		if err := events.Count(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	count()
	tx := testkit.Must(pool.Begin(t.Context()))(t)
	defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
	testkit.Must(tx.Exec(t.Context(), `SELECT FROM event_rollup_cursor WHERE workspace_id = 'locked' FOR UPDATE`))(t)
	more(t, pool, "locked", 3, 3, time.Minute, noon())
	more(t, pool, "zebra", 3, 3, time.Minute, noon())
	count()
	r, in := rollup.NewReader(pool), rollup.Last(noon(), time.Hour, 2)
	of := func(id string) int64 { return sum(testkit.Must(r.Events(t.Context(), id, in))(t), "") }
	if locked, other := of("locked"), of("zebra"); locked != 2 || other != 4 {
		t.Errorf("%d events of the locked workspace, %d of the other", locked, other)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	count()
	if locked := of("locked"); locked != 4 {
		t.Errorf("%d events, now that the lock is gone", locked)
	}
}
