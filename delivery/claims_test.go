package delivery_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/ledgerfeed/ledgerfeed/delivery"
	"github.com/ledgerfeed/ledgerfeed/delivery/policy"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

// TestEventsDoNotWaitForClaims: an event for a webhook that is held is sent although
// a claim waits for a lock.
func TestEventsDoNotWaitForClaims(t *testing.T) {
	t.Parallel()
	b := setup(t, policy.Settings{})
	rc := testkit.NewReceiver(t, nil)
	testkit.Must(b.store.Create(t.Context(), workspace, delivery.Definition{URL: rc.URL, Events: []string{"all"}}))(t)
	b.dispatcher()
	b.append("invoice.reversed", 1)
	rc.Wait(t, 1)

	// Only a claim waits: the numbers of events are in the same table.
	testkit.AsOwner(t, b.pool, `
		CREATE FUNCTION wait_in_claim() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_advisory_xact_lock(47); RETURN NEW; END';
		CREATE TRIGGER wait_in_claim BEFORE UPDATE ON webhook_cursor FOR EACH ROW
		  WHEN (NEW.holder IS DISTINCT FROM OLD.holder) EXECUTE FUNCTION wait_in_claim()`)
	lock := testkit.Must(b.pool.Begin(t.Context()))(t)
	defer func() { _ = lock.Rollback(t.Context()) }()
	testkit.Must(lock.Exec(t.Context(), `SELECT pg_advisory_xact_lock(47)`))(t)
	other := testkit.NewReceiver(t, nil)
	testkit.Must(b.store.Create(t.Context(), workspace, delivery.Definition{URL: other.URL, Events: []string{"all"}}))(t)
	b.append("invoice.reversed", 1)
	testkit.Eventually(t, func() error { return b.waitsFor("WITH wanted AS") })
	b.append("invoice.reversed", 1)
	testkit.Within(t, 10*time.Second, func() error { // the claim gives up after 30 s
		if n := rc.Count(); n != 3 {
			return fmt.Errorf("%d messages arrived, want 3", n)
		}
		return nil
	})
}

// waitsFor returns an error unless a statement with this text waits for a lock.
func (b *bench) waitsFor(text string) error {
	var n int
	err := b.pool.QueryRow(b.t.Context(), `
		SELECT count(*) FROM pg_stat_activity
		 WHERE datname = current_database() AND wait_event_type = 'Lock' AND strpos(query, $1) > 0`, text).Scan(&n)
	if err == nil && n == 0 {
		err = errors.New("no claim waits for the lock")
	}
	return err
}
