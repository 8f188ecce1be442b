package testkit

import (
	"testing"
	"time"
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
