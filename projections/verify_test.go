package projections_test

import (
	"context"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
	"github.com/ledgerfeed/ledgerfeed/projections"
)

// replay makes a Replay over the database.
func (b *bench) replay(change ...func(*projections.ReplayConfig)) *projections.Replay {
	b.t.Helper()
	pool, err := pg.Open(b.t.Context(), b.url, pg.Options{MaxConns: 6, Settings: projections.ReplaySettings()})
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(pool.Close)
	cfg := projections.ReplayConfig{Pool: pool, Clock: time.Now}
	for _, c := range change {
		c(&cfg)
	}
	r, err := projections.NewReplay(cfg)
	if err != nil {
		b.t.Fatal(err)
	}
	return r
}

// verify returns every difference as a line.
func (b *bench) verify(r *projections.Replay, q projections.VerifyRequest) (lines []string, done []projections.Verification) {
	b.t.Helper()
	err := r.Verify(b.t.Context(), q,
		func(d projections.Difference) { lines = append(lines, d.String()) },
		func(v projections.Verification) { done = append(done, v) })
	if err != nil {
		b.t.Fatal(err)
	}
	slices.Sort(lines)
	return lines, done
}

// damage runs a statement that nobody is allowed to run.
func (b *bench) damage(sql string, args ...any) {
	b.t.Helper()
	err := pg.InTx(b.t.Context(), b.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(b.t.Context(), "ALTER TABLE event_log DISABLE TRIGGER event_log_append_only"); err != nil {
			return err
		}
		tag, err := tx.Exec(b.t.Context(), sql, args...)
		if err != nil {
			return err
		}
		if tag.RowsAffected() == 0 {
			return fmt.Errorf("%s: touched nothing", sql)
		}
		_, err = tx.Exec(b.t.Context(), "ALTER TABLE event_log ENABLE TRIGGER event_log_append_only")
		return err
	})
	if err != nil {
		b.t.Fatal(err)
	}
}

// text reads one value.
func (b *bench) text(sql string, args ...any) (v string) {
	b.t.Helper()
	if err := b.pool.QueryRow(b.t.Context(), sql, args...).Scan(&v); err != nil {
		b.t.Fatal(err)
	}
	return v
}

// projected is a bench with three projected workspaces: agency, ws-1, ws-2.
func projected(t *testing.T) *bench {
	t.Helper()
	b := newBench(t)
	b.append(generate(t, "ws-1", 1, 900))
	b.append(generate(t, "ws-2", 2, 700))
	b.project(1000)
	return b
}

func TestVerifyFindsNothingInWhatWasProjected(t *testing.T) {
	t.Parallel()
	b := projected(t)
	if err := pg.InTx(t.Context(), b.pool, func(tx pgx.Tx) error {
		_, err := tx.Exec(t.Context(), "SELECT workspace_create('empty', 'empty', now())")
		return err
	}); err != nil {
		t.Fatal(err)
	}
	lines, done := b.verify(b.replay(), projections.VerifyRequest{})
	if len(lines) != 0 {
		t.Errorf("differences: %s", strings.Join(lines, "\n"))
	}
	if len(done) != 3 {
		t.Fatalf("verified %+v", done)
	}
	for _, v := range done {
		head, err := b.log.Head(t.Context(), v.WorkspaceID)
		if err != nil {
			t.Fatal(err)
		}
		if v.Position != head.Position || v.Head != head.Position || v.Chain != hex.EncodeToString(head.Chain[:]) || !v.LogIntact {
			t.Errorf("verified %+v, the head is %+v", v, head)
		}
		if v.Position > 0 && (v.Rules != projections.RulesVersion || v.Rows == 0) {
			t.Errorf("verified %+v", v)
		}
	}
}

// Every kind of damage is named, and nothing else is.
func TestVerifyNamesDamage(t *testing.T) {
	t.Parallel()
	for _, d := range damages() {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			b := projected(t)
			want := d.do(b)
			slices.Sort(want)
			lines, done := b.verify(b.replay(), projections.VerifyRequest{})
			if d.among {
				for _, w := range want {
					if !slices.Contains(lines, w) {
						t.Errorf("not named: %s\nbut: %s", w, strings.Join(lines, "\n"))
					}
				}
			} else if !slices.Equal(lines, want) {
				t.Errorf("named:\n%s\nwant:\n%s", strings.Join(lines, "\n"), strings.Join(want, "\n"))
			}
			for _, v := range done {
				if want := !d.log || v.WorkspaceID != "ws-1"; v.LogIntact != want {
					t.Errorf("%s: log intact is %v", v.WorkspaceID, v.LogIntact)
				}
			}
		})
	}
}

type damaging struct {
	name  string
	log   bool // of the log: not to be repaired
	among bool // what follows from it may be named too
	do    func(b *bench) []string
}

func damages() []damaging {
	return []damaging{
		{name: "an amount changed", do: func(b *bench) []string {
			id := b.text(`SELECT id FROM invoice WHERE workspace_id = 'ws-1' ORDER BY id OFFSET 3 LIMIT 1`)
			gross := b.text(`SELECT (base || '}')::json ->> 'gross_amount' FROM invoice WHERE workspace_id = 'ws-1' AND id = $1`, id)
			b.damage(`UPDATE invoice SET base = replace(base, '"gross_amount":"' || $2 || '"', '"gross_amount":"9999999.99"') WHERE workspace_id = 'ws-1' AND id = $1`, id, gross)
			return []string{fmt.Sprintf(`ws-1: invoices %s, gross_amount: stored "9999999.99", folded %q`, id, gross)}
		}},
		{name: "a byte changed that is no field's", do: func(b *bench) []string {
			id := b.text(`SELECT id FROM time_entry WHERE workspace_id = 'ws-2' ORDER BY id OFFSET 5 LIMIT 1`)
			b.damage(`UPDATE time_entry SET base = '{ ' || substr(base, 2) WHERE workspace_id = 'ws-2' AND id = $1`, id)
			return []string{fmt.Sprintf(`ws-2: time-entries %s, base: stored from byte 2: %s, folded from byte 2: %s`, id,
				b.text(`SELECT substr(base, 1, 41) FROM time_entry WHERE workspace_id = 'ws-2' AND id = $1`, id),
				b.text(`SELECT '{' || substr(base, 3, 40) FROM time_entry WHERE workspace_id = 'ws-2' AND id = $1`, id))}
		}},
		{name: "a filter column changed", do: func(b *bench) []string {
			id := b.text(`SELECT id FROM time_entry WHERE workspace_id = 'ws-1' AND invoice_id IS NULL ORDER BY id LIMIT 1`)
			b.damage(`UPDATE time_entry SET invoice_id = '' WHERE workspace_id = 'ws-1' AND id = $1`, id)
			return []string{fmt.Sprintf(`ws-1: time-entries %s, invoice_id: stored , folded nothing`, id)}
		}},
		{name: "a place in lists changed", do: func(b *bench) []string {
			position := b.text(`SELECT position::text AS p FROM client WHERE workspace_id = 'ws-1' ORDER BY position LIMIT 1`)
			id := b.text(`SELECT id FROM client WHERE workspace_id = 'ws-1' ORDER BY position LIMIT 1`)
			b.damage(`UPDATE client SET position = position + 1 WHERE workspace_id = 'ws-1' AND id = $1`, id)
			var n int
			_, _ = fmt.Sscan(position, &n)
			return []string{fmt.Sprintf(`ws-1: clients %s, position: stored %d, folded %d`, id, n+1, n)}
		}},
		{name: "a row deleted", do: func(b *bench) []string {
			id := b.text(`SELECT id FROM payment WHERE workspace_id = 'ws-2' ORDER BY id LIMIT 1`)
			row := b.text(`DELETE FROM payment WHERE workspace_id = 'ws-2' AND id = $1 RETURNING base || '}'`, id)
			return []string{fmt.Sprintf(`ws-2: payments %s, row: stored nothing, folded %s`, id, row)}
		}},
		{name: "rows added", do: func(b *bench) []string {
			b.damage(`INSERT INTO contractor (workspace_id, id, position, base) VALUES ('ws-1', 'zzz', 5, '{"id":"zzz"')`)
			b.damage(`INSERT INTO credit_move (workspace_id, client_id, id, position, base) VALUES ('ws-1', '-', '_', 5, '{"id":"_"')`)
			b.damage(`INSERT INTO closed_period (workspace_id, period, client_id, position) VALUES ('ws-1', '1999-01', '', 7)`)
			b.damage(`INSERT INTO anomaly (workspace_id, position, reason, event_id) VALUES ('ws-1', 1, 'repeat', 'evt')`)
			return []string{
				`ws-1: contractors zzz, row: stored {"id":"zzz"}, folded nothing`,
				`ws-1: credit -/_, row: stored {"id":"_"}, folded nothing`,
				`ws-1: closed-periods 1999-01, row: stored position 7, folded nothing`,
				`ws-1: anomalies 1/repeat, row: stored event_id evt, folded nothing`,
			}
		}},
		{name: "a checkpoint moved back", do: func(b *bench) []string {
			b.damage(`UPDATE log_checkpoint SET position = position - 30 WHERE workspace_id = 'ws-1'`)
			return []string{fmt.Sprintf("ws-1: checkpoint read_models, position: stored 870, folded %s", b.newestEffect("ws-1"))}
		}},
		{name: "a checkpoint moved ahead", among: true, do: func(b *bench) []string {
			b.append(generate(b.t, "ws-1", 1, 940)[900:])
			newest := b.newestEffect("ws-1")
			b.damage(`UPDATE log_checkpoint SET position = 940 WHERE workspace_id = 'ws-1'`)
			return []string{fmt.Sprintf("ws-1: checkpoint read_models, position: stored 940, folded %s", newest)}
		}},
		{name: "a checkpoint above the log", do: func(b *bench) []string {
			b.damage(`UPDATE log_checkpoint SET position = 1000 WHERE workspace_id = 'ws-1'`)
			return []string{"ws-1: checkpoint read_models, position: stored 1000, folded 900"}
		}},
		{name: "a payload edited", log: true, among: true, do: func(b *bench) []string {
			id := b.text(`SELECT id FROM event_log WHERE workspace_id = 'ws-1' AND type = 'invoice.recorded' ORDER BY position LIMIT 1`)
			b.damage(`UPDATE event_log SET data = regexp_replace(data::text, '"gross_amount":"[0-9.]+"', '"gross_amount":"1.00"')::json WHERE workspace_id = 'ws-1' AND id = $1`, id)
			return []string{fmt.Sprintf("ws-1: log %s, content: stored %s, folded %s", id, b.hash("ws-1", id), b.text(`SELECT encode(chain, 'hex') FROM event_log WHERE workspace_id = 'ws-1' AND id = $1`, id))}
		}},
		{name: "the newest payload edited", log: true, among: true, do: func(b *bench) []string {
			b.damage(`UPDATE event_log SET type = 'nothing.known' WHERE workspace_id = 'ws-1' AND position = 900`)
			id := b.text(`SELECT id FROM event_log WHERE workspace_id = 'ws-1' AND position = 900`)
			return []string{fmt.Sprintf("ws-1: log %s, content: stored %s, folded %s", id, b.hash("ws-1", id), b.text(`SELECT encode(chain, 'hex') FROM event_log WHERE workspace_id = 'ws-1' AND id = $1`, id))}
		}},
		{name: "a payload out of its form", log: true, do: func(b *bench) []string {
			id := b.text(`SELECT id FROM event_log WHERE workspace_id = 'ws-1' AND position = 17`)
			data := b.text(`SELECT data::text FROM event_log WHERE workspace_id = 'ws-1' AND position = 17`)
			b.damage(`UPDATE event_log SET data = replace(data::text, '{', '{ ')::json WHERE workspace_id = 'ws-1' AND position = 17`)
			return []string{
				fmt.Sprintf("ws-1: log %s, content: stored %s, folded %s", id, b.hash("ws-1", id), b.text(`SELECT encode(chain, 'hex') FROM event_log WHERE workspace_id = 'ws-1' AND id = $1`, id)),
				fmt.Sprintf("ws-1: log %s, data: stored %s, folded %s", id, strings.ReplaceAll(data, "{", "{ "), data),
			}
		}},
		{name: "a chain value edited", log: true, do: func(b *bench) []string {
			id := b.text(`SELECT id FROM event_log WHERE workspace_id = 'ws-1' AND position = 400`)
			chain := b.text(`SELECT encode(chain, 'hex') FROM event_log WHERE workspace_id = 'ws-1' AND position = 400`)
			b.damage(`UPDATE event_log SET chain = sha256('x') WHERE workspace_id = 'ws-1' AND position = 400`)
			return []string{fmt.Sprintf("ws-1: log %s, chain: stored %s, folded %s", id, b.text(`SELECT encode(sha256('x'), 'hex')`), chain)}
		}},
		{name: "a public form edited", log: true, do: func(b *bench) []string {
			id := b.text(`SELECT id FROM event_log WHERE workspace_id = 'ws-1' AND public_event IS NOT NULL ORDER BY position LIMIT 1`)
			public := b.text(`SELECT public_event FROM event_log WHERE workspace_id = 'ws-1' AND id = $1`, id)
			b.damage(`UPDATE event_log SET public_event = NULL WHERE workspace_id = 'ws-1' AND id = $1`, id)
			return []string{fmt.Sprintf("ws-1: log %s, public_event: stored nothing, folded %s", id, public)}
		}},
		{name: "an entry removed", log: true, among: true, do: func(b *bench) []string {
			b.damage(`DELETE FROM event_log WHERE workspace_id = 'ws-1' AND position = 250`)
			return []string{"ws-1: log position 250, row: stored nothing, folded an entry"}
		}},
		{name: "the newest entries removed", log: true, among: true, do: func(b *bench) []string {
			b.damage(`DELETE FROM event_log WHERE workspace_id = 'ws-1' AND position > 898`)
			return []string{
				"ws-1: log position 899, row: stored nothing, folded an entry",
				"ws-1: log position 900, row: stored nothing, folded an entry",
			}
		}},
		{name: "the head moved", log: true, do: func(b *bench) []string {
			chain := b.text(`SELECT encode(chain, 'hex') FROM log_head WHERE workspace_id = 'ws-1'`)
			b.damage(`UPDATE log_head SET chain = sha256('x'), created_at = '2001-01-01T00:00:00Z' WHERE workspace_id = 'ws-1'`)
			at := b.text(`SELECT to_char(created_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') FROM event_log WHERE workspace_id = 'ws-1' AND position = 900`)
			return []string{
				fmt.Sprintf("ws-1: log head, chain: stored %s, folded %s", b.text(`SELECT encode(sha256('x'), 'hex')`), chain),
				"ws-1: log head, created_at: stored 2001-01-01T00:00:00.000Z, folded " + at,
			}
		}},
	}
}

// newestEffect is the newest entry that shows in a row.
func (b *bench) newestEffect(workspaceID string) string {
	return b.text(`SELECT greatest((SELECT max(position) FROM invoice WHERE workspace_id = $1), (SELECT max(position) FROM charge WHERE workspace_id = $1),
		(SELECT max(position) FROM time_entry WHERE workspace_id = $1), (SELECT max(position) FROM payment WHERE workspace_id = $1),
		(SELECT max(position) FROM client WHERE workspace_id = $1), (SELECT max(position) FROM contractor WHERE workspace_id = $1),
		(SELECT max(position) FROM client_credit WHERE workspace_id = $1), (SELECT max(position) FROM anomaly WHERE workspace_id = $1))::text`, workspaceID)
}

// hash is the chain value that belongs to an entry as it is stored now.
func (b *bench) hash(workspaceID, id string) string {
	b.t.Helper()
	var (
		sum    [32]byte
		before = domain.Genesis(workspaceID)
	)
	err := b.log.Walk(context.Background(), workspaceID, 0, func(e *domain.Entry) error {
		if e.ID == id {
			sum = e.ChainAfter(before)
		}
		before = e.Chain
		return nil
	})
	if err != nil {
		b.t.Fatal(err)
	}
	return hex.EncodeToString(sum[:])
}

// A kept chain value proves that nothing before was touched, also against one
// who has made the whole chain anew.
func TestVerifySinceASeal(t *testing.T) {
	t.Parallel()
	b := projected(t)
	entry, err := b.log.EntryAt(t.Context(), "ws-1", 500)
	if err != nil {
		t.Fatal(err)
	}
	kept := &projections.Seal{Position: 500, Chain: entry.Chain}
	if lines, _ := b.verify(b.replay(), projections.VerifyRequest{WorkspaceID: "ws-1", Since: kept}); len(lines) != 0 {
		t.Errorf("untouched, but: %v", lines)
	}
	other := &projections.Seal{Position: 500}
	want := fmt.Sprintf("ws-1: log %s, chain: stored %x, folded %064x", entry.ID, entry.Chain, 0)
	if lines, _ := b.verify(b.replay(), projections.VerifyRequest{WorkspaceID: "ws-1", Since: other}); !slices.Equal(lines, []string{want}) {
		t.Errorf("named %v, want %s", lines, want)
	}
	late := &projections.Seal{Position: 901, Chain: entry.Chain}
	if lines, _ := b.verify(b.replay(), projections.VerifyRequest{WorkspaceID: "ws-1", Since: late}); len(lines) != 1 {
		t.Errorf("entries are lost, but: %v", lines)
	}
}

// Verify works while entries are appended and projected.
func TestVerifyBesideTheService(t *testing.T) {
	t.Parallel()
	b := projected(t)
	drafts := generate(t, "ws-1", 1, 3000)[900:]
	r := b.replay()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	runner, err := projections.NewRunner(projections.RunnerConfig{Pool: b.pool, Wake: b.wake, Clock: time.Now, Logger: discard(), Entries: 50})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 2)
	go func() { ended <- runner.Run(ctx) }()
	go func() {
		for part := range slices.Chunk(drafts, 20) {
			if _, err := b.log.Append(ctx, part...); err != nil {
				ended <- err
				return
			}
		}
		ended <- nil
	}()
	var last int64
	for last < 3000 {
		lines, done := b.verify(r, projections.VerifyRequest{WorkspaceID: "ws-1"})
		if len(lines) > 0 {
			t.Fatalf("false differences: %s", strings.Join(lines, "\n"))
		}
		last = done[0].Position
	}
	stop()
	for range 2 {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}
