package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/internal/cli"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

// TestTrigger makes an event of each type, twice: all of them have their effect and are in
// the feed. A workspace that is not for trying is left alone.
func TestTrigger(t *testing.T) {
	t.Parallel()
	url := testkit.NewDatabase(t)
	if r := runCommand(t, localCommand(t, localDir(t), "trigger", "invoice.paid")); r.code != cli.ExitFailed || !strings.Contains(r.errOut, "there is no database in ") {
		t.Errorf("where there is no database: %+v", r)
	}
	serving := startProcess(t, command(t, url, "serve", "--roles", "project,api"))
	base := apiOf(serving)
	serving.await("for=admin")
	if r := runCommand(t, command(t, url, "trigger", "invoice.paid", "--workspace", "test-w")); r.code != cli.ExitFailed || !strings.Contains(r.errOut, "workspace create --id test-w") {
		t.Errorf("in a workspace that is not there: %+v", r)
	}
	if r := runCommand(t, command(t, url, "trigger", "invoice.paid")); r.code != cli.ExitFailed || !strings.Contains(r.errOut, "ledgerfeed demo makes it") {
		t.Errorf("without a demo: %+v", r)
	}
	succeed(t, url, "workspace", "create", "--id", "test-w")
	var made []string
	for range 2 {
		for _, name := range domain.PublicTypes() {
			if name == domain.TypeTestPing {
				continue
			}
			var event struct {
				Type    string
				EventID string `json:"event_id"`
			}
			if err := json.Unmarshal([]byte(succeed(t, url, "trigger", name, "--workspace", "test-w", "--json")), &event); err != nil || event.Type != name {
				t.Fatalf("%s: %+v %v", name, event, err)
			}
			made = append(made, event.EventID)
		}
	}
	succeed(t, url, "status", "--wait", "--workspace", "test-w")
	if out := succeed(t, url, "anomaly", "list", "--workspace", "test-w", "--json"); strings.Contains(out, `"reason"`) {
		t.Errorf("some have no effect: %s", out)
	}
	read := newReader(t, url, base, "test-w", "events:read,pay:read")
	for _, id := range made {
		read.get("/v1/events/" + id)
	}
	for _, c := range []struct{ args, says string }{
		{"invoice.paid --workspace acme", `an id that begins with "test-"`},
		{"invoice.paid --workspace testing-house", `an id that begins with "test-"`},
		{"invoice.payed --workspace test-w", "did you mean invoice.paid?"},
		{"test.ping", "webhook test"},
	} {
		if r := runCommand(t, command(t, url, append([]string{"trigger"}, strings.Fields(c.args)...)...)); r.code != cli.ExitUsage || !strings.Contains(r.errOut, c.says) {
			t.Errorf("%s: %+v", c.args, r)
		}
	}
	if out := succeed(t, url, "workspace", "list"); strings.Contains(out, "acme") {
		t.Errorf("a workspace was made: %s", out)
	}
}
