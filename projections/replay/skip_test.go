package replay_test

import (
	"strconv"
	"strings"
	"testing"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/projections"
	"github.com/ledgerfeed/ledgerfeed/projections/projectionstest"
	"github.com/ledgerfeed/ledgerfeed/projections/replay"
)

// A skipped entry has no effect in a replay either: verify and rebuild agree with
// the projector, which continued after it.
func TestSkippedEntriesHaveNoEffect(t *testing.T) {
	t.Parallel()
	bothWays(t, func(t *testing.T, memory int64) {
		b := projected(t).within(memory)
		d, err := domain.DecodeDraft([]byte(`{"workspace_id":"ws-1","id":"poison","type":"client.recorded","data":{"client_id":"poisoned","name":"P"}}`))
		if err != nil {
			t.Fatal(err)
		}
		b.Append([]domain.Draft{d})
		b.Append(projectionstest.Generate(t, "ws-4", 4, 50))
		b.damage(`UPDATE log_checkpoint SET quarantined = true, failures = 9, failed_to = 901, segment_max = 1, error = 'no' WHERE workspace_id = 'ws-1'`)
		if _, err := b.Quarantine().Skip(t.Context(), "ws-1", "a test of ours"); err != nil {
			t.Fatal(err)
		}
		last, err := domain.DecodeDraft([]byte(`{"workspace_id":"ws-1","id":"after","type":"client.recorded","data":{"client_id":"fine","name":"F"}}`))
		if err != nil {
			t.Fatal(err)
		}
		b.Append([]domain.Draft{last})
		b.Project(1000)
		r := b.replayer()
		if lines, _ := b.verify(r, replay.VerifyRequest{}); len(lines) != 0 {
			t.Errorf("false differences: %s", strings.Join(lines, "\n"))
		}
		b.damage(`DELETE FROM client WHERE workspace_id = 'ws-1'`)
		b.rebuild(r, replay.RebuildRequest{})
		if n := b.text(`SELECT string_agg(id, ' ') FROM client WHERE workspace_id = 'ws-1' AND id IN ('poisoned', 'fine')`); n != "fine" {
			t.Errorf("the rebuild made %s", n)
		}
		status, err := projections.ReadStatus(t.Context(), b.Pool, "ws-1")
		if err != nil || status.Skipped != 1 || status.Workspaces[0].Skipped != 1 || status.Workspaces[0].Rules != projections.RulesVersion {
			t.Errorf("status %+v, %v", status, err)
		}
	})
}

// A workspace whose first entry was skipped has the rules of the program that
// projects the second.
func TestRulesOfAWorkspaceThatBeginsWithASkip(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	drafts := projectionstest.Generate(t, "w", 1, 20)
	b.Append(drafts)
	b.damage(`UPDATE log_checkpoint SET quarantined = true, failures = 9, failed_to = 1, segment_max = 1, error = 'no'`)
	if _, err := b.Quarantine().Skip(t.Context(), "w", "a test of ours"); err != nil {
		t.Fatal(err)
	}
	b.Project(1000)
	if rules := b.text(`SELECT rules::text FROM log_checkpoint`); rules != strconv.Itoa(projections.RulesVersion) {
		t.Errorf("rules %s", rules)
	}
}

// A rule that panics is an error that names the workspace and the position.
func TestVerifySurvivesAPanic(t *testing.T) {
	t.Parallel()
	bothWays(t, func(t *testing.T, memory int64) {
		b := projected(t).within(memory)
		r := b.replayer(func(c *replay.Config) {
			c.Rules = projections.Rules{Version: 2, Apply: func(s *domain.State, e *domain.Entry) {
				if e.Position == 77 {
					panic("no such rule")
				}
				s.Apply(e)
			}}
		})
		err := r.Verify(t.Context(), replay.VerifyRequest{WorkspaceID: "ws-2"}, func(replay.Difference) {}, func(replay.Verification) {})
		if err == nil || !strings.Contains(err.Error(), "position 77 of ws-2 cannot be folded: no such rule") {
			t.Errorf("verify says: %v", err)
		}
	})
}
