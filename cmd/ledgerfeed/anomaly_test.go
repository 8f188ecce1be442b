package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/ledgerfeed/ledgerfeed/internal/cli"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

// Anomalies are grouped, shown with what they are about, and no longer listed once
// somebody has looked at them.
func TestAnomalies(t *testing.T) {
	t.Parallel()
	url := testkit.NewDatabase(t)
	succeed(t, url, "append", fixture)
	serving := startProcess(t, command(t, url, "serve", "--roles", "project"))
	succeed(t, url, "status", "--wait")
	serving.stop()

	type group struct {
		WorkspaceID   string `json:"workspace_id"`
		Reason, Type  string
		Count         int64
		FirstPosition int64 `json:"first_position"`
	}
	groups := func(args ...string) (list []group, count int64) {
		t.Helper()
		if err := json.Unmarshal([]byte(succeed(t, url, append([]string{"anomaly", "list", "--json"}, args...)...)), &list); err != nil {
			t.Fatal(err)
		}
		for _, g := range list {
			count += g.Count
		}
		return list, count
	}
	list, count := groups()
	if len(list) < 2 || count < int64(len(list)) {
		t.Fatalf("the fixture has %d anomalies in %v", count, list)
	}
	first := list[0]

	// One by one: a page ends where it may, and the next goes on.
	var seen int64
	for after, more := int64(0), true; more; {
		var page struct {
			Anomalies []struct {
				Position         int64
				Reason, Type     string
				ObjectType       string `json:"object_type"`
				ObjectID         string `json:"object_id"`
				AcknowledgedAt   *string
				EventID, Unknown string
			}
			More bool
		}
		out := succeed(t, url, "anomaly", "show", first.WorkspaceID, "--json", "--limit", "2", "--after", fmt.Sprint(after))
		if err := json.Unmarshal([]byte(out), &page); err != nil {
			t.Fatal(err)
		}
		for _, a := range page.Anomalies {
			seen++
			if a.Position <= after && len(page.Anomalies) > 2 {
				t.Errorf("%+v comes after %d", a, after)
			}
			if a.Reason != "unreadable" && (a.ObjectType == "" || a.ObjectID == "") {
				t.Errorf("%+v says not what it is about", a)
			}
		}
		if more = page.More; more {
			after = page.Anomalies[len(page.Anomalies)-1].Position
		}
	}
	var want int64
	for _, g := range list {
		if g.WorkspaceID == first.WorkspaceID {
			want += g.Count
		}
	}
	if seen != want {
		t.Errorf("%d are shown one by one, want %d", seen, want)
	}

	position := fmt.Sprint(first.FirstPosition)
	for _, c := range []struct {
		args string
		code int
		says string
	}{
		{"anomaly list", cli.ExitDone, first.Reason + ": "},
		{"anomaly list --workspace nobody", cli.ExitFailed, "nobody"},
		{"anomaly show " + first.WorkspaceID + " --position " + position, cli.ExitDone, `"type":"` + first.Type + `"`},
		{"anomaly show " + first.WorkspaceID + " --position 1", cli.ExitFailed, "no anomaly"},
		{"anomaly show nobody", cli.ExitFailed, "nobody"},
		{"anomaly acknowledge " + first.WorkspaceID + " --note seen", cli.ExitUsage, "--position, --reason or --all"},
		{"anomaly acknowledge " + first.WorkspaceID + " --note seen --reason wrong", cli.ExitUsage, "want one of unknown_object, repeat"},
		{"anomaly acknowledge nobody --all --note seen", cli.ExitFailed, "nobody"},
		{"anomaly acknowledge " + first.WorkspaceID + " --position " + position + " --note seen", cli.ExitDone, "1 anomaly is acknowledged."},
		{"anomaly acknowledge " + first.WorkspaceID + " --position " + position + " --note seen", cli.ExitDone, "0 anomalies"},
		{"anomaly show " + first.WorkspaceID + " --position " + position, cli.ExitDone, "seen"},
	} {
		r := runCommand(t, command(t, url, strings.Fields(c.args)...))
		if r.code != c.code || !strings.Contains(r.out+r.errOut, c.says) {
			t.Errorf("%s: exit %d, want %d and %q in:\n%s%s", c.args, r.code, c.code, c.says, r.out, r.errOut)
		}
	}
	if _, now := groups(); now != count-1 {
		t.Errorf("%d wait after one was acknowledged, want %d", now, count-1)
	}
	succeed(t, url, "anomaly", "acknowledge", first.WorkspaceID, "--all", "--note", "looked at")
	if list, _ := groups("--workspace", first.WorkspaceID); len(list) != 0 {
		t.Errorf("after all were acknowledged %v wait", list)
	}
	if _, now := groups("--all"); now != count {
		t.Errorf("with --all there are %d, want %d", now, count)
	}
	// They are of a fold, which a rebuild makes again; what was acknowledged stays.
	succeed(t, url, "rebuild")
	if list, _ := groups("--workspace", first.WorkspaceID); len(list) != 0 {
		t.Errorf("after a rebuild %v wait", list)
	}
}
