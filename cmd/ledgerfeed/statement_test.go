//go:build full

package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed/internal/cli"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

// TestStatementOfWhatWasSent: the service delivers, some of it without success; the statement of
// the day says what the receiver got and what the deliveries say, and is checked with the
// keys that the service shows.
func TestStatementOfWhatWasSent(t *testing.T) {
	t.Parallel()
	url, dir := testkit.NewDatabase(t), t.TempDir()
	key, _ := newSigningKey(t)
	receiver := testkit.NewReceiver(t, func(_ int, w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.Header.Get("SERVICE-Sequence"), "3") {
			w.WriteHeader(http.StatusTeapot)
		}
	})
	with := func(args ...string) result {
		t.Helper()
		c := command(t, url, args...)
		c.Env = append(c.Env, "LEDGERFEED_SIGNING_KEY="+key, "LEDGERFEED_BASE_URL=https://api.example.com", "LEDGERFEED_WEBHOOK_ALLOW=127.0.0.0/8",
			"LEDGERFEED_WEBHOOK_CA_FILE="+testkit.CAFile(t), "LEDGERFEED_RETRY_SCHEDULE=10ms")
		if args[0] != "serve" {
			return runCommand(t, c)
		}
		base := apiOf(startProcess(t, c))
		return result{out: base}
	}
	succeed(t, url, "workspace", "create", "--id", "acme")
	var made struct{ ID string }
	if err := json.Unmarshal([]byte(with("webhook", "create", "--workspace", "acme", "--url", receiver.URL, "--json").out), &made); err != nil {
		t.Fatal(err)
	}
	base := with("serve").out
	var lines strings.Builder
	for i := range 25 {
		fmt.Fprintf(&lines, `{"workspace_id":"acme","id":"evt_%d","type":"invoice.reversed","data":{"invoice_id":"in_%[1]d"}}`+"\n", i+1)
	}
	file := filepath.Join(dir, "entries")
	if err := os.WriteFile(file, []byte(lines.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	succeed(t, url, "append", file)
	day := time.Now().UTC().Format("2006-01-02")
	var note string
	testkit.Eventually(t, func() error {
		r := with("webhook", "statement", made.ID, "--day", day)
		if note = r.out; !strings.Contains(note, "\nsent 25\n") || !strings.Contains(note, "\npending 0\n") || strings.Count(note, "\nfailed ") != 4 {
			return fmt.Errorf("%+v", r)
		}
		return nil
	})
	want := "sequence 1-25\nnumbered 25\nsent 25\ndelivered 22\nfailed 3\ncancelled 0\npending 0\nwaiting 0\nnot-sent-off 0\nnot-sent-other 0\nnot-sent-history-ever 0\n"
	if !strings.Contains(note, want) || !strings.Contains(note, "\nlisted 3\nfailed 3 evt_3\nfailed 13 evt_13\nfailed 23 evt_23\n\n— ") {
		t.Errorf("want %s\nin\n%s", want, note)
	}
	_, keys := bodyOf(t, base+"/docs/keys.txt")
	for name, text := range map[string]string{"keys.txt": keys, "statement.txt": note} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	check := command(t, "", "signing-key", "check", filepath.Join(dir, "statement.txt"), "--keys", filepath.Join(dir, "keys.txt"), "--json")
	if r := runCommand(t, check); r.code != cli.ExitDone || !strings.Contains(r.out, `"failed":3`) || !strings.Contains(r.out, `"undelivered":[{"state":"failed","sequence":3,"event_id":"evt_3"}`) {
		t.Errorf("%+v", r)
	}
	for _, c := range []struct {
		args string
		code int
		says string
	}{
		{"webhook statement " + made.ID + " --day " + day + " --json", cli.ExitDone, `"note":"api.example.com/webhook-statements\nwebhook statement v1\nworkspace acme\n`},
		{"webhook statement " + made.ID, cli.ExitDone, "\nsequence none\n"}, // yesterday
		{"webhook statement wh_nobody", cli.ExitFailed, `there is no webhook "wh_nobody"`},
		{"webhook statement", cli.ExitUsage, "want WEBHOOK"},
		{"webhook statement " + made.ID + " --day yesterday", cli.ExitUsage, `--day: "yesterday" is no day: want a date such as 2026-11-22`},
		{"webhook statement " + made.ID + " --day 2999-01-01", cli.ExitUsage, "--day: 2999-01-01 has not begun"},
		{"webhook statement " + made.ID + " --day 2020-01-01", cli.ExitUsage, "--day: 2020-01-01 is past the retention"},
	} {
		if r := with(strings.Fields(c.args)...); r.code != c.code || !strings.Contains(r.out+r.errOut, c.says) {
			t.Errorf("%s: exit %d, want %d and %q in:\n%s%s", c.args, r.code, c.code, c.says, r.out, r.errOut)
		}
	}
	if r := runCommand(t, command(t, url, "webhook", "statement", made.ID)); r.code != cli.ExitFailed || r.out != "" || !strings.Contains(r.errOut, "there is no key to sign with: ledgerfeed signing-key new") {
		t.Errorf("without a key: %+v", r)
	}
}
