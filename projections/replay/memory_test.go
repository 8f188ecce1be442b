package replay_test

import (
	"context"
	"slices"
	"testing"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/projections"
	"github.com/ledgerfeed/ledgerfeed/projections/projectionstest"
	"github.com/ledgerfeed/ledgerfeed/projections/replay"
)

// growing is a Replayer with memory for 2,000 entries and a workspace of 1,500, which gets 1,500 more
// while its rows are compared. held returns how many entries were in memory at once.
func growing(b *bench) (r *replay.Replayer, progress *replay.Progress, held func() int64) {
	const bytesOfAnEntry = 1100
	progress = &replay.Progress{}
	drafts := projectionstest.Generate(b.t, "w", 1, 3000)
	b.Append(drafts[:1500])
	b.Project(1000)
	var (
		calls  int
		most   int64
		folded int64
	)
	r = b.replayer(func(c *replay.Config) {
		c.Memory, c.Progress, c.MassRows = 2000*bytesOfAnEntry, progress, 0
		c.Rules = projections.Rules{Version: projections.RulesVersion, Apply: func(s *domain.State, e *domain.Entry) {
			if progress.OverMemory.Load() == 0 {
				folded++
				most = max(most, folded)
			}
			s.Apply(e)
		}}
		c.Limit = func(context.Context, int) error {
			if calls++; calls == 3 { // after the two pages of the log
				b.Append(drafts[1500:])
				b.Project(1000)
			}
			return nil
		}
	})
	return r, progress, func() int64 { return most }
}

// TestMemoryOfAWorkspaceThatGrows: a workspace whose log grows while it is folded in memory is folded
// into shadow tables when the memory is used up. What is found is the same, and is reported once.
func TestMemoryOfAWorkspaceThatGrows(t *testing.T) {
	t.Parallel()
	check := func(t *testing.T, progress *replay.Progress, held func() int64) {
		t.Helper()
		if n := held(); n < 1500 || n > 2000 || progress.OverMemory.Load() != 1 {
			t.Errorf("%d entries were in memory at once, want at most 2,000; %d workspaces went into shadow tables, want 1", n, progress.OverMemory.Load())
		}
	}
	t.Run("verify", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		r, progress, held := growing(b)
		b.damage(`UPDATE event_log SET created_at = created_at + interval '1 ms' WHERE position = 7`)
		b.damage(`UPDATE client SET base = regexp_replace(base, '"name":"[^"]*"', '"name":"Somebody else"')`)
		lines, done := b.verify(r, replay.VerifyRequest{})
		check(t, progress, held)
		again, _ := b.verify(b.replayer(), replay.VerifyRequest{})
		if len(lines) < 2 || !slices.Equal(lines, again) || done[0].Position != 3000 || done[0].Differences != int64(len(lines)) {
			t.Errorf("at %d, %d differences:\n%v\nwant, as by a fold that has memory enough:\n%v", done[0].Position, done[0].Differences, lines, again)
		}
	})
	t.Run("rebuild", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		r, progress, held := growing(b)
		b.damage(`DELETE FROM invoice`)
		done := b.rebuild(r, replay.RebuildRequest{})["w"]
		check(t, progress, held)
		if lines, _ := b.verify(b.replayer(), replay.VerifyRequest{}); len(lines) != 0 || done.Position != 3000 || done.Written == 0 {
			t.Errorf("rebuilt %+v; differences: %v", done, lines)
		}
	})
}
