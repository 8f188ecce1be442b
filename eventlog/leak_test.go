package eventlog_test

import (
	"context"
	"errors"
	"testing"

	"go.uber.org/goleak"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

// TestGoroutinesEnd starts and stops everything here that has goroutines, several
// times. It is not parallel, because it would find the goroutines of other tests.
func TestGoroutinesEnd(t *testing.T) {
	testkit.Unpooled(t, "what relays its connections to the server are goroutines of this process")
	b := setup(t)
	b.append(t, many(t, "w", 3)...)
	before := goleak.IgnoreCurrent()
	for range 5 {
		startAndStop(t, b)
	}
	b.pool.Reset() // idle connections have goroutines, too
	goleak.VerifyNone(t, before)
}

func startAndStop(t *testing.T, b *bundle) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	notifier := newNotifier(b.pool)
	log := newLog(t, eventlog.Config{Pool: b.pool, Clock: b.clock.Now, Notify: notifier.Notify})
	ended := make(chan error, 2)
	go func() { ended <- notifier.Run(ctx) }()
	followed := make(chan struct{}, 100)
	go func() {
		ended <- follow(ctx, log, notifier, "w", 0, func(*domain.Entry) error { followed <- struct{}{}; return nil })
	}()
	<-followed
	if _, err := log.Append(ctx, client(t, "w", "", "n")); err != nil {
		t.Fatal(err)
	}
	cancel()
	for range 2 {
		if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}
}
