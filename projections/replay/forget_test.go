package replay_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/projections/replay"
)

// TestForgettingKeepsTheProof forgets the busiest client and contractor of a workspace. The chain is
// the same before and after, the rows are those of a fold of what is left, and verify tells what was
// forgotten from what somebody deleted or brought back.
func TestForgettingKeepsTheProof(t *testing.T) {
	t.Parallel()
	bothWays(t, func(t *testing.T, memory int64) {
		b := projected(t).within(memory)
		client := b.text(`SELECT client_id FROM time_entry WHERE workspace_id = 'ws-1' GROUP BY 1 ORDER BY count(*) DESC, 1 LIMIT 1`)
		contractor := b.text(`SELECT contractor_id FROM time_entry WHERE workspace_id = 'ws-1' GROUP BY 1 ORDER BY count(*) DESC, 1 LIMIT 1`)
		names := []string{
			b.text(`SELECT (base || '}')::json ->> 'name' FROM client WHERE workspace_id = 'ws-1' AND id = $1`, client),
			b.text(`SELECT (base || '}')::json ->> 'name' FROM contractor WHERE workspace_id = 'ws-1' AND id = $1`, contractor),
		}
		chain := b.text(`SELECT encode(chain, 'hex') FROM event_log WHERE workspace_id = 'ws-1' AND position = 900`)
		values := b.text(`SELECT count(*)::text FROM log_detached WHERE workspace_id = 'ws-1'`)
		b.Append([]domain.Draft{
			draft(t, fmt.Sprintf(`{"workspace_id":"ws-1","id":"f1","type":"client.forgotten","data":{"client_id":%q,"reason":"asked"}}`, client)),
			draft(t, fmt.Sprintf(`{"workspace_id":"ws-1","id":"f2","type":"contractor.forgotten","data":{"contractor_id":%q}}`, contractor)),
		})
		b.Project(1000)
		clean := func(when string) {
			t.Helper()
			if lines, done := b.verify(b.replayer(), replay.VerifyRequest{}); len(lines) != 0 || !done[0].LogIntact {
				t.Fatalf("%s: %s", when, strings.Join(lines, "\n"))
			}
			b.EqualsFold()
		}
		clean("before the values are deleted")
		if err := b.Log.Forget(t.Context(), "ws-1"); err != nil {
			t.Fatal(err)
		}
		clean("after")
		if got := b.text(`SELECT encode(chain, 'hex') FROM event_log WHERE workspace_id = 'ws-1' AND position = 900`); got != chain {
			t.Errorf("the chain was %s and is %s", chain, got)
		}
		if got := b.text(`SELECT count(*)::text FROM log_detached WHERE workspace_id = 'ws-1'`); got == values {
			t.Error("no value was deleted")
		}
		for _, name := range names {
			for _, table := range []string{"invoice", "charge", "time_entry", "payment", "client", "contractor", "log_detached"} {
				if n := b.text(`SELECT count(*)::text FROM `+table+` t WHERE workspace_id = 'ws-1' AND strpos(t::text, $1) > 0`, name); n != "0" {
					t.Errorf("%s of %s still have %s", n, table, name)
				}
			}
		}
		b.damage(`UPDATE client SET position = position - 1 WHERE workspace_id = 'ws-1'`)
		b.rebuild(b.replayer(), replay.RebuildRequest{WorkspaceID: "ws-1"})
		clean("after a rebuild")

		// An old backup brings a value back; somebody deletes the note that it was forgotten.
		b.damage(`INSERT INTO log_detached (workspace_id, position, subject, salt, value)
			SELECT workspace_id, position, log_subject(type, data), sha256('x'), '{}' FROM event_log
			 WHERE workspace_id = 'ws-1' AND type = 'client.recorded' AND data ->> 'client_id' = $1 ORDER BY position LIMIT 1`, client)
		lines, _ := b.verify(b.replayer(), replay.VerifyRequest{})
		if !slices.ContainsFunc(lines, func(l string) bool {
			return strings.Contains(l, "detached value: stored a value, folded none: the entry at position 901 forgets it")
		}) {
			t.Errorf("not named: a value that came back, but %s", strings.Join(lines, "\n"))
		}
		b.damage(`DELETE FROM log_detached WHERE value = '{}'`)
		b.damage(`DELETE FROM log_forgotten WHERE position = 901`)
		lines, _ = b.verify(b.replayer(), replay.VerifyRequest{})
		if !slices.Contains(lines, "ws-1: log f1, deletion: stored nothing, folded a deletion of the values of client.forgotten") {
			t.Errorf("not named: a deletion that is gone, but %s", strings.Join(lines, "\n"))
		}
	})
}
