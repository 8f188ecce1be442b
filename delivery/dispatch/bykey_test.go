package dispatch

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/delivery/attempt"
	"github.com/ledgerfeed/ledgerfeed/delivery/dispatch/scheduler"
	"github.com/ledgerfeed/ledgerfeed/delivery/keyring"
	"github.com/ledgerfeed/ledgerfeed/delivery/policy"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

// keyBench is a database in which a webhook has many deliveries, all pending, and its process
// holds many other webhooks.
type keyBench struct {
	t     *testing.T
	store *store
	lease string
	rows  int
	at    time.Time // of every delivery
}

// heldWebhooks is how many webhooks the process holds.
const heldWebhooks = 500

func newKeyBench(t *testing.T, statistics string) *keyBench {
	t.Helper()
	url := testkit.NewDatabase(t)
	pool := testkit.Must(pg.Open(t.Context(), url, pg.Options{MaxConns: 1, Settings: PoolSettings()}))(t)
	t.Cleanup(pool.Close)
	testkit.AnyClock(t, pool)
	b := &keyBench{t: t, rows: testkit.Scale(4000, 40_000), at: time.Now().UTC().Truncate(time.Millisecond)}
	b.store = &store{pool: pool, keyring: testkit.Must(keyring.New("0123456789abcdef"))(t), leaseTime: time.Hour}
	for _, table := range []string{"webhook_delivery_other", "webhook_waiting", "webhook_cursor", "webhook"} {
		testkit.AsOwner(t, pool, `ALTER TABLE `+table+` SET (autovacuum_enabled = off)`)
	}
	b.lease = testkit.Must(b.store.takeLease(t.Context(), time.Now()))(t)
	if statistics == "stale" {
		b.fill("old", b.rows/4)
		testkit.AsOwner(t, pool, `ANALYZE`)
	}
	b.fill("acme", b.rows)
	if statistics == "right" {
		testkit.AsOwner(t, pool, `ANALYZE`)
	}
	return b
}

func (b *keyBench) fill(workspace string, rows int) {
	b.t.Helper()
	pool := b.store.pool
	testkit.AsOwner(b.t, pool, `SELECT workspace_create($1, $1, now())`, workspace)
	testkit.AsOwner(b.t, pool, `
		INSERT INTO webhook (workspace_id, webhook_id, url, created_at, secret)
		SELECT $1, $1 || n, 'https://hooks.example.com/', now(), '\x00' FROM generate_series(1, $2::integer) AS n`, workspace, heldWebhooks)
	testkit.AsOwner(b.t, pool, `
		INSERT INTO webhook_cursor (workspace_id, webhook_id, position, holder) SELECT $1, $1 || n, 0, $3 FROM generate_series(1, $2::integer) AS n`, workspace, heldWebhooks, b.lease)
	testkit.AsOwner(b.t, pool, `
		INSERT INTO webhook_delivery (workspace_id, webhook_id, position, created_at, event_id, event_type, state, next_attempt_at, attempts)
		SELECT $1, $1 || 1, n, $3, 'e' || n, 't', 'pending', now(), '[{}]' FROM generate_series(1, $2::integer) AS n`, workspace, rows, b.at)
	testkit.AsOwner(b.t, pool, `
		INSERT INTO webhook_waiting (workspace_id, webhook_id, position, created_at, attempts, next_attempt_at, epoch)
		SELECT $1, $1 || 1, n, $3, 1, now(), 1 FROM generate_series(1, $2::integer) AS n`, workspace, rows, b.at)
}

// blocks counts the blocks of webhooks' tables and indexes that doing something reads.
func (b *keyBench) blocks(do func()) (n int64) {
	b.t.Helper()
	read := func() (n int64) {
		b.t.Helper()
		for _, sql := range []string{`SELECT pg_stat_force_next_flush()`, `SELECT pg_stat_clear_snapshot()`} {
			testkit.Must(b.store.pool.Exec(b.t.Context(), sql))(b.t)
		}
		err := b.store.pool.QueryRow(b.t.Context(), `
			SELECT sum(heap_blks_read + heap_blks_hit + coalesce(idx_blks_read + idx_blks_hit, 0))::bigint FROM pg_statio_user_tables WHERE relname LIKE 'webhook%'`).Scan(&n)
		if err != nil {
			b.t.Fatal(err)
		}
		return n
	}
	before := read()
	do()
	return read() - before
}

// TestRowsAreFoundByTheirKey: whatever the statistics say of a workspace and its webhooks, the
// statements of delivering read the rows that they are about, and few others.
func TestRowsAreFoundByTheirKey(t *testing.T) {
	t.Parallel()
	const each = 20 // rows that a statement is about
	for _, statistics := range []string{"empty", "stale", "right"} {
		t.Run(statistics, func(t *testing.T) {
			t.Parallel()
			b := newKeyBench(t, statistics)
			ctx, s := t.Context(), b.store
			position := func(i int) int64 { return int64(b.rows/2 + i) }
			key := scheduler.Key{WorkspaceID: "acme", WebhookID: "acme1"}
			var held []scheduler.CursorRecord
			for i := range each {
				k := scheduler.Key{WorkspaceID: "acme", WebhookID: "acme" + string(rune('1'+i%9)) + string(rune('0'+i/9))}
				held = append(held, scheduler.CursorRecord{Key: k, Epoch: 1, Version: 1, Position: 1})
			}
			must := func(err error) {
				t.Helper()
				if err != nil {
					t.Error(err)
				}
			}
			attempts := func(state policy.State, from int) (list []scheduler.AttemptRecord) {
				for i := range each {
					list = append(list, scheduler.AttemptRecord{
						Key: key, Position: position(from + i), CreatedAt: b.at, Number: 2, State: state, Next: b.at.Add(time.Hour), Epoch: 1,
						Result: attempt.Result{At: b.at, Outcome: attempt.OutcomeSuccess},
					})
				}
				return list
			}
			record := func(r *scheduler.Record) func() {
				return func() { must(s.record(ctx, r, time.Now(), func(*pgx.Batch) {})) }
			}
			for _, c := range []struct {
				name string
				do   func()
				few  bool // it is about one or two webhooks
			}{
				{"deliveries that are over", record(&scheduler.Record{Lease: b.lease, Attempts: attempts(policy.Succeeded, 100)}), false},
				{"deliveries that are tried again", record(&scheduler.Record{Lease: b.lease, Attempts: attempts(policy.Pending, 200)}), false},
				{"cursors", record(&scheduler.Record{Lease: b.lease, Cursors: held}), false},
				{"webhooks", func() { second(t)(s.load(ctx, []scheduler.Key{key})) }, true},
				{"what was sent", func() {
					second(t)(s.readJournal(ctx, []webhookRow{{Loaded: scheduler.Loaded{Key: key, Position: int64(b.rows - each)}}}))
				}, true},
				{"a poll", func() {
					requests := []scheduler.PollRequest{{Key: key, RetryLimit: each}, {Key: held[0].Key, RetryLimit: each}}
					answers, _, err := s.readDue(ctx, requests, time.Now())
					if err != nil || len(answers) != 2 || !answers[0].Found || !answers[1].Found {
						t.Errorf("%d answers; %v", len(answers), err)
					}
				}, true},
				{"releases", func() { must(s.release(ctx, b.lease, held, time.Now())) }, false},
				{"a claim", func() {
					second(t)(s.claim(ctx, &scheduler.Claim{Lease: b.lease, Keys: []scheduler.Key{held[0].Key, key}}, time.Now()))
				}, true},
			} {
				most := int64(60 + 40*each) // of indexes up to three levels deep
				if c.few {
					most = 60
				}
				if n := b.blocks(c.do); n > most {
					t.Errorf("%s: %d blocks are read", c.name, n)
				} else {
					t.Logf("%s: %d blocks", c.name, n)
				}
			}
			var over, waiting, moved int
			err := s.pool.QueryRow(ctx, `
				SELECT (SELECT count(*) FROM webhook_delivery WHERE workspace_id = 'acme' AND state = 'succeeded'),
				       (SELECT count(*) FROM webhook_waiting WHERE workspace_id = 'acme'),
				       (SELECT count(*) FROM webhook_cursor WHERE workspace_id = 'acme' AND position = 1 AND holder IS NULL)`).Scan(&over, &waiting, &moved)
			if err != nil || over != each || waiting != b.rows-each || moved != each {
				t.Errorf("%d are over, %d wait, %d cursors have moved and are free, want %d, %d and %d; %v", over, waiting, moved, each, b.rows-each, each, err)
			}
		})
	}
}

// second fails the test if there is an error.
func second(t *testing.T) func(any, error) {
	t.Helper()
	return func(_ any, err error) {
		t.Helper()
		if err != nil {
			t.Error(err)
		}
	}
}
