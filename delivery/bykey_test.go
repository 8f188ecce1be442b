package delivery_test

import (
	"fmt"
	"testing"

	"github.com/ledgerfeed/ledgerfeed/delivery"
	"github.com/ledgerfeed/ledgerfeed/delivery/policy"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

// TestRowsOfPeopleAreFoundByTheirKey: what people send again, and what goes to another address, is
// found by key whatever the statistics say of the workspace and its webhook.
func TestRowsOfPeopleAreFoundByTheirKey(t *testing.T) {
	t.Parallel()
	const each = 20
	for _, statistics := range []string{"empty", "stale", "right"} {
		t.Run(statistics, func(t *testing.T) {
			t.Parallel()
			rows := testkit.Scale(4000, 40_000)
			pool := testkit.Must(pg.Open(t.Context(), testkit.NewDatabase(t), pg.Options{MaxConns: 1}))(t)
			t.Cleanup(pool.Close)
			b := setupOn(t, pool, policy.Settings{})
			for _, table := range []string{"webhook_delivery_other", "webhook_waiting", "webhook", "event_log"} {
				testkit.AsOwner(t, pool, `ALTER TABLE `+table+` SET (autovacuum_enabled = off)`)
			}
			if statistics == "stale" {
				b.workspace("old")
				other := testkit.Must(b.store.Create(t.Context(), "old", delivery.Definition{URL: "https://example.com/old", Events: []string{"all"}}))(t)
				b.failed(other, b.write("old", "charge.deleted", rows/4), each)
				testkit.AsOwner(t, pool, `ANALYZE`)
			}
			w := testkit.Must(b.store.Create(t.Context(), workspace, delivery.Definition{URL: "https://example.com/in", Events: []string{"all"}}))(t)
			events := b.write(workspace, "charge.deleted", rows)
			b.failed(w, events, each)
			testkit.AsOwner(t, pool, `UPDATE log_checkpoint SET position = $2 WHERE workspace_id = $1 AND consumer = 'read_models'`, workspace, rows)
			if statistics == "right" {
				testkit.AsOwner(t, pool, `ANALYZE`)
			}
			var chosen []string
			for _, e := range events[rows/2 : rows/2+each] {
				chosen = append(chosen, e+"_"+w.ID)
			}
			address := "https://example.com/other"
			for _, c := range []struct {
				name string
				do   func()
			}{
				{"a delivery", func() { testkit.Must(b.store.Delivery(t.Context(), chosen[0]))(t) }},
				{"a page", func() {
					if p := testkit.Must(b.store.Deliveries(t.Context(), w.ID, delivery.Query{Limit: each}))(t); len(p.Deliveries) != each {
						t.Errorf("%d deliveries, want %d", len(p.Deliveries), each)
					}
				}},
				{"a viewer's page", func() {
					if p := testkit.Must(b.store.Deliveries(t.Context(), w.ID, delivery.Query{Limit: each, NoPay: true}))(t); len(p.Deliveries) != each {
						t.Errorf("%d deliveries, want %d", len(p.Deliveries), each)
					}
				}},
				{"a viewer's count", func() {
					if n, all, err := b.store.CountDeliveries(t.Context(), w.ID, delivery.Query{NoPay: true}, each); n != each || all || err != nil {
						t.Errorf("%d deliveries, all: %v, %v", n, all, err)
					}
				}},
				{"the deliveries of an event", func() {
					if p := testkit.Must(b.store.Deliveries(t.Context(), w.ID, delivery.Query{About: events[rows/2]}))(t); len(p.Deliveries) != 1 {
						t.Errorf("%d deliveries, want 1", len(p.Deliveries))
					}
				}},
				{"the next attempt at once", func() { testkit.Must(b.store.RetryNow(t.Context(), events[rows-1]+"_"+w.ID))(t) }},
				{"sending some again", func() {
					if sent := testkit.Must(b.store.ResendSeveral(t.Context(), w.ID, chosen))(t); sent != each {
						t.Errorf("%d are sent again, want %d", sent, each)
					}
				}},
				{"another address for what is pending", func() { testkit.Must(b.store.Edit(t.Context(), w.ID, delivery.Change{URL: &address}))(t) }},
				{"cancelling what is pending", func() {
					testkit.Must(b.pool.Exec(t.Context(), `UPDATE webhook SET epoch = epoch + 1`))(t)
					var n int
					if err := b.pool.QueryRow(t.Context(), `SELECT webhook_cancel($1, $2, $3)`, workspace, w.ID, 5000).Scan(&n); err != nil || n != 2*each {
						t.Errorf("%d are cancelled, want %d; %v", n, 2*each, err)
					}
				}},
			} {
				if n := b.rowsRead(c.do); n > 100+10*each {
					t.Errorf("%s: %d rows are read", c.name, n)
				} else {
					t.Logf("%s: %d rows", c.name, n)
				}
			}
		})
	}
}

// failed gives a webhook one delivery of each event. The last ones are pending, the others failed.
func (b *bench) failed(w *delivery.WithSecret, events []string, pending int) {
	b.t.Helper()
	testkit.AsOwner(b.t, b.pool, `
		INSERT INTO webhook_delivery (workspace_id, webhook_id, position, created_at, event_id, event_type, state, next_attempt_at, attempts)
		SELECT $1, $2, e.position, now(), e.id, e.type, CASE WHEN e.position > $3 THEN 'pending' ELSE 'failed' END, CASE WHEN e.position > $3 THEN now() + interval '1 hour' END, '[{}]'
		  FROM event_log e WHERE e.workspace_id = $1`, w.WorkspaceID, w.ID, len(events)-pending)
	testkit.AsOwner(b.t, b.pool, `
		INSERT INTO webhook_waiting (workspace_id, webhook_id, position, created_at, attempts, next_attempt_at, epoch)
		SELECT workspace_id, webhook_id, position, created_at, 1, next_attempt_at, 1 FROM webhook_delivery WHERE workspace_id = $1 AND state = 'pending'`, w.WorkspaceID)
}

// rowsRead counts the rows of deliveries and of the log that doing something reads, on a pool of one
// connection.
func (b *bench) rowsRead(do func()) (n int64) {
	b.t.Helper()
	read := func() (n int64) {
		b.t.Helper()
		for _, sql := range []string{`SELECT pg_stat_force_next_flush()`, `SELECT pg_stat_clear_snapshot()`} {
			testkit.Must(b.pool.Exec(b.t.Context(), sql))(b.t)
		}
		err := b.pool.QueryRow(b.t.Context(), `
			SELECT sum(seq_tup_read + coalesce(idx_tup_fetch, 0))::bigint FROM pg_stat_user_tables
			 WHERE relname LIKE 'webhook%' OR relname LIKE 'event_log%'`).Scan(&n)
		if err != nil {
			b.t.Fatal(fmt.Errorf("read the counts of rows: %w", err))
		}
		return n
	}
	before := read()
	do()
	return read() - before
}
