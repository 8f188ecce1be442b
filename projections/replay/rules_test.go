package replay_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/projections"
	"github.com/ledgerfeed/ledgerfeed/projections/projectionstest"
	"github.com/ledgerfeed/ledgerfeed/projections/replay"
)

// nextRules differ in one rule: an invoice shows the name of its plan in
// capitals.
func nextRules() projections.Rules {
	return projections.Rules{Version: projections.RulesVersion + 1, Apply: func(s *domain.State, e *domain.Entry) {
		s.Apply(e)
		if e.Type != "invoice.recorded" {
			return
		}
		var about struct {
			ID string `json:"invoice_id"`
		}
		if json.Unmarshal([]byte(e.Data), &about) != nil {
			return
		}
		if r := s.Invoices.Get(about.ID); r != nil && r.Position == e.Position {
			r.PlanName = strings.ToUpper(r.PlanName)
		}
	}}
}

// The rebuild of a program with other rules converts the rows. Until then the
// checkpoint tells which workspaces are not converted.
func TestRebuildToOtherRules(t *testing.T) {
	t.Parallel()
	b := projected(t)
	rules := func(workspaceID string) string {
		return b.text(`SELECT rules::text FROM log_checkpoint WHERE workspace_id = $1`, workspaceID)
	}
	next := b.replayer(func(c *replay.Config) { c.Rules = nextRules() })
	lines, _ := b.verify(next, replay.VerifyRequest{})
	if len(lines) == 0 {
		t.Fatal("the other rules make no difference")
	}
	for _, l := range lines {
		if !strings.Contains(l, ", plan_name: stored ") {
			t.Errorf("differs too: %s", l)
		}
	}
	before := b.versions()
	done := b.rebuild(next, replay.RebuildRequest{WorkspaceID: "ws-1"})
	if d := done["ws-1"]; d.RulesBefore != projections.RulesVersion || d.Rules != nextRules().Version || d.Written == 0 {
		t.Errorf("rebuilt %+v", d)
	}
	if rules("ws-1") != fmt.Sprint(nextRules().Version) || rules("ws-2") != fmt.Sprint(projections.RulesVersion) {
		t.Errorf("rules are %s and %s", rules("ws-1"), rules("ws-2"))
	}
	written := 0
	for row, xmin := range b.versions() {
		if before[row] != xmin {
			written++
		}
	}
	if int64(written) != done["ws-1"].Written {
		t.Errorf("%d rows were written, said %d", written, done["ws-1"].Written)
	}
	// A workspace that the new program began has its rules. One that an old program
	// has added to does not.
	b.Append(projectionstest.Generate(t, "ws-3", 3, 300))
	b.ProjectBy(1000, nextRules())
	if rules("ws-3") != fmt.Sprint(nextRules().Version) {
		t.Errorf("the new workspace has rules %s", rules("ws-3"))
	}
	b.Append(projectionstest.Generate(t, "ws-1", 1, 1000)[900:])
	b.Project(1000)
	if rules("ws-1") != fmt.Sprint(projections.RulesVersion) {
		t.Errorf("rows of both rules count as %s", rules("ws-1"))
	}
	b.rebuild(next, replay.RebuildRequest{})
	for _, w := range []string{"ws-1", "ws-2", "ws-3"} {
		if rules(w) != fmt.Sprint(nextRules().Version) {
			t.Errorf("%s has rules %s after the rebuild", w, rules(w))
		}
	}
	if lines, _ := b.verify(next, replay.VerifyRequest{}); len(lines) != 0 {
		t.Errorf("after the rebuild: %s", strings.Join(lines, "\n"))
	}
}
