package testkit

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/internal/pg"
)

const (
	// eventuallyTimeout is long enough for a machine that has much else to do.
	eventuallyTimeout = 3 * time.Minute
	// Eventually asks often at first and less often later, so that the processors are left
	// to what is waited for.
	eventuallyFirst = 5 * time.Millisecond
	eventuallyLast  = 50 * time.Millisecond
)

// Eventually waits until ok returns no complaint, for what the database, another
// process or another goroutine brings about. The test fails with the last
// complaint after three minutes.
func Eventually(t testing.TB, ok func() error) {
	t.Helper()
	Within(t, eventuallyTimeout, ok)
}

// Within is Eventually with another limit.
func Within(t testing.TB, limit time.Duration, ok func() error) {
	t.Helper()
	pause := eventuallyFirst
	again := time.NewTimer(pause)
	defer again.Stop()
	for deadline := time.Now().Add(limit); ; <-again.C {
		err := ok()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %v", limit, err)
		}
		again.Reset(pause)
		pause = min(2*pause, eventuallyLast)
	}
}

// Receive returns the next value of a channel. The test fails if none comes within three
// minutes, or if the channel is closed.
func Receive[T any](t testing.TB, from <-chan T, what string) (value T) {
	t.Helper()
	late := time.NewTimer(eventuallyTimeout)
	defer late.Stop()
	select {
	case value, open := <-from:
		if !open {
			t.Fatalf("%s does not come: the channel is closed", what)
		}
		return value
	case <-late.C:
		t.Fatalf("%s does not come within %v", what, eventuallyTimeout)
	}
	return value
}

// Offered returns the next value of a channel if one comes within a moment. It is for loops
// that look at something else between two values.
func Offered[T any](from <-chan T) (value T, offered bool) {
	moment := time.NewTimer(eventuallyFirst)
	defer moment.Stop()
	select {
	case value, offered = <-from:
	case <-moment.C:
	}
	return value, offered
}

// Throughout fails the test as soon as ok is an error, which it asks for so long: what
// must not happen does not.
func Throughout(t testing.TB, so time.Duration, ok func() error) {
	t.Helper()
	again := time.NewTicker(eventuallyFirst)
	defer again.Stop()
	for deadline := time.Now().Add(so); time.Now().Before(deadline); <-again.C {
		if err := ok(); err != nil {
			t.Fatal(err)
		}
	}
}

// LockAwaited is nil when sessions of the database wait for at least n
// locks.
func LockAwaited(t testing.TB, pool pg.DB, n int) error {
	waiting, err := LocksAwaited(t, pool)
	if err == nil && waiting < n {
		err = fmt.Errorf("%d sessions wait for a lock, want %d", waiting, n)
	}
	return err
}

// LocksAwaited counts the sessions of LockAwaited. The condition, which may be empty, is one
// more for rows of pg_stat_activity.
func LocksAwaited(t testing.TB, db interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}, condition ...string) (waiting int, err error) {
	sql := `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`
	for _, c := range condition {
		sql += " AND " + c
	}
	err = db.QueryRow(t.Context(), sql).Scan(&waiting)
	return waiting, err
}
