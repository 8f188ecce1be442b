package requestlog_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
	"github.com/ledgerfeed/ledgerfeed/migrations"
	"github.com/ledgerfeed/ledgerfeed/readapi/requestlog"
)

func TestMain(m *testing.M) {
	testkit.MainAs(m, migrations.Up, migrations.ApplyGrants)
}

// bundle is a database and the clock of the stores that write to it.
type bundle struct {
	t     *testing.T
	pool  testkit.DB
	clock *testkit.Clock
	log   testkit.Buffer
}

func setup(t *testing.T) *bundle {
	t.Helper()
	b := &bundle{t: t, pool: testkit.Pool(t), clock: testkit.NewClock(time.Date(2026, 10, 2, 9, 15, 30, 0, time.UTC))}
	testkit.AnyClock(t, b.pool)
	return b
}

func (b *bundle) store(queueSize int) *requestlog.Store {
	b.t.Helper()
	return testkit.Must(requestlog.New(requestlog.Config{
		Pool: b.pool, Clock: b.clock.Now, Logger: b.log.Logger(), QueueSize: queueSize,
	}))(b.t)
}

// gaveUp waits until a store has given up removing what is locked, because it had waited for
// the lock as long as it may: while it waits, others wait behind it.
func (b *bundle) gaveUp(meanwhile func()) {
	b.t.Helper()
	testkit.Eventually(b.t, func() error {
		meanwhile()
		if log := b.log.String(); !strings.Contains(log, "due to lock timeout") {
			return fmt.Errorf("the store has not given up: %q", log)
		}
		return nil
	})
}

// run lets a store write what is queued, and end.
func (b *bundle) run(store *requestlog.Store) {
	b.t.Helper()
	ctx, cancel := context.WithCancel(b.t.Context())
	cancel()
	if err := store.Run(ctx); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bundle) count(query string, args ...any) (n int64) {
	b.t.Helper()
	if err := b.pool.QueryRow(b.t.Context(), query, args...).Scan(&n); err != nil {
		b.t.Fatal(err)
	}
	return n
}

// TestOldRequestsLeave goes through 100 days: 31 of them can be read.
func TestOldRequestsLeave(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for range 100 {
		store := b.store(0)
		store.Record(&requestlog.Record{At: b.clock.Now(), WorkspaceID: "acme", Method: "GET", Status: 200})
		store.Record(&requestlog.Record{At: b.clock.Now(), Refusal: "method"})
		ctx, end := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- store.Run(ctx) }()
		oldest := b.clock.Now().Truncate(24*time.Hour).AddDate(0, 0, -30)
		testkit.Eventually(t, func() error {
			written := b.count(`SELECT count(*) FROM request_log WHERE at = $1`, b.clock.Now())
			requests := b.count(`SELECT count(*) FROM request_log WHERE at < $1`, oldest)
			counts := b.count(`SELECT count(*) FROM request_refused WHERE minute < $1`, oldest)
			if written != 1 || requests > 0 || counts > 0 {
				return fmt.Errorf("%d requests of the day, %d old ones, %d old counts", written, requests, counts)
			}
			return nil
		})
		end()
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		b.clock.Advance(24 * time.Hour)
	}
	if n := b.count(`SELECT count(*) FROM request_log`); n != 31 {
		t.Errorf("%d days are kept", n)
	}
	if n := b.count(`SELECT count(*) FROM request_refused`); n != 31 {
		t.Errorf("%d days of counts are kept", n)
	}
}

// TestAWrongClockRemovesNothing: a process whose clock is a month ahead takes today's requests for old
// ones. It says that its clock is wrong, and they stay.
func TestAWrongClockRemovesNothing(t *testing.T) {
	t.Parallel()
	b := &bundle{t: t, pool: testkit.Pool(t), clock: testkit.NewClock(time.Now())}
	store := b.store(0)
	store.Record(&requestlog.Record{At: b.clock.Now(), WorkspaceID: "acme", Method: "GET", Status: 200})
	store.Record(&requestlog.Record{At: b.clock.Now(), Refusal: "method"})
	b.run(store)
	b.clock.Advance((requestlog.Partitions - 1) * 24 * time.Hour)
	ctx, end := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- b.store(0).Run(ctx) }()
	testkit.Eventually(t, func() error {
		if log := b.log.String(); !strings.Contains(log, "old requests cannot be removed") || !strings.Contains(log, "clock") {
			return fmt.Errorf("the store does not say that its clock is wrong: %q", log)
		}
		return nil
	})
	end()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if requests, counts := b.count(`SELECT count(*) FROM request_log`), b.count(`SELECT count(*) FROM request_refused`); requests != 1 || counts != 1 {
		t.Errorf("%d requests and %d counts are left of one each", requests, counts)
	}
}

// TestRequestsNeverWait: a store whose queue is full drops records and counts them.
func TestRequestsNeverWait(t *testing.T) {
	t.Parallel()
	b := setup(t)
	store := b.store(10)
	for range 25 {
		store.Record(&requestlog.Record{At: b.clock.Now(), WorkspaceID: "acme"})
	}
	if store.Dropped() != 15 {
		t.Errorf("%d dropped", store.Dropped())
	}
	b.pool.Close()
	b.run(store)
	if store.Dropped() != 25 {
		t.Errorf("%d dropped after the database went away", store.Dropped())
	}
}

// TestARecordThatCannotBeStored: it costs no other record its place.
func TestARecordThatCannotBeStored(t *testing.T) {
	t.Parallel()
	b := setup(t)
	store := b.store(100)
	for i := range 50 {
		r := &requestlog.Record{At: b.clock.Now(), WorkspaceID: "acme", RequestID: fmt.Sprint("r", i)}
		if i == 17 {
			r.RequestID = "a zero byte: \x00"
		}
		store.Record(r)
	}
	b.run(store)
	if kept := b.count(`SELECT count(*) FROM request_log`); kept != 49 || store.Dropped() != 1 {
		t.Errorf("%d are kept, %d dropped", kept, store.Dropped())
	}
}

// TestAnOutageIsSaidOnce: while nothing can be written, times without requests are no end of it.
func TestAnOutageIsSaidOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.pool.Close()
	store := testkit.Must(requestlog.New(requestlog.Config{Pool: b.pool, Clock: b.clock.Now, Logger: b.log.Logger(), FlushEvery: time.Millisecond}))(t)
	ctx, end := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- store.Run(ctx) }()
	for n := range int64(20) {
		store.Record(&requestlog.Record{At: b.clock.Now(), WorkspaceID: "acme"})
		testkit.Eventually(t, func() error {
			if dropped := store.Dropped(); dropped != n+1 {
				return fmt.Errorf("%d dropped", dropped)
			}
			return nil
		})
	}
	end()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if log := b.log.String(); strings.Count(log, "requests are not being kept") != 1 || strings.Contains(log, "requests are being kept") {
		t.Errorf("the outage is not said once:\n%s", log)
	}
}

// TestALongReaderDelaysNoOthers: while a transaction that has read requests stays open,
// old ones cannot be removed, and others read requests all the same.
func TestALongReaderDelaysNoOthers(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.clock.Advance(-32 * 24 * time.Hour)
	old := b.store(0)
	for range 2 { // a day of the partition that is emptied next, whichever that is
		old.Record(&requestlog.Record{At: b.clock.Now(), WorkspaceID: "acme", Method: "GET", Status: 200})
		b.clock.Advance(24 * time.Hour)
	}
	b.run(old)
	b.clock.Advance(30 * 24 * time.Hour)
	tx := testkit.Must(b.pool.Begin(t.Context()))(t)
	defer func() { _ = tx.Rollback(context.Background()) }()
	testkit.Must(tx.Exec(t.Context(), `SELECT count(*) FROM request_log`))(t)

	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- b.store(0).Run(ctx) }()
	b.gaveUp(func() { b.count(`SELECT count(*) FROM request_log`) })
	if requestlog.RemoveLockTimeout > time.Second {
		t.Errorf("others wait behind the store for %v", requestlog.RemoveLockTimeout)
	}
	if n := b.count(`SELECT count(*) FROM request_log`); n != 2 {
		t.Errorf("%d requests are there", n)
	}
	stop()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
}

// TestLockedOldRequestsDelayNoOthers: while somebody has locked what is to be removed, new
// requests are written soon, and when the locks are gone the old ones leave.
func TestLockedOldRequestsDelayNoOthers(t *testing.T) {
	t.Parallel()
	b := setup(t)
	now := b.clock.Now()
	b.clock.Advance(-31 * 24 * time.Hour) // the day whose partition is emptied next
	old := b.store(0)
	old.Record(&requestlog.Record{At: b.clock.Now(), WorkspaceID: "acme", Method: "GET", Status: 200})
	old.Record(&requestlog.Record{At: b.clock.Now(), Refusal: "method"})
	b.run(old)
	b.clock.Set(now)
	tx := testkit.Must(testkit.OwnerConn(t, b.pool).Begin(t.Context()))(t)
	defer func() { _ = tx.Rollback(context.Background()) }()
	testkit.Must(tx.Exec(t.Context(), `SELECT FROM request_refused FOR UPDATE`))(t)
	day := now.Unix() / 86400
	partition := func(day int64) string { return fmt.Sprintf("request_log_%02d", day%requestlog.Partitions) }
	testkit.Must(tx.Exec(t.Context(), `LOCK TABLE `+partition(day+1)+` IN ACCESS EXCLUSIVE MODE`))(t)
	store := b.store(0)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- store.Run(ctx) }()
	for n := range int64(3) {
		store.Record(&requestlog.Record{At: now, WorkspaceID: "acme", Method: "GET", Status: 200})
		testkit.Eventually(t, func() error {
			if got := b.count(`SELECT count(*) FROM ` + partition(day)); got != n+1 {
				return fmt.Errorf("%d requests are written, want %d", got, n+1)
			}
			return nil
		})
		b.gaveUp(func() {})
	}
	stop()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, stop = context.WithCancel(t.Context())
	go func() { ended <- b.store(0).Run(ctx) }()
	testkit.Eventually(t, func() error {
		if requests, counts := b.count(`SELECT count(*) FROM request_log`), b.count(`SELECT count(*) FROM request_refused`); requests != 3 || counts != 0 {
			return fmt.Errorf("%d requests and %d counts are left", requests, counts)
		}
		return nil
	})
	stop()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
}
