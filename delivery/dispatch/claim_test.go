package dispatch

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/ledgerfeed/ledgerfeed/delivery/dispatch/scheduler"
	"github.com/ledgerfeed/ledgerfeed/delivery/keyring"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

// claimBench is a database with webhooks of acme that a process held which died, and the
// claim of another one for all of them.
func claimBench(t *testing.T, webhooks ...string) (*store, *scheduler.Claim) {
	t.Helper()
	pool := testkit.Pool(t)
	testkit.AnyClock(t, pool)
	s := &store{pool: pool, keyring: testkit.Must(keyring.New("0123456789abcdef"))(t), leaseTime: time.Minute}
	testkit.AsOwner(t, pool, `
		WITH made AS (SELECT workspace_create('acme', 'acme', now())),
		     h AS (INSERT INTO webhook (workspace_id, webhook_id, url, created_at, secret)
		           SELECT 'acme', id, 'https://hooks.example.com/', now(), '\x00' FROM made, unnest($1::text[]) AS id)
		INSERT INTO webhook_cursor (workspace_id, webhook_id, position, replay_position, replay_until, holder)
		SELECT 'acme', id, 0, 0, 1, 'died' FROM unnest($1::text[]) AS id`, webhooks)
	testkit.AsOwner(t, pool, `
		INSERT INTO webhook_delivery (workspace_id, webhook_id, position, created_at, event_id, event_type, state, attempts)
		SELECT 'acme', id, 1, now(), 'e', 't', 'succeeded', '[]' FROM unnest($1::text[]) AS id`, webhooks)
	lease := testkit.Must(s.takeLease(t.Context(), time.Now()))(t)
	return s, &scheduler.Claim{Lease: lease, WorkspaceIDs: []string{"acme"}}
}

// held counts the webhooks that a lease holds, and those that have no holder.
func held(t *testing.T, s *store, lease string) (mine, nobodys int) {
	t.Helper()
	err := s.pool.QueryRow(t.Context(), `SELECT count(*) FILTER (WHERE holder = $1), count(*) FILTER (WHERE holder IS NULL) FROM webhook_cursor`, lease).Scan(&mine, &nobodys)
	if err != nil {
		t.Fatal(err)
	}
	return mine, nobodys
}

// claimOnce claims and loads webhooks; more tells whether others are to be left.
func claimOnce(t *testing.T, s *store, c *scheduler.Claim, more bool) []scheduler.Loaded {
	t.Helper()
	claimed, left, err := s.claimAndLoad(t.Context(), c, time.Now())
	if err != nil || left != more {
		t.Fatalf("more are left: %v, want %v; %v", left, more, err)
	}
	return claimed
}

// TestAClaimOutOfTimeIsGivenBack: webhooks that were claimed and could not be loaded in time
// are free at once.
func TestAClaimOutOfTimeIsGivenBack(t *testing.T) {
	t.Parallel()
	s, c := claimBench(t, "one", "two")
	tx := testkit.Must(testkit.OwnerConn(t, s.pool).Begin(t.Context()))(t)
	defer func() { _ = tx.Rollback(context.Background()) }()
	testkit.Must(tx.Exec(t.Context(), `LOCK TABLE webhook_delivery IN ACCESS EXCLUSIVE MODE`))(t)
	limited, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	claimed, _, err := s.claimAndLoad(limited, c, time.Now())
	if err == nil || limited.Err() == nil || len(claimed) > 0 {
		t.Fatalf("%d webhooks are claimed: %v", len(claimed), err)
	}
	if mine, nobodys := held(t, s, c.Lease); mine != 0 || nobodys != 2 {
		t.Errorf("%d webhooks are still held, %d free: %v", mine, nobodys, err)
	}
}

// TestAClaimIsBounded: however many webhooks are left by a process that died, one claim takes
// a bounded number of them, and the next ones take the rest.
func TestAClaimIsBounded(t *testing.T) {
	t.Parallel()
	webhooks := make([]string, 2*maxClaim+1)
	for i := range webhooks {
		webhooks[i] = fmt.Sprint("wh", i)
	}
	s, c := claimBench(t, webhooks...)
	for _, want := range []int{maxClaim, maxClaim, 1} {
		if n := len(claimOnce(t, s, c, want == maxClaim)); n != want {
			t.Fatalf("%d webhooks are claimed, want %d", n, want)
		}
	}
}

// TestALeaseThatEndsWhileItsRowIsLockedIsNotRenewed: the renewal began in time, and waited.
func TestALeaseThatEndsWhileItsRowIsLockedIsNotRenewed(t *testing.T) {
	t.Parallel()
	s, c := claimBench(t, "one")
	tx := testkit.Must(testkit.OwnerConn(t, s.pool).Begin(t.Context()))(t)
	defer func() { _ = tx.Rollback(context.Background()) }()
	testkit.Must(tx.Exec(t.Context(), `SELECT FROM webhook_instance WHERE instance_id = $1 FOR UPDATE`, c.Lease))(t)
	renewed := make(chan error, 1)
	go func() {
		_, _, err := s.renewLease(t.Context(), c.Lease, time.Now())
		renewed <- err
	}()
	testkit.Eventually(t, func() error {
		var waits bool
		err := s.pool.QueryRow(t.Context(), `
			SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock' AND query LIKE '%webhook_instance%')`).Scan(&waits)
		if err == nil && !waits {
			err = errors.New("the renewal does not wait for the row")
		}
		return err
	})
	testkit.Must(tx.Exec(t.Context(), `UPDATE webhook_instance SET lease_until = clock_timestamp() WHERE instance_id = $1`, c.Lease))(t)
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-renewed; !leaseIsOver(err) {
		t.Errorf("a lease that ended while the renewal waited: %v, want %v", err, errLeaseOver)
	}
}
