package replay_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/projections"
	"github.com/ledgerfeed/ledgerfeed/projections/replay"
)

// skipping is a bench whose ws-1 has skipped position 901, the record of a
// client, and has shown a charge of that client since.
func skipping(t *testing.T) *bench {
	t.Helper()
	b := projected(t)
	b.Append([]domain.Draft{draft(t, `{"workspace_id":"ws-1","id":"poison","type":"client.recorded","data":{"client_id":"poisoned","name":"P"}}`)})
	b.damage(`UPDATE log_checkpoint SET quarantined = true, failures = 9, failed_to = 901, segment_max = 1, error = 'cannot do that' WHERE workspace_id = 'ws-1'`)
	if _, err := b.Quarantine().Skip(t.Context(), "ws-1", "a test of ours"); err != nil {
		t.Fatal(err)
	}
	b.Append([]domain.Draft{draft(t, `{"workspace_id":"ws-1","type":"charge.recorded","data":{"charge_id":"ch-after","client_id":"poisoned","date":"2026-01-01","category":"x","kind":"k","amount":"1.00","currency":"EUR","period":"2026-01"}}`)})
	b.Project(1000)
	return b
}

// A skipped entry gets its effect after all, and the entries after it are folded
// with it.
func TestRestoreGivesASkippedEntryItsEffect(t *testing.T) {
	t.Parallel()
	bothWays(t, func(t *testing.T, memory int64) {
		b := skipping(t).within(memory)
		r := b.replayer()
		done, err := r.Restore(t.Context(), "ws-1", 901)
		if err != nil || done.Written != 3 || done.Refused != "" {
			t.Fatalf("restored %+v, %v", done, err) // the client, its credit, and the charge that shows its name
		}
		b.EqualsFold()
		if lines, _ := b.verify(r, replay.VerifyRequest{}); len(lines) != 0 {
			t.Errorf("differences: %s", strings.Join(lines, "\n"))
		}
		skips, err := b.Quarantine().Skips(t.Context(), "ws-1")
		if err != nil || len(skips) != 0 {
			t.Errorf("skips %+v, %v", skips, err)
		}
		history, err := b.Quarantine().Failures(t.Context(), "ws-1")
		if err != nil || len(history) != 1 || history[0].From != 901 || !strings.Contains(history[0].Error, "because: a test of ours") {
			t.Errorf("history %+v, %v", history, err)
		}
		var not *replay.NotSkippedError
		if _, err := r.Restore(t.Context(), "ws-1", 901); !errors.As(err, &not) {
			t.Errorf("restored twice: %v", err)
		}
		var nobody *domain.UnknownWorkspaceError
		if _, err := r.Restore(t.Context(), "nobody", 1); !errors.As(err, &nobody) {
			t.Errorf("an unknown workspace: %v", err)
		}
	})
}

// An entry that still cannot be folded stays skipped, and so does any entry of a
// workspace whose log is wrong.
func TestRestoreChangesNothingWhereItCannot(t *testing.T) {
	t.Parallel()
	bothWays(t, func(t *testing.T, memory int64) {
		b := skipping(t).within(memory)
		failing := b.replayer(func(c *replay.Config) {
			c.Rules = projections.Rules{Version: projections.RulesVersion, Apply: func(s *domain.State, e *domain.Entry) {
				if e.ID == "poison" {
					panic("still not")
				}
				s.Apply(e)
			}}
		})
		before := b.versions()
		if _, err := failing.Restore(t.Context(), "ws-1", 901); err == nil || !strings.Contains(err.Error(), "still not") {
			t.Errorf("restored by rules that cannot fold it: %v", err)
		}
		b.damage(`UPDATE event_log SET type = 'nothing.known' WHERE workspace_id = 'ws-1' AND position = 7`)
		done, err := b.replayer().Restore(t.Context(), "ws-1", 901)
		if err != nil || done.Refused == "" {
			t.Errorf("restored from a log that is wrong: %+v, %v", done, err)
		}
		after := b.versions()
		for row, xmin := range before {
			if after[row] != xmin {
				t.Errorf("written: %s", row)
			}
		}
		skips, err := b.Quarantine().Skips(t.Context(), "ws-1")
		if err != nil || len(skips) != 1 {
			t.Errorf("skips %+v, %v", skips, err)
		}
	})
}
