package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/internal/cli"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

// audited returns the lines of the audit trail of a workspace, oldest first.
func audited(t *testing.T, url, workspaceID string) []string {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	rows, err := conn.Query(t.Context(), `
		SELECT via || ' ' || action || ' ' || object_name || ': ' || detail FROM console_audit WHERE workspace_id = $1 ORDER BY at`, workspaceID)
	if err != nil {
		t.Fatal(err)
	}
	return testkit.Must(pgx.CollectRows(rows, pgx.RowTo[string]))(t)
}

// Workspaces, rebuilds and changes of the retention are in the audit trail.
func TestAuditOfCommands(t *testing.T) {
	t.Parallel()
	url := testkit.NewDatabase(t)
	succeed(t, url, "workspace", "create", "--id", "acme", "--name", "Acme", "--notify-email", "finance@acme.example")
	succeed(t, url, "workspace", "set", "--id", "acme", "--name", "Acme Ltd", "--notify-email", "")
	succeed(t, url, "rebuild", "invoices", "--workspace", "acme")
	list := audited(t, url, "acme")
	want := []string{
		"command workspace.create Acme: mail about webhooks to finance@acme.example",
		"command workspace.set Acme Ltd: name before: Acme; mail about webhooks to nobody",
		"command read_models.rebuild invoices: 0 rows written, 0 deleted; rules ",
	}
	if !slices.EqualFunc(list, want, strings.HasPrefix) {
		t.Errorf("the audit has %q, want %q", list, want)
	}

	for _, retention := range []string{"720h", "720h", "48h", "720h"} {
		c := command(t, url, "serve", "--roles", "api")
		c.Env = append(c.Env, "LEDGERFEED_RETENTION="+retention)
		serving := startProcess(t, c)
		serving.await("for=admin")
		if code := serving.stop(); code != cli.ExitDone {
			t.Errorf("serve ended with %d:\n%s", code, serving.log)
		}
	}
	want = []string{
		"service retention.set LEDGERFEED_RETENTION: 720h0m0s",
		"service retention.set LEDGERFEED_RETENTION: 48h0m0s; before: 720h0m0s",
		"service retention.set LEDGERFEED_RETENTION: 720h0m0s; before: 48h0m0s",
	}
	if list := audited(t, url, "*"); !slices.Equal(list, want) {
		t.Errorf("the audit has %q, want %q", list, want)
	}
}
