package testkit

import (
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

const (
	// eventuallyTimeout is long enough for a machine that has much else to do.
	eventuallyTimeout = time.Minute
	// eventuallyEvery leaves the processors to what is waited for.
	eventuallyEvery = 5 * time.Millisecond
)

// Eventually waits until ok returns no complaint, for what the database, another
// process or another goroutine brings about. The test fails with the last
// complaint after a minute.
func Eventually(t testing.TB, ok func() error) {
	t.Helper()
	Within(t, eventuallyTimeout, ok)
}

// Within is Eventually with another limit.
func Within(t testing.TB, limit time.Duration, ok func() error) {
	t.Helper()
	again := time.NewTicker(eventuallyEvery)
	defer again.Stop()
	for deadline := time.Now().Add(limit); ; <-again.C {
		err := ok()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %v", limit, err)
		}
	}
}

// Throughout fails the test as soon as ok is an error, which it asks for so long: what
// must not happen does not.
func Throughout(t testing.TB, so time.Duration, ok func() error) {
	t.Helper()
	again := time.NewTicker(eventuallyEvery)
	defer again.Stop()
	for deadline := time.Now().Add(so); time.Now().Before(deadline); <-again.C {
		if err := ok(); err != nil {
			t.Fatal(err)
		}
	}
}

// LockAwaited is nil when sessions of the database wait for at least n locks.
func LockAwaited(t testing.TB, pool *pgxpool.Pool, n int) error {
	var waiting int
	err := pool.QueryRow(t.Context(), `
		SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`).Scan(&waiting)
	if err == nil && waiting < n {
		err = fmt.Errorf("%d sessions wait for a lock, want %d", waiting, n)
	}
	return err
}
