package main

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/delivery/attempt"
	"github.com/ledgerfeed/ledgerfeed/internal/cli"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

// Webhooks by command, from creation to deletion, each change in the audit trail.
func TestWebhookCommands(t *testing.T) {
	t.Parallel()
	url := testkit.NewDatabase(t)
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
		{"create --workspace w --url http://example.com", cli.ExitUsage, "https://"},
		{"create --workspace w --url https://127.0.0.1/", cli.ExitUsage, ""},
		{"create --workspace w --url https://example.com --events invoice.eaten", cli.ExitUsage, "invoice.eaten"},
		{"create --workspace nobody --url https://example.com", cli.ExitFailed, "nobody"},
		{"list --workspace nobody", cli.ExitFailed, "nobody"},
		{"create --workspace w --url https://example.com --name " + strings.Repeat("x", 101), cli.ExitUsage, "at most 100 characters"},
		{"edit wh_nobody --name x", cli.ExitFailed, "wh_nobody"},
		{"edit " + made.ID, cli.ExitUsage, "want --url"},
		{"edit " + made.ID + " --name Payroll --url https://example.com/in?token=hunter2", cli.ExitDone, ""},
		{"delete wh_nobody", cli.ExitFailed, "wh_nobody"},
		{"turn-on wh_nobody", cli.ExitFailed, "wh_nobody"},
		{"pause wh_nobody", cli.ExitFailed, "wh_nobody"},
		{"resume wh_nobody", cli.ExitFailed, "wh_nobody"},
		{"pause " + made.ID, cli.ExitDone, ""},
		{"send-missed " + made.ID + " --since 2d", cli.ExitFailed, "the webhook is paused; resume it first"},
		{"resume " + made.ID, cli.ExitDone, ""},
		{"deliveries wh_nobody", cli.ExitFailed, "wh_nobody"},
		{"resend nothing", cli.ExitFailed, "nothing"},
		{"retry nothing", cli.ExitFailed, "nothing"},
		{"send-missed " + made.ID, cli.ExitUsage, "want --since: a date-time"},
		{"send-missed " + made.ID + " --since 2d --json", cli.ExitDone, ""},
		{"recover wh_nobody --since 2d", cli.ExitFailed, "wh_nobody"},
		{"recover " + made.ID, cli.ExitUsage, "want --since: a date-time"},
		{"recover " + made.ID + " --since 2d --until yesterday", cli.ExitUsage, "--until is"},
		{"recover " + made.ID + " --since 2d --until 3d", cli.ExitUsage, "the end is not after the start"},
		{"test " + made.ID, cli.ExitDone, ""},
		{"rotate-secret " + made.ID, cli.ExitDone, "signed with both secrets until 20"},
		{"rotate-secret " + made.ID, cli.ExitDone, "signed with 3 secrets. The older ones end, newest first:\n  20"},
		{"rotate-secret " + made.ID, cli.ExitDone, "signed with 4 secrets"},
		{"rotate-secret " + made.ID, cli.ExitDone, "signed with 5 secrets"},
		{"rotate-secret " + made.ID, cli.ExitFailed, "has 5 secrets that sign, and cannot have more: rotate again after "},
		{"deliveries " + made.ID + " --json", cli.ExitDone, ""},
		{"delete " + made.ID, cli.ExitDone, ""},
	} {
		if strings.HasPrefix(c.args, "test") {
			if r := run("list", "--workspace", "w"); !strings.Contains(r.out, "Payroll  https://example.com/in?…  invoice.paid,invoice.voided") || strings.Contains(r.out, "hunter2") {
				t.Errorf("%+v", r)
			}
		}
		if strings.HasPrefix(c.args, "resume wh_0") {
			if r := run("list", "--workspace", "w"); !strings.Contains(r.out, "  paused  Payroll") || !strings.Contains(r.out, "Paused since") {
				t.Errorf("%+v", r)
			}
			if r := run("list", "--workspace", "w", "--json"); !strings.Contains(r.out, `"state":"on","paused_at":"20`) {
				t.Errorf("%+v", r)
			}
		}
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
	want := "workspace.create webhook.create webhook.edit webhook.pause webhook.resume webhook.test webhook.rotate_secret webhook.rotate_secret webhook.rotate_secret webhook.rotate_secret webhook.delete"
	if got := strings.Join(actions, " "); got != want {
		t.Errorf("the audit has %s, want %s", got, want)
	}
}

// TestWebhookRecover says how many deliveries of a time wait or have failed, and sends them unless it is told
// only to count.
func TestWebhookRecover(t *testing.T) {
	t.Parallel()
	url := testkit.NewDatabase(t)
	run := func(args ...string) string {
		t.Helper()
		c := command(t, url, append([]string{"webhook"}, args...)...)
		c.Env = append(c.Env, "LEDGERFEED_SECRET_KEY=a key for this test only")
		r := runCommand(t, c)
		if r.code != cli.ExitDone {
			t.Fatalf("%q: %+v", args, r)
		}
		return r.out
	}
	succeed(t, url, "workspace", "create", "--id", "w")
	var made struct{ ID string }
	if err := json.Unmarshal([]byte(run("create", "--workspace", "w", "--url", "https://example.com/hook", "--json")), &made); err != nil {
		t.Fatal(err)
	}
	c := command(t, url, "append")
	c.Stdin = strings.NewReader(strings.Repeat(`{"workspace_id":"w","type":"invoice.reversed","data":{"invoice_id":"in_1"}}`+"\n", 3))
	if r := runCommand(t, c); r.code != cli.ExitDone {
		t.Fatalf("%+v", r)
	}
	conn := testkit.Must(pgx.Connect(t.Context(), url))(t)
	defer conn.Close(t.Context())
	testkit.Must(conn.Exec(t.Context(), `INSERT INTO webhook_delivery (workspace_id, webhook_id, position, created_at, event_id, event_type, state, attempts)
		SELECT workspace_id, $1, position, created_at, id, type, CASE position WHEN 1 THEN 'succeeded' ELSE 'failed' END, '[]' FROM event_log WHERE workspace_id = 'w'`, made.ID))(t)
	for _, c := range []struct{ args, says string }{
		{"--since 2d --until 1h", "0 messages wait and 0 have failed\n"},
		{"--since 1h --dry-run", "0 messages wait and 2 have failed\n"},
		{"--since 1h", "0 messages wait and 2 have failed\nall of them are being sent, the oldest first\n"},
		{"--since 1h --dry-run", "2 messages wait and 0 have failed\n"},
	} {
		if out := run(append([]string{"recover", made.ID}, strings.Fields(c.args)...)...); out != c.says {
			t.Errorf("%s says %q, want %q", c.args, out, c.says)
		}
	}
	if out := run("recover", made.ID, "--since", "1h", "--json"); !strings.Contains(out, `"pending":2,"failed":0`) || strings.Contains(out, "being sent") {
		t.Errorf("as JSON it says %q", out)
	}
}

// The local receiver accepts what is signed with its secret, prints it, and refuses
// the rest.
func TestWebhookListen(t *testing.T) {
	t.Parallel()
	const secret, body = "whsec_for this test", `{"id":"evt_1","type":"invoice.paid","data":{"object_id":"inv_1"}}`
	p := startProcess(t, command(t, "", "webhook", "listen", "--port", "0", "--secret", secret))
	url := p.await("--url ")
	file := p.await("LEDGERFEED_WEBHOOK_CA_FILE=")
	pem, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	readableByAll(t, file)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pem)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}
	defer transport.CloseIdleConnections()
	for signed, status := range map[string]int{"whsec_other": http.StatusBadRequest, secret: http.StatusOK} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("SERVICE-Signature", attempt.Sign(time.Now(), []byte(body), signed))
		r.Header.Set("SERVICE-Event-Id", "evt_1")
		answer, err := transport.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = answer.Body.Close()
		if answer.StatusCode != status {
			t.Errorf("signed with %s: answered %d, want %d", signed, answer.StatusCode, status)
		}
	}
	p.await("REFUSED  no signature matches")
	p.await("signed   invoice.paid")
	if code := p.stop(); code != cli.ExitDone {
		t.Errorf("stopped with %d", code)
	}
	if r := runCommand(t, command(t, "", "webhook", "listen", "--port", "70000")); r.code != cli.ExitUsage {
		t.Errorf("%+v", r)
	}
}

// TestWebhookListenForAnotherAccount: the certificate is written to a directory that the
// account of the service can read, also under a strict umask.
func TestWebhookListenForAnotherAccount(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "receiver.pem")
	if err := os.WriteFile(file, []byte("of before"), 0o600); err != nil {
		t.Fatal(err)
	}
	p := startProcess(t, command(t, "", "webhook", "listen", "--port", "0", "--certificate", file))
	if said := p.await("LEDGERFEED_WEBHOOK_CA_FILE="); said != file {
		t.Errorf("it names %s", said)
	}
	readableByAll(t, file)
	if text := read(t, file); !strings.HasPrefix(text, "-----BEGIN CERTIFICATE") {
		t.Errorf("the file has %q", text)
	}
}

func readableByAll(t *testing.T, file string) {
	t.Helper()
	if mode := testkit.Must(os.Stat(file))(t).Mode().Perm(); mode != 0o644 {
		t.Errorf("the mode of %s is %v", file, mode)
	}
}
