package replay_test

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
	"github.com/ledgerfeed/ledgerfeed/projections/projectionstest"
	"github.com/ledgerfeed/ledgerfeed/projections/replay"
)

func TestVerifyFindsNothingInWhatWasProjected(t *testing.T) {
	t.Parallel()
	bothWays(t, func(t *testing.T, memory int64) {
		b := projected(t).within(memory)
		if err := pg.InTx(t.Context(), b.Pool, func(tx pgx.Tx) error {
			_, err := tx.Exec(t.Context(), "SELECT workspace_create('empty', 'empty', now())")
			return err
		}); err != nil {
			t.Fatal(err)
		}
		lines, done := b.verify(b.replayer(), replay.VerifyRequest{})
		if len(lines) != 0 {
			t.Errorf("differences: %s", strings.Join(lines, "\n"))
		}
		if len(done) != 3 {
			t.Fatalf("verified %+v", done)
		}
		for _, v := range done {
			head, err := b.Log.Head(t.Context(), v.WorkspaceID)
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

// Every kind of damage is reported, and nothing else is.
func TestVerifyNamesDamage(t *testing.T) {
	t.Parallel()
	bothWays(t, func(t *testing.T, memory int64) {
		for _, d := range damages() {
			t.Run(d.name, func(t *testing.T) {
				t.Parallel()
				b := projected(t).within(memory)
				want := d.do(b)
				slices.Sort(want)
				lines, done := b.verify(b.replayer(), replay.VerifyRequest{})
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

// A chain checkpoint proves that nothing up to it was changed, even by somebody
// who has computed the whole chain again.
func TestVerifySinceAChainCheckpoint(t *testing.T) {
	t.Parallel()
	bothWays(t, func(t *testing.T, memory int64) {
		b := projected(t).within(memory)
		entry, err := b.Log.EntryAt(t.Context(), "ws-1", 500)
		if err != nil {
			t.Fatal(err)
		}
		kept := &replay.ChainCheckpoint{Position: 500, Chain: entry.Chain}
		if lines, _ := b.verify(b.replayer(), replay.VerifyRequest{WorkspaceID: "ws-1", Since: kept}); len(lines) != 0 {
			t.Errorf("untouched, but: %v", lines)
		}
		other := &replay.ChainCheckpoint{Position: 500}
		want := fmt.Sprintf("ws-1: log %s, chain: stored %x, folded %064x", entry.ID, entry.Chain, 0)
		if lines, _ := b.verify(b.replayer(), replay.VerifyRequest{WorkspaceID: "ws-1", Since: other}); !slices.Equal(lines, []string{want}) {
			t.Errorf("named %v, want %s", lines, want)
		}
		late := &replay.ChainCheckpoint{Position: 901, Chain: entry.Chain}
		if lines, _ := b.verify(b.replayer(), replay.VerifyRequest{WorkspaceID: "ws-1", Since: late}); len(lines) != 1 {
			t.Errorf("entries are lost, but: %v", lines)
		}
	})
}

// Verify works while entries are appended and projected.
func TestVerifyBesideTheService(t *testing.T) {
	t.Parallel()
	bothWays(t, func(t *testing.T, memory int64) {
		b := projected(t).within(memory)
		drafts := projectionstest.Generate(t, "ws-1", 1, 3000)[900:]
		r := b.replayer()
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		runner, err := projections.NewRunner(projections.RunnerConfig{Pool: b.Pool, Notifier: b.Notifier, Clock: time.Now, Logger: projectionstest.NoLog(), Entries: 50})
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 2)
		go func() { ended <- runner.Run(ctx) }()
		go func() {
			for part := range slices.Chunk(drafts, 20) {
				if _, err := b.Log.Append(ctx, part...); err != nil {
					ended <- err
					return
				}
			}
			ended <- nil
		}()
		var last int64
		for last < 3000 {
			lines, done := b.verify(r, replay.VerifyRequest{WorkspaceID: "ws-1"})
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
