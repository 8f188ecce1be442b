package dispatch

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/delivery/dispatch/scheduler"
	"github.com/ledgerfeed/ledgerfeed/delivery/keyring"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
	"github.com/ledgerfeed/ledgerfeed/migrations"
)

func TestMain(m *testing.M) {
	testkit.MainAs(m, migrations.Up, migrations.ApplyGrants)
}

const day = 24 * time.Hour

// TestHistoryDaysComeAndGo keeps partitions for thirty days, and gives way to a
// reader instead of making every insert wait.
func TestHistoryDaysComeAndGo(t *testing.T) {
	t.Parallel()
	pool := testkit.Pool(t)
	testkit.AnyClock(t, pool)
	s := &store{pool: pool, keyring: testkit.Must(keyring.New("0123456789abcdef"))(t)}
	day0 := time.Date(2030, 5, 1, 9, 0, 0, 0, time.UTC)
	insert := func(at time.Time) {
		t.Helper()
		_, err := pool.Exec(t.Context(), `INSERT INTO webhook_delivery VALUES ('acme', 'wh', 1, $1, 'e', 't', 'succeeded', NULL, '[]')`, at)
		if err != nil {
			t.Fatal(err)
		}
	}
	insert(day0.Add(-29 * day)) // before there is a partition for it
	insert(day0)
	for d := range 40 {
		now := day0.Add(time.Duration(d) * day)
		if err := s.maintain(t.Context(), now, 30*day); err != nil {
			t.Fatal(err)
		}
		insert(now.Add(time.Hour))
	}
	var rowsLeft, elsewhere, days int
	other := `SELECT count(*) FROM webhook_delivery WHERE tableoid = 'webhook_delivery_other'::regclass`
	err := errors.Join(
		pool.QueryRow(t.Context(), `SELECT count(*) FROM webhook_delivery`).Scan(&rowsLeft),
		pool.QueryRow(t.Context(), other).Scan(&elsewhere),
		pool.QueryRow(t.Context(), `SELECT count(*) FROM pg_inherits WHERE inhparent = 'webhook_delivery'::regclass`).Scan(&days))
	if err != nil || rowsLeft != 31 || elsewhere != 0 || days != 30+1+7+1 {
		t.Errorf("%d rows, %d of them without a day, %d partitions, %v", rowsLeft, elsewhere, days, err)
	}
	tx := testkit.Must(pool.Begin(t.Context()))(t)
	defer func() { _ = tx.Rollback(t.Context()) }()
	if _, err := tx.Exec(t.Context(), `SELECT count(*) FROM webhook_delivery`); err != nil {
		t.Fatal(err)
	}
	if err := s.maintain(t.Context(), day0.Add(60*day), 30*day); err == nil || !pg.Locked(err) {
		t.Errorf("beside a long reader: %v", err)
	}
	insert(day0.Add(60 * day))
}

// TestAWrongClockDropsNoHistory: to a process whose clock is a year ahead the whole history is
// past its retention.
func TestAWrongClockDropsNoHistory(t *testing.T) {
	t.Parallel()
	pool := testkit.Pool(t)
	s := &store{pool: pool, keyring: testkit.Must(keyring.New("0123456789abcdef"))(t)}
	now := time.Now()
	if err := s.maintain(t.Context(), now, 30*day); err != nil {
		t.Fatal(err)
	}
	testkit.Must(pool.Exec(t.Context(), `INSERT INTO webhook_delivery VALUES ('acme', 'wh', 1, $1, 'e', 't', 'succeeded', NULL, '[]')`, now))(t)
	if err := s.maintain(t.Context(), now.AddDate(1, 0, 0), 30*day); !isClockError(err) {
		t.Errorf("with a wrong clock: %v", err)
	}
	var kept int
	if err := pool.QueryRow(t.Context(), `SELECT count(*) FROM webhook_delivery`).Scan(&kept); err != nil || kept != 1 {
		t.Errorf("%d deliveries are kept, want 1: %v", kept, err)
	}
}

// TestSecretsAreResealed takes an old key out of use.
func TestSecretsAreResealed(t *testing.T) {
	t.Parallel()
	pool := testkit.Pool(t)
	k := scheduler.Key{WorkspaceID: "acme", WebhookID: "wh_1"}
	older := testkit.Must(keyring.New("0123456789abcdef"))(t)
	_, err := pool.Exec(t.Context(), `
		WITH w AS (INSERT INTO workspace (workspace_id, name, created_at) VALUES ('acme', 'Acme', now())),
		     h AS (INSERT INTO webhook (workspace_id, webhook_id, url, created_at, secret, old_secret, old_secret_until, older_secrets, older_secrets_until)
		           VALUES ('acme', 'wh_1', 'https://example.com', now(), $1, $2, now() + interval '1 day', ARRAY[$3::bytea], ARRAY[now() + interval '1 hour']))
		INSERT INTO webhook_cursor (workspace_id, webhook_id, position) VALUES ('acme', 'wh_1', 0)`,
		older.Seal("acme", "wh_1", "whsec_new"), older.Seal("acme", "wh_1", "whsec_old"), older.Seal("acme", "wh_1", "whsec_older"))
	if err != nil {
		t.Fatal(err)
	}
	endpoint := func(keys *keyring.Keyring) *scheduler.Endpoint {
		t.Helper()
		rows := testkit.Must((&store{pool: pool, keyring: keys}).load(t.Context(), []scheduler.Key{k}))(t)
		return rows[0].Endpoint
	}
	both := testkit.Must(keyring.New("fedcba9876543210, 0123456789abcdef"))(t)
	if err := keyring.Rotate(t.Context(), pool, both, time.Now(), nil); err != nil {
		t.Fatal(err)
	}
	if err := (&store{pool: pool, keyring: both}).maintain(t.Context(), time.Now(), time.Hour); err != nil {
		t.Fatal(err)
	}
	if e := endpoint(testkit.Must(keyring.New("fedcba9876543210"))(t)); e.Broken != nil || e.Secret != "whsec_new" || len(e.Old) != 2 || e.Old[0].Secret != "whsec_old" || e.Old[1].Secret != "whsec_older" {
		t.Errorf("with the new key: %+v", e)
	}
	if e := endpoint(older); e.Broken == nil {
		t.Error("the old key still opens it")
	}
}

// TestALeaseNeedsTheKeyThatSeals: a process whose keys were replaced before it takes a lease, or
// takes another one, takes none. A rotation that it comes before finds its lease, and waits for it.
func TestALeaseNeedsTheKeyThatSeals(t *testing.T) {
	t.Parallel()
	pool := testkit.Pool(t)
	older := testkit.Must(keyring.New("0123456789abcdef"))(t)
	both := testkit.Must(keyring.New("fedcba9876543210, 0123456789abcdef"))(t)
	if err := pg.InTx(t.Context(), pool, func(tx pgx.Tx) error { return keyring.Register(t.Context(), tx, older, time.Now()) }); err != nil {
		t.Fatal(err)
	}
	s := &store{pool: pool, keyring: older, leaseTime: time.Minute}
	lease := testkit.Must(s.takeLease(t.Context(), time.Now()))(t)
	var early *keyring.NotReadyError
	if err := keyring.Rotate(t.Context(), pool, both, time.Now(), nil); !errors.As(err, &early) {
		t.Fatalf("a rotation beside a process that has the old key alone: %v", err)
	}
	if err := s.dropLease(t.Context(), lease); err != nil {
		t.Fatal(err)
	}
	if err := keyring.Rotate(t.Context(), pool, both, time.Now(), nil); err != nil {
		t.Fatal(err)
	}
	var missing *keyring.MissingError
	if _, err := s.takeLease(t.Context(), time.Now()); !errors.As(err, &missing) {
		t.Errorf("a lease of a process that has the old key alone: %v", err)
	}
	s.keyring = both
	testkit.Must(s.takeLease(t.Context(), time.Now()))(t)
}

// TestALockedTableOfCountsDelaysOnlyItself: while somebody has locked the whole table of
// counts of attempts, the other maintenance is done, and the old counts are deleted later.
func TestALockedTableOfCountsDelaysOnlyItself(t *testing.T) {
	t.Parallel()
	pool := testkit.Pool(t)
	testkit.AnyClock(t, pool)
	s := &store{pool: pool, keyring: testkit.Must(keyring.New("0123456789abcdef"))(t)}
	now := time.Date(2030, 5, 1, 9, 0, 0, 0, time.UTC)
	testkit.AsOwner(t, pool, `
		INSERT INTO workspace (workspace_id, name, created_at) VALUES ('acme', 'Acme', now());
		INSERT INTO webhook (workspace_id, webhook_id, url, created_at, secret) VALUES ('acme', 'wh', 'https://hooks.example.com/', now(), '\x00');
		INSERT INTO attempt_rollup VALUES ('acme', 60, '2030-03-01 09:00Z', 'wh', 'success', 1, '{1}');
		INSERT INTO request_rollup VALUES ('acme', 60, '2030-03-01 09:00Z', 'list', 2, 1, '{1}');
		INSERT INTO append_trace SELECT 'acme', 'old', lpad('1', 55, '0'), '2030-04-01 09:00Z'`)
	left := func(want string) {
		t.Helper()
		var got string
		if err := pool.QueryRow(t.Context(), `SELECT (SELECT count(*) FROM request_rollup) || ' ' || (SELECT count(*) FROM append_trace)`).Scan(&got); err != nil || got != want {
			t.Errorf("%s counts and traces are left, want %s: %v", got, want, err)
		}
	}
	left("1 1")
	tx := testkit.Must(testkit.OwnerConn(t, pool).Begin(t.Context()))(t)
	defer func() { _ = tx.Rollback(context.Background()) }()
	testkit.Must(tx.Exec(t.Context(), `LOCK TABLE attempt_rollup IN ACCESS EXCLUSIVE MODE`))(t)
	limited, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := s.maintain(limited, now, 30*day); !pg.Locked(err) {
		t.Errorf("beside a lock: %v", err)
	}
	left("0 0")
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.maintain(limited, now, 30*day); err != nil {
		t.Fatal(err)
	}
	var n int
	if err := pool.QueryRow(t.Context(), `SELECT count(*) FROM attempt_rollup`).Scan(&n); err != nil || n != 0 {
		t.Errorf("%d counts are left: %v", n, err)
	}
}

// TestTracesAreForgotten: traces of appends go after a week, at once or, where somebody has
// locked their table, the next time.
func TestTracesAreForgotten(t *testing.T) {
	t.Parallel()
	pool := testkit.Pool(t)
	testkit.AnyClock(t, pool)
	s := &store{pool: pool, keyring: testkit.Must(keyring.New("0123456789abcdef"))(t)}
	now := time.Date(2030, 5, 1, 9, 0, 0, 0, time.UTC)
	testkit.AsOwner(t, pool, `
		INSERT INTO append_trace SELECT 'acme', 'of ' || days || ' days', lpad(n::text, 55, '0'), $1::timestamptz - days * interval '1 day'
		  FROM (VALUES (6, 1), (8, 2 * $2 + 1)) AS v (days, rows), generate_series(1, rows) AS n`, now, tracesSlice)
	tx := testkit.Must(testkit.OwnerConn(t, pool).Begin(t.Context()))(t)
	defer func() { _ = tx.Rollback(context.Background()) }()
	testkit.Must(tx.Exec(t.Context(), `LOCK TABLE append_trace IN SHARE MODE`))(t)
	for _, want := range []string{"of 6 days, of 8 days", "of 6 days"} {
		limited, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		err := s.maintain(limited, now, 30*day)
		cancel()
		if err != nil {
			t.Fatal(err)
		}
		var left string
		if err := pool.QueryRow(t.Context(), `SELECT string_agg(DISTINCT event_id, ', ' ORDER BY event_id) FROM append_trace`).Scan(&left); err != nil || left != want {
			t.Errorf("the traces %s are left, want %s: %v", left, want, err)
		}
		if err := tx.Rollback(t.Context()); err != nil && !errors.Is(err, pgx.ErrTxClosed) {
			t.Fatal(err)
		}
	}
}

// TestOneTraceForAnEvent: whatever was recorded for an event, one trace of it is read.
func TestOneTraceForAnEvent(t *testing.T) {
	t.Parallel()
	pool := testkit.Pool(t)
	testkit.AsOwner(t, pool, `
		INSERT INTO append_trace SELECT 'acme', event, lpad(n::text, 55, '0')
		  FROM unnest(ARRAY['one', 'two']) AS event, generate_series(1, 100) AS n`)
	one, two, none := &scheduler.Attempt{EventID: "one"}, &scheduler.Attempt{EventID: "two"}, &scheduler.Attempt{EventID: "none"}
	polled := scheduler.Polled{
		Poll:    &scheduler.Poll{Requests: []scheduler.PollRequest{{Key: scheduler.Key{WorkspaceID: "acme"}}}},
		Results: make([]scheduler.PollResult, 1),
	}
	polled.Results[0].Attempts[scheduler.Live] = []*scheduler.Attempt{one}
	polled.Results[0].Attempts[scheduler.Retry] = []*scheduler.Attempt{two, none}
	if err := (&store{pool: pool}).readTraces(t.Context(), &polled); err != nil {
		t.Fatal(err)
	}
	first := fmt.Sprintf("%055d", 1)
	if one.Traced != first || two.Traced != first || none.Traced != "" {
		t.Errorf("read %q, %q and %q, want %q twice and none", one.Traced, two.Traced, none.Traced, first)
	}
}
