package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/internal/testdb"
)

// Webhooks by command, from creation to deletion, each change in the audit.
func TestWebhookCommands(t *testing.T) {
	t.Parallel()
	url := testdb.New(t)
	run := func(args ...string) result {
		t.Helper()
		c := command(t, url, append([]string{"webhook"}, args...)...)
		c.Env = append(c.Env, "LEDGERFEED_SECRET_KEY=a key for this test only")
		return runCommand(t, c)
	}
	succeed(t, url, "workspace", "create", "--id", "w")
	var made struct{ ID, Secret, State string }
	r := run("create", "--workspace", "w", "--url", "https://example.com/hook", "--events", "invoice.paid,invoice.voided", "--json")
	if err := json.Unmarshal([]byte(r.out), &made); err != nil {
		t.Fatalf("%v: %+v", err, r)
	}
	if !strings.HasPrefix(made.Secret, "whsec_") || made.State != "on" {
		t.Fatalf("%s", r.out)
	}
	if r := run("list", "--workspace", "w", "--json"); !strings.Contains(r.out, made.ID) || strings.Contains(r.out, made.Secret) {
		t.Errorf("%+v", r)
	}
	for _, c := range []struct {
		args string
		code int
		says string
	}{
		{"create --workspace w --url http://example.com", exitUsage, "https://"},
		{"create --workspace w --url https://127.0.0.1/", exitUsage, ""},
		{"create --workspace w --url https://example.com --events invoice.eaten", exitUsage, "invoice.eaten"},
		{"create --workspace nobody --url https://example.com", exitFailed, "nobody"},
		{"list --workspace nobody", exitFailed, "nobody"},
		{"delete wh_nobody", exitFailed, "wh_nobody"},
		{"turn-on wh_nobody", exitFailed, "wh_nobody"},
		{"deliveries wh_nobody", exitFailed, "wh_nobody"},
		{"resend nothing", exitFailed, "nothing"},
		{"send-missed " + made.ID, exitUsage, "--since"},
		{"send-missed " + made.ID + " --since 2d --json", exitDone, ""},
		{"test " + made.ID, exitDone, ""},
		{"rotate-secret " + made.ID, exitDone, ""},
		{"deliveries " + made.ID + " --json", exitDone, ""},
		{"delete " + made.ID, exitDone, ""},
	} {
		if r := run(strings.Fields(c.args)...); r.code != c.code || !strings.Contains(r.errOut, c.says) {
			t.Errorf("%s: exit %d, want %d and %q in:\n%s%s", c.args, r.code, c.code, c.says, r.out, r.errOut)
		}
	}
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	rows, err := conn.Query(t.Context(), `SELECT action FROM console_audit WHERE workspace_id = 'w' ORDER BY at, action`)
	if err != nil {
		t.Fatal(err)
	}
	actions, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	want := "webhook.create webhook.send_missed webhook.test webhook.rotate_secret webhook.delete"
	if got := strings.Join(actions, " "); got != want {
		t.Errorf("the audit has %s, want %s", got, want)
	}
}
