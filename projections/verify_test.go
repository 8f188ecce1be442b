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
	cfg := projections.ReplayConfig{Pool: pool, Clock: time.Now, Memory: b.memory}
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
	bothWays(t, func(t *testing.T, memory int64) {
		b := projected(t).within(memory)
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
	})
}

// Every kind of damage is named, and nothing else is.
func TestVerifyNamesDamage(t *testing.T) {
	t.Parallel()
	bothWays(t, func(t *testing.T, memory int64) {
		for _, d := range damages() {
			t.Run(d.name, func(t *testing.T) {
				t.Parallel()
				b := projected(t).within(memory)
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
	})
}

// A kept chain value proves that nothing before was touched, also against one
// who has made the whole chain anew.
func TestVerifySinceASeal(t *testing.T) {
	t.Parallel()
	bothWays(t, func(t *testing.T, memory int64) {
		b := projected(t).within(memory)
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
	})
}

// Verify works while entries are appended and projected.
func TestVerifyBesideTheService(t *testing.T) {
	t.Parallel()
	bothWays(t, func(t *testing.T, memory int64) {
		b := projected(t).within(memory)
		drafts := generate(t, "ws-1", 1, 3000)[900:]
		r := b.replay()
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		runner, err := projections.NewRunner(projections.RunnerConfig{Pool: b.pool, Notifier: b.notifier, Clock: time.Now, Logger: discard(), Entries: 50})
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
	})
}
