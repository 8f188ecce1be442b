package replay

import (
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

// The service counts as busy while entries are appended or the API is read, and
// for a while after.
func TestYieldingRateLimiterSeesHowBusyTheServiceIs(t *testing.T) {
	t.Parallel()
	pool := testkit.Pool(t)
	now := time.Unix(0, 0)
	y := &yieldingLimiter{pool: pool, clock: func() time.Time { return now }}
	look := func(when string, want bool) {
		t.Helper()
		busy, err := y.check(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if busy != want {
			t.Errorf("%s: busy is %t", when, busy)
		}
		now = now.Add(checkEvery)
	}
	others := func(sql string) {
		t.Helper()
		b := &pgx.Batch{}
		b.Queue(sql)
		b.Queue(`SELECT pg_stat_force_next_flush()`)
		if err := pool.SendBatch(t.Context(), b).Close(); err != nil {
			t.Fatal(err)
		}
		// Others know what a backend counts when its next statement ends. The pool gives the
		// same connection again and again, so all are taken at once, when nothing is under way:
		// an append answers before it gives its connection back.
		testkit.Eventually(t, func() error {
			if n := pool.Stat().AcquiredConns(); n > 0 {
				return fmt.Errorf("%d connections are in use", n)
			}
			return nil
		})
		for _, conn := range pool.AcquireAllIdle(t.Context()) {
			_, err := conn.Exec(t.Context(), `SELECT pg_stat_force_next_flush()`)
			conn.Release()
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	for range knownAfter / checkEvery {
		look("at first", true)
	}
	look("nothing happens", false)
	others(`
		INSERT INTO request_log (slot, workspace_id, at, request_id, key_id, key_prefix, method, route, status, duration_us, bytes, row_count, record_id)
		SELECT 3, 'w', now(), 'r', 'k', 'p', 'GET', '/v1/me', 200, 1, 1, 1, gen_random_uuid() FROM generate_series(1, 5)`)
	look("the API is read", true)
	look("between two batches of records", true)
	now = now.Add(staysBusy)
	look("it is quiet again", false)
	log, err := eventlog.New(eventlog.Config{Pool: pool, Clock: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	for range busyFrom {
		d, err := domain.NewDraft("w", domain.TypeTestPing, []byte(`{"webhook_id":"wh"}`))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := log.Append(t.Context(), d); err != nil {
			t.Fatal(err)
		}
	}
	others(`SELECT 1`)
	look("entries are appended", true)
}
