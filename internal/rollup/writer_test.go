package rollup_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ledgerfeed/ledgerfeed/internal/rollup"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

const acme = "acme"

// noon is when the tests begin.
func noon() time.Time { return time.Date(2026, 11, 23, 12, 0, 30, 0, time.UTC) }

func write(t *testing.T, w *rollup.Writer) {
	t.Helper()
	if err := w.Write(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// sum adds up the counts of a kind.
func sum(list []rollup.Count, kind string) (n int64) {
	for _, c := range list {
		if c.Kind == kind {
			n += c.N
		}
	}
	return n
}

// TestCounts writes requests and attempts and reads them back, by minute and by hour.
func TestCounts(t *testing.T) {
	t.Parallel()
	pool := testkit.Pool(t)
	w, r := rollup.NewWriter(pool, testkit.Discard()), rollup.NewReader(pool)
	for i := range 100 { // one every 30 seconds, to 12:50
		at := noon().Add(time.Duration(i) * 30 * time.Second)
		request := rollup.Request{At: at, WorkspaceID: acme, KeyID: "key_1", Route: "/v1/invoices", Status: 200, Duration: 8 * time.Millisecond}
		switch i % 10 {
		case 0:
			request.Status, request.Duration = 500, 900*time.Millisecond
		case 1:
			request.Status, request.Refused, request.RateLimited = 429, true, true
		}
		w.AddRequest(&request)
		w.AddAttempt(&rollup.Attempt{At: at, WorkspaceID: acme, WebhookID: "wh_1", Outcome: []string{"success", "timeout"}[i%2], Duration: 70 * time.Millisecond})
		if i%7 == 0 {
			write(t, w)
		}
	}
	w.AddRequest(&rollup.Request{At: noon(), Status: 401, Refused: true}) // of no workspace
	w.AddRequest(&rollup.Request{At: noon(), WorkspaceID: "other", KeyID: "key_2", Status: 200})
	write(t, w)

	for _, in := range []rollup.Range{rollup.Last(noon().Add(time.Hour), time.Minute, 70), rollup.Last(noon(), time.Hour, 24), rollup.Last(noon(), 24*time.Hour, 30)} {
		requests := testkit.Must(r.Requests(t.Context(), acme, in))(t)
		if ok, failed, refused := sum(requests, "2"), sum(requests, "5"), sum(requests, "0"); ok != 80 || failed != 10 || refused != 10 {
			t.Errorf("by %v: %d succeeded, %d failed, %d were refused", in.Width, ok, failed, refused)
		}
		attempts := testkit.Must(r.Attempts(t.Context(), acme, in))(t)
		if ok, timeout := sum(attempts, "success"), sum(attempts, "timeout"); ok != 50 || timeout != 50 {
			t.Errorf("by %v: %d attempts succeeded, %d timed out", in.Width, ok, timeout)
		}
		latency := testkit.Must(r.RequestLatency(t.Context(), acme, in))(t)
		if l := latency.Kinds[rollup.RouteList]; l == nil || *l != latency.All || l.Count() != 90 ||
			l.Quantile(0.5) > 10*time.Millisecond || l.Quantile(0.95) < 500*time.Millisecond {
			t.Errorf("by %v: requests took %v", in.Width, latency.All)
		}
		answers := testkit.Must(r.AnswerLatency(t.Context(), acme, in))(t)
		if n := answers.Kinds["wh_1"].Count(); n != 50 {
			t.Errorf("by %v: %d attempts were answered", in.Width, n)
		}
		keys := testkit.Must(r.Keys(t.Context(), acme, in, 5))(t)
		if want := (rollup.KeyUse{KeyID: "key_1", Requests: 90, RateLimited: 10, Peak: 2}); len(keys) != 1 || keys[0] != want {
			t.Errorf("by %v: %+v, want %+v", in.Width, keys, want)
		}
	}
	minutes := testkit.Must(r.Requests(t.Context(), acme, rollup.Last(noon().Add(time.Hour), time.Minute, 61)))(t)
	for _, c := range minutes {
		if c.N > 2 || c.Span > 50 {
			t.Errorf("%+v: there are at most two a minute, up to 12:50", c)
		}
	}
}

// TestWritersSideBySide: many processes count the same things at the same time. No
// two deadlock, nothing is lost, and the peak is that of all together.
func TestWritersSideBySide(t *testing.T) {
	t.Parallel()
	pool := testkit.Pool(t)
	const writers, rounds, each = 6, 15, 40
	var group sync.WaitGroup
	for n := range writers {
		group.Go(func() {
			w := rollup.NewWriter(pool, testkit.Discard())
			for round := range rounds {
				for i := range each {
					// Each in another order.
					i = (i*7 + n*11 + round) % each
					workspace := fmt.Sprintf("workspace-%d", i%5)
					w.AddRequest(&rollup.Request{At: noon(), WorkspaceID: workspace, KeyID: fmt.Sprintf("key_%d", i%4), Route: "/v1/invoices", Status: 200 + i%2*300})
					w.AddAttempt(&rollup.Attempt{At: noon(), WorkspaceID: workspace, WebhookID: fmt.Sprintf("wh_%d", i%3), Outcome: "success"})
				}
				// What finds a row locked for too long on a busy machine is written the next time.
				_ = w.Write(context.WithoutCancel(t.Context()))
			}
			testkit.Eventually(t, func() error { return w.Write(context.WithoutCancel(t.Context())) })
		})
	}
	group.Wait()
	r, in := rollup.NewReader(pool), rollup.Last(noon(), time.Hour, 1)
	var requests, attempts, ofKeys int64
	for i := range 5 {
		workspace := fmt.Sprintf("workspace-%d", i)
		for _, c := range testkit.Must(r.Requests(t.Context(), workspace, in))(t) {
			requests += c.N
		}
		attempts += sum(testkit.Must(r.Attempts(t.Context(), workspace, in))(t), "success")
		for _, k := range testkit.Must(r.Keys(t.Context(), workspace, in, 10))(t) {
			ofKeys += k.Requests
			if k.Peak != k.Requests { // all of them are in one minute
				t.Errorf("%s %s: a peak of %d with %d requests", workspace, k.KeyID, k.Peak, k.Requests)
			}
		}
	}
	const want = writers * rounds * each
	if requests != want || attempts != want || ofKeys != want {
		t.Errorf("%d requests, %d attempts, %d requests of keys; want %d of each", requests, attempts, ofKeys, want)
	}
}

// TestALockedWorkspaceDelaysNoOther: while somebody has locked rows of a workspace, the
// counts of others are written, and those of its own when the lock is gone.
func TestALockedWorkspaceDelaysNoOther(t *testing.T) {
	t.Parallel()
	pool := testkit.Pool(t)
	w, r, in := rollup.NewWriter(pool, testkit.Discard()), rollup.NewReader(pool), rollup.Last(noon(), time.Hour, 1)
	count := func() {
		for _, id := range []string{"locked", "free"} {
			w.AddRequest(&rollup.Request{At: noon(), WorkspaceID: id, KeyID: "key", Status: 200})
			w.AddAttempt(&rollup.Attempt{At: noon(), WorkspaceID: id, WebhookID: "wh", Outcome: "success"})
		}
	}
	requests := func(id string) int64 {
		return sum(testkit.Must(r.Requests(t.Context(), id, in))(t), "2")
	}
	count()
	write(t, w)
	tx := testkit.Must(pool.Begin(t.Context()))(t)
	defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
	testkit.Must(tx.Exec(t.Context(), `SELECT FROM attempt_rollup WHERE workspace_id = 'locked' FOR UPDATE`))(t)
	for round := range 3 {
		count()
		limited, cancel := context.WithTimeout(t.Context(), time.Minute)
		if err := w.Write(limited); err == nil || limited.Err() != nil {
			t.Errorf("a row is locked: %v, want an error at once", err)
		}
		cancel()
		if locked, free := requests("locked"), requests("free"); locked != 1 || free != int64(2+round) {
			t.Errorf("round %d: %d requests of the locked workspace, %d of the other", round, locked, free)
		}
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	write(t, w)
	if locked, free := requests("locked"), requests("free"); locked != 4 || free != 4 {
		t.Errorf("in the end: %d requests of the workspace that was locked, %d of the other", locked, free)
	}
}

// TestCountingNeverWaits: without a database, counts gather up to a bound, and what is
// above it is dropped and counted.
func TestCountingNeverWaits(t *testing.T) {
	t.Parallel()
	pool := testkit.Pool(t)
	closed := testkit.Must(pgxpool.NewWithConfig(t.Context(), pool.Config()))(t)
	closed.Close()
	w := rollup.NewWriter(closed, testkit.Discard())
	for i := range 40_000 {
		w.AddAttempt(&rollup.Attempt{At: noon(), WorkspaceID: fmt.Sprint("w", i%1000), WebhookID: fmt.Sprint(i), Outcome: "success"})
		if i%10_000 == 0 && w.Write(t.Context()) == nil {
			t.Fatal("it was written without a database")
		}
	}
	if got := w.Dropped(); got != 15_000 { // each has a minute and an hour
		t.Errorf("%d were not counted", got)
	}
}

// TestOldCountsLeave: minutes are kept for some hours, hours for 31 days.
func TestOldCountsLeave(t *testing.T) {
	t.Parallel()
	pool := testkit.Pool(t)
	w := rollup.NewWriter(pool, testkit.Discard())
	const hours = 40 * 24
	for i := range hours {
		at := noon().Add(time.Duration(i-hours+1) * time.Hour)
		w.AddRequest(&rollup.Request{At: at, WorkspaceID: acme, KeyID: "key", Status: 200})
		w.AddAttempt(&rollup.Attempt{At: at, WorkspaceID: acme, WebhookID: "wh", Outcome: "success"})
	}
	write(t, w)
	for range 2 {
		if err := rollup.RemoveOld(t.Context(), pool, noon()); err != nil {
			t.Fatal(err)
		}
	}
	for _, table := range []string{"request_rollup", "key_rollup", "attempt_rollup"} {
		var minutes, hours int
		if err := pool.QueryRow(t.Context(), `SELECT count(*) FILTER (WHERE step = 1), count(*) FILTER (WHERE step = 60) FROM `+table).Scan(&minutes, &hours); err != nil {
			t.Fatal(err)
		}
		if minutes != 6 || hours != 31*24 {
			t.Errorf("%s: %d minutes and %d hours are kept", table, minutes, hours)
		}
	}
}
