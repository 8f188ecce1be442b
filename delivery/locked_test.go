package delivery_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/ledgerfeed/ledgerfeed/delivery"
	"github.com/ledgerfeed/ledgerfeed/delivery/dispatch"
	"github.com/ledgerfeed/ledgerfeed/delivery/policy"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

// TestLockedWebhookDelaysNobody: while another transaction has a webhook's rows
// locked, whichever they are, the others are delivered to and recorded. When it ends,
// the locked webhook has everything once and recorded, too.
func TestLockedWebhookDelaysNobody(t *testing.T) {
	t.Parallel()
	for name, lock := range map[string]string{
		"webhook":  `SELECT FROM webhook WHERE workspace_id = 'locked' FOR UPDATE`,
		"cursor":   `SELECT FROM webhook_cursor WHERE workspace_id = 'locked' FOR UPDATE`,
		"all rows": `SELECT FROM webhook w JOIN webhook_cursor c USING (workspace_id, webhook_id) WHERE w.workspace_id = 'locked' FOR UPDATE`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const others, rounds, bound = 6, 8, 10
			b := setup(t, policy.Settings{})
			rc := testkit.NewReceiver(t, nil)
			spaces := []string{"locked"}
			b.webhookIn("locked", rc.URL)
			for i := range others {
				spaces = append(spaces, fmt.Sprint("w", i))
				b.webhookIn(spaces[i+1], rc.URL)
			}
			b.dispatcher(func(c *dispatch.Config) { c.Bound = bound })
			sent := 0
			for _, ws := range spaces { // so that there are rows to lock
				b.appendTo(ws, "invoice.reversed", 1)
				sent++
			}
			rc.Wait(t, sent)
			b.recorded(spaces, sent)

			conn := testkit.Must(pgx.Connect(t.Context(), testkit.Direct(b.pool.Config().ConnString())))(t)
			tx := testkit.Must(conn.Begin(t.Context()))(t)
			if tag := testkit.Must(tx.Exec(t.Context(), lock))(t); tag.RowsAffected() == 0 {
				t.Fatal("nothing to lock")
			}
			for round := range rounds {
				b.appendTo("locked", "invoice.reversed", 3)
				for _, ws := range spaces[1:] {
					b.appendTo(ws, "invoice.reversed", 3)
				}
				b.recorded(spaces[1:], others*(1+3*(round+1)))
			}
			if err := tx.Rollback(t.Context()); err != nil {
				t.Fatal(err)
			}
			_ = conn.Close(t.Context())
			b.recorded([]string{"locked"}, 1+3*rounds)
			if n, want := rc.Count(), len(spaces)*(1+3*rounds); n != want {
				t.Errorf("%d messages, want %d", n, want)
			}
		})
	}
}

// TestChangesOfALockedWebhook: a change of a webhook whose row another transaction has
// locked is refused in words, and others are changed meanwhile, without waiting for it.
func TestChangesOfALockedWebhook(t *testing.T) {
	t.Parallel()
	b := setup(t, policy.Settings{})
	b.workspace("acme")
	b.workspace("beta")
	since := b.clock.Now().Add(-time.Hour)
	// Of two stores, one waits for long and the other for a moment.
	changing := func(wait time.Duration) (*delivery.Store, map[string]func(id string) error) {
		store := testkit.Must(delivery.NewStore(delivery.StoreConfig{
			Pool: b.pool, Keyring: b.keyring, Log: b.log, Notify: b.notifier.Notify, Clock: b.clock.Now, Settings: b.settings, LockTimeout: wait,
		}))(t)
		return store, map[string]func(id string) error{
			"edit": func(id string) error {
				_, err := store.Edit(t.Context(), id, delivery.Change{Events: []string{"invoice.paid"}})
				return err
			},
			"rotate":       func(id string) error { _, err := store.RotateSecret(t.Context(), id); return err },
			"count missed": func(id string) error { _, err := store.CountMissed(t.Context(), id, since); return err },
			"send missed":  func(id string) error { _, err := store.SendMissed(t.Context(), id, since); return err },
			"delete":       func(id string) error { return store.Delete(t.Context(), id) },
		}
	}
	patient, changes := changing(5 * time.Minute)
	_, hasty := changing(200 * time.Millisecond)
	create := func(workspaceID string) string {
		return testkit.Must(patient.Create(t.Context(), workspaceID, delivery.Definition{URL: "https://hooks.example.com/", Events: []string{delivery.AllEvents}}))(t).ID
	}
	locked, free, others := create("acme"), create("acme"), create("beta")
	conn := testkit.Must(pgx.Connect(t.Context(), testkit.Direct(b.pool.Config().ConnString())))(t)
	defer conn.Close(context.Background())
	tx := testkit.Must(conn.Begin(t.Context()))(t)
	testkit.Must(tx.Exec(t.Context(), `SELECT FROM webhook WHERE workspace_id = 'acme' AND webhook_id = $1 FOR UPDATE`, locked))(t)

	waits := make(chan error, 1)
	go func() { waits <- changes["edit"](locked) }()
	testkit.Eventually(t, b.waitsForWebhook)
	testkit.NotBlocked(t, b.pool, testkit.PID(t, tx), func() {
		create("beta")
		for _, id := range []string{free, others} {
			for _, name := range []string{"edit", "rotate", "count missed", "send missed", "delete"} {
				if err := changes[name](id); err != nil {
					t.Errorf("%s of another webhook: %v", name, err)
				}
			}
		}
	})
	for name, change := range hasty {
		if err := change(locked); !errors.Is(err, delivery.ErrLocked) {
			t.Errorf("%s of a locked webhook: %v, want %v", name, err, delivery.ErrLocked)
		}
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-waits; err != nil {
		t.Errorf("edit when it is free: %v", err)
	}
	if err := hasty["delete"](locked); err != nil {
		t.Errorf("delete when it is free: %v", err)
	}
}

// TestATestMessageWaitsForTheLogAlone: while a producer's transaction has the log of a
// workspace, a test message to its webhook waits, and no change of a webhook waits with it.
func TestATestMessageWaitsForTheLogAlone(t *testing.T) {
	t.Parallel()
	b := setup(t, policy.Settings{})
	b.workspace("acme")
	b.workspace("beta")
	w := testkit.Must(b.store.Create(t.Context(), "acme", delivery.Definition{URL: "https://hooks.example.com/", Events: []string{delivery.AllEvents}}))(t)
	tx := testkit.Must(testkit.OwnerConn(t, b.pool).Begin(t.Context()))(t)
	testkit.Must(tx.Exec(t.Context(), `SELECT FROM log_head WHERE workspace_id = 'acme' FOR UPDATE`))(t)
	tested := make(chan error, 1)
	go func() {
		_, err := b.store.Test(t.Context(), w.ID)
		tested <- err
	}()
	testkit.Eventually(t, func() error {
		select {
		case err := <-tested:
			t.Fatalf("a test message does not wait for the log: %v", err)
		default:
		}
		return b.busy("%FROM log_append(%")
	})
	testkit.Must(b.store.Create(t.Context(), "beta", delivery.Definition{URL: "https://hooks.example.com/", Events: []string{delivery.AllEvents}}))(t)
	testkit.Must(b.store.Edit(t.Context(), w.ID, delivery.Change{Events: []string{"invoice.paid"}}))(t)
	select {
	case err := <-tested:
		t.Errorf("webhooks were changed only when the test message was over: %v", err)
	default:
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-tested; err != nil {
		t.Errorf("a test message when the log is free: %v", err)
	}
}

// waitsForWebhook is nil while a session locks the row of a webhook, which takes long only
// if another transaction has it.
func (b *bench) waitsForWebhook() error { return b.busy("%FROM webhook %FOR NO KEY UPDATE") }

// busy is nil while another session runs a statement like a pattern. On a cluster this session
// waits for a node, or looks again after a moment, and not for a lock.
func (b *bench) busy(pattern string) error {
	var found bool
	err := b.pool.QueryRow(b.t.Context(), `
		SELECT EXISTS (SELECT FROM pg_stat_activity
		 WHERE datname = current_database() AND state = 'active' AND pid <> pg_backend_pid() AND query LIKE $1)`, pattern).Scan(&found)
	if err == nil && !found {
		err = fmt.Errorf("no session runs a statement like %s", pattern)
	}
	return err
}

// recorded waits until n deliveries of workspaces are recorded as succeeded.
func (b *bench) recorded(workspaces []string, n int) {
	b.t.Helper()
	testkit.Eventually(b.t, func() error {
		var got int
		err := b.pool.QueryRow(b.t.Context(), `
			SELECT count(*) FROM webhook_delivery WHERE workspace_id = ANY ($1) AND state = 'succeeded'`, workspaces).Scan(&got)
		if err == nil && got != n {
			err = fmt.Errorf("%d deliveries of %v are recorded, want %d", got, workspaces, n)
		}
		return err
	})
}

// TestLockedWebhookIsReleased: a dispatcher that stops while a webhook's rows are
// locked ends in time, and another one takes over what it held.
func TestLockedWebhookIsReleased(t *testing.T) {
	t.Parallel()
	b := setup(t, policy.Settings{Timeout: 2 * time.Second})
	rc := testkit.NewReceiver(t, nil)
	b.webhookIn("locked", rc.URL)
	b.webhookIn("free", rc.URL)
	_, stop := b.dispatcher(func(c *dispatch.Config) { c.Lease = 8 * time.Second })
	b.appendTo("locked", "invoice.reversed", 1)
	b.appendTo("free", "invoice.reversed", 1)
	b.recorded([]string{"locked", "free"}, 2)
	conn := testkit.Must(pgx.Connect(t.Context(), testkit.Direct(b.pool.Config().ConnString())))(t)
	tx := testkit.Must(conn.Begin(t.Context()))(t)
	testkit.Must(tx.Exec(t.Context(), `SELECT FROM webhook_cursor WHERE workspace_id = 'locked' FOR UPDATE`))(t)
	stop()
	b.dispatcher(func(c *dispatch.Config) { c.Lease = 8 * time.Second })
	b.appendTo("free", "invoice.reversed", 1)
	b.appendTo("locked", "invoice.reversed", 1)
	b.recorded([]string{"free"}, 2)
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	_ = conn.Close(t.Context())
	b.recorded([]string{"locked"}, 2)
}

// TestALockedLease: while another transaction has locked the row of the process's lease,
// webhooks are delivered to, at the latest when that lease is over.
func TestALockedLease(t *testing.T) {
	t.Parallel()
	b := setup(t, policy.Settings{Timeout: time.Second})
	rc := testkit.NewReceiver(t, nil)
	b.webhookIn("acme", rc.URL)
	_, stop := b.dispatcher(func(c *dispatch.Config) { c.Lease, c.Sweep = 6*time.Second, 100*time.Millisecond })
	b.appendTo("acme", "invoice.reversed", 1)
	rc.Wait(t, 1)

	conn := testkit.Must(pgx.Connect(t.Context(), testkit.Direct(b.pool.Config().ConnString())))(t)
	defer conn.Close(context.Background())
	tx := testkit.Must(conn.Begin(t.Context()))(t)
	var lease string
	if err := tx.QueryRow(t.Context(), `SELECT instance_id FROM webhook_instance FOR UPDATE`).Scan(&lease); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, func() error {
		var over bool
		err := b.pool.QueryRow(t.Context(), `SELECT lease_until < clock_timestamp() FROM webhook_instance WHERE instance_id = $1`, lease).Scan(&over)
		if err == nil && !over {
			err = errors.New("the lease is not over")
		}
		return err
	})
	b.appendTo("acme", "invoice.reversed", 1)
	rc.Wait(t, 2)
	b.recorded([]string{"acme"}, 2)
	stop() // does not wait for the locked row either
}

// TestLockedTracesDelayNobody: deliveries go on while nobody can read in which traces
// their events were appended, and go on in them when that can be read again.
func TestLockedTracesDelayNobody(t *testing.T) {
	t.Parallel()
	b := setup(t, policy.Settings{})
	rc := testkit.NewReceiver(t, nil)
	b.workspace("acme")
	b.webhookIn("acme", rc.URL)
	spans := tracetest.NewSpanRecorder()
	tracer := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans)).Tracer("test")

	tx := testkit.Must(testkit.OwnerConn(t, b.pool).Begin(t.Context()))(t)
	testkit.Must(tx.Exec(t.Context(), `LOCK TABLE append_trace IN ACCESS EXCLUSIVE MODE`))(t)
	b.dispatcher(func(c *dispatch.Config) { c.Tracer = tracer })
	b.appendTo("acme", "invoice.reversed", 3)
	b.recorded([]string{"acme"}, 3)
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}

	const appended = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	testkit.AsOwner(t, b.pool, `
		CREATE FUNCTION traced() RETURNS trigger LANGUAGE plpgsql AS $$
		BEGIN
		    INSERT INTO append_trace VALUES (NEW.workspace_id, NEW.id, TG_ARGV[0]);
		    RETURN NEW;
		END $$;
		CREATE TRIGGER traced BEFORE INSERT ON event_log FOR EACH ROW EXECUTE FUNCTION traced('`+appended+`')`)
	b.appendTo("acme", "invoice.reversed", 1)
	b.recorded([]string{"acme"}, 4)
	within := 0
	for _, s := range spans.Ended() {
		if s.Parent().IsValid() {
			within++
			if s.Parent().SpanID().String() != "00f067aa0ba902b7" {
				t.Errorf("below %v", s.Parent())
			}
		}
	}
	if n := len(spans.Ended()); n != 4 || within != 1 {
		t.Errorf("%d attempts, %d of them in the trace of an append, want 4 and 1", n, within)
	}
}
