package main

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/internal/cli"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

// TestMarksOfWindowsAreSkipped: a file of UTF-8 may begin with a byte order mark.
func TestMarksOfWindowsAreSkipped(t *testing.T) {
	t.Parallel()
	const mark = "\ufeff"
	url, dir := testkit.NewDatabase(t), t.TempDir()
	entry := func(id string) string {
		return `{"workspace_id":"w","id":"` + id + `","type":"client.recorded","created_at":"2026-10-01T00:00:00.000Z","data":{"client_id":"c","name":"n"}}` + "\n"
	}
	name := filepath.Join(dir, "a.ndjson")
	write(t, name, mark+entry("a"))
	if out := succeed(t, url, "append", name); out != "appended 1, skipped 0\n" {
		t.Errorf("a file: %s", out)
	}
	for _, args := range [][]string{{"append"}, {"append", "--stream"}, {"append", "--restore"}} {
		target, want := url, "a"
		if args[len(args)-1] == "--restore" {
			target = testkit.NewDatabase(t)
		}
		c := command(t, target, args...)
		c.Stdin = strings.NewReader(mark + entry("a") + "\r\n" + entry("b"))
		if r := runCommand(t, c); r.code != cli.ExitDone {
			t.Errorf("%v: %+v", args, r)
		}
		if out := succeed(t, target, "export"); !strings.HasPrefix(out, strings.TrimSuffix(entry(want), "}\n")) || strings.Contains(out, mark) || strings.Count(out, "\n") != 2 {
			t.Errorf("%v: %s", args, out)
		}
	}
	// A mark that is not at the beginning is no white space.
	c := command(t, url, "append")
	c.Stdin = strings.NewReader(entry("a") + mark + entry("c"))
	if r := runCommand(t, c); r.code != cli.ExitFailed || !strings.Contains(r.errOut, "line 2: ") {
		t.Errorf("a mark in the middle: %+v", r)
	}
}

// TestFilesThatGoOnAreReadAsWindowsWritesThem: a person may have saved the program's own files with an
// editor there.
func TestFilesThatGoOnAreReadAsWindowsWritesThem(t *testing.T) {
	t.Parallel()
	url, dir := testkit.NewDatabase(t), t.TempDir()
	const line = `{"workspace_id":"w","type":"client.recorded","data":{"client_id":"c","name":"n"}}` + "\n"
	in, ids, log := filepath.Join(dir, "in.ndjson"), filepath.Join(dir, "ids.txt"), filepath.Join(dir, "log.ndjson")
	ofWindows := func(name string) { write(t, name, "\ufeff"+strings.ReplaceAll(read(t, name), "\n", "\r\n")) }
	write(t, in, line+line)
	succeed(t, url, "append", "--ids", ids, in)
	ofWindows(ids)
	write(t, in, line+line+line)
	if out := succeed(t, url, "append", "--ids", ids, in); out != "appended 1, skipped 2\n" {
		t.Errorf("the ids: %s", out)
	}
	if out := succeed(t, url, "append", "--ids", ids, in); out != "appended 0, skipped 3\n" {
		t.Errorf("the ids, with one more: %s", out)
	}
	succeed(t, url, "export", "--out", log)
	ofWindows(log)
	succeed(t, url, "append", in)
	if r := runCommand(t, command(t, url, "export", "--out", log)); r.code != cli.ExitDone || !strings.Contains(r.errOut, "added 3 entries to ") {
		t.Errorf("the export: %+v", r)
	}
	other := testkit.NewDatabase(t)
	if out := succeed(t, other, "append", log); out != "appended 6, skipped 0\n" {
		t.Errorf("the exported file: %s", out)
	}
	for _, name := range []string{ids, log} {
		write(t, name, "\xff\xfee\x00v\x00\n\x00")
	}
	for args, name := range map[string]string{"append --ids " + ids + " " + in: ids, "export --out " + log: log} {
		if r := runCommand(t, command(t, url, strings.Fields(args)...)); r.code != cli.ExitFailed || !strings.Contains(r.errOut, name+": it is UTF-16: want UTF-8") {
			t.Errorf("%s: %+v", args, r)
		}
	}
}

// TestExportToAFileSaysWhatItDid: the file has the entries, and the terminal how many.
func TestExportToAFileSaysWhatItDid(t *testing.T) {
	t.Parallel()
	url := testkit.NewDatabase(t)
	appendLines(t, url, `{"workspace_id":"w","id":"a","type":"client.recorded","data":{"client_id":"c","name":"n"}}`+"\n")
	name := filepath.Join(t.TempDir(), "log.ndjson")
	for _, want := range []string{"added 1 entry to " + name, "added 0 entries to " + name} {
		if r := runCommand(t, command(t, url, "export", "--out", name)); r.code != cli.ExitDone || r.out != "" || !strings.Contains(r.errOut, want) {
			t.Errorf("%+v, want %q", r, want)
		}
	}
	c := startProcess(t, command(t, url, "export", "--out", name, "--follow"))
	c.await("added 0 entries to " + name + "; waiting for further ones")
	if code := c.stop(); code != cli.ExitDone {
		t.Errorf("exit %d", code)
	}
}

// TestWaitsSayWhatTheyWaitFor: a wait for the read models says at once how many entries it waits
// for, and names the entry that the projector cannot do.
func TestWaitsSayWhatTheyWaitFor(t *testing.T) {
	t.Parallel()
	url := testkit.NewDatabase(t)
	line := `{"workspace_id":"acme","id":"a","type":"client.recorded","data":{"client_id":"c","name":"n"}}` + "\n"
	appendLines(t, url, line)
	r := runCommand(t, command(t, url, "status", "--wait", "--timeout", "2s"))
	if r.code != cli.ExitFailed || !strings.Contains(r.errOut, "waiting for the read models, which do not have 1 entry yet. No connected process has the role project. Start one: ledgerfeed serve --roles project\n") {
		t.Errorf("%+v", r)
	}
	conn := testkit.Must(pgx.Connect(t.Context(), url))(t)
	defer conn.Close(t.Context())
	execute1(t, conn, `UPDATE log_checkpoint SET failures = 3, failed_to = 1, segment_max = 1, error = 'division by zero', retry_at = '2100-01-01T00:00:00Z'`)
	c := command(t, url, "append", "--wait", "--timeout", "2s")
	c.Stdin = strings.NewReader(line)
	if r := runCommand(t, c); r.code != cli.ExitFailed || !strings.Contains(r.errOut, "the projector is retrying entry 1 of workspace acme: division by zero") {
		t.Errorf("%+v", r)
	}
}

// TestAFailingWebhookIsCalledSo: in the word of the console and the metrics.
func TestAFailingWebhookIsCalledSo(t *testing.T) {
	t.Parallel()
	url := testkit.NewDatabase(t)
	succeed(t, url, "workspace", "create", "--id", "acme", "--name", "Acme")
	succeed(t, url, "webhook", "create", "--workspace", "acme", "--url", "https://hooks.example.com/", "--events", "all")
	conn := testkit.Must(pgx.Connect(t.Context(), url))(t)
	defer conn.Close(t.Context())
	for state, change := range map[string]string{
		"failing": `UPDATE webhook SET failing_since = now(), state = 'on'`,
		"on":      `UPDATE webhook SET failing_since = NULL, state = 'on'`,
	} {
		execute1(t, conn, change)
		if out := succeed(t, url, "webhook", "list", "--workspace", "acme"); !strings.Contains(out, "  "+state+"  ") {
			t.Errorf("webhook list does not say %s:\n%s", state, out)
		}
		if out := succeed(t, url, "status"); !regexp.MustCompile(`(?m)^wh_.* ` + state + `$`).MatchString(out) {
			t.Errorf("status does not say %s:\n%s", state, out)
		}
	}
}

// TestTheFirstStepIsSaid: serve on an empty database says what to do next, and only there.
func TestTheFirstStepIsSaid(t *testing.T) {
	t.Parallel()
	const said = `level=INFO msg="there is no workspace yet. Create one`
	url := testkit.NewDatabase(t)
	p := startProcess(t, command(t, url, "serve", "--roles", "api"))
	p.await(said)
	p.stop()
	if log := p.log.String(); strings.Index(log, said) < strings.Index(log, "msg=listening") {
		t.Errorf("it is said before the process listens:\n%s", log)
	}
	succeed(t, url, "workspace", "create", "--id", "acme")
	p = startProcess(t, command(t, url, "serve", "--roles", "api"))
	apiOf(p)
	p.stop()
	if strings.Contains(p.log.String(), said) {
		t.Errorf("it is said although there is a workspace:\n%s", p.log)
	}
}

// TestTheBrandIsSaidBeforeTheFirstKey: it cannot be changed afterwards.
func TestTheBrandIsSaidBeforeTheFirstKey(t *testing.T) {
	t.Parallel()
	const said = "begin with SERVICE, because LEDGERFEED_BRAND is not set; it cannot be changed once there are keys"
	url := testkit.NewDatabase(t)
	succeed(t, url, "workspace", "create", "--id", "acme", "--name", "Acme")
	starts := func(want bool, settings ...string) {
		t.Helper()
		c := command(t, url, "serve", "--roles", "api")
		c.Env = append(c.Env, settings...)
		p := startProcess(t, c)
		apiOf(p)
		if code := p.stop(); code != cli.ExitDone || strings.Contains(p.log.String(), said) != want {
			t.Errorf("serve with %v, want it said %v:\n%s", settings, want, p.log)
		}
	}
	creates := func(want bool, settings ...string) {
		t.Helper()
		c := command(t, url, "key", "create", "--workspace", "acme", "--name", "k", "--scopes", "events:read")
		c.Env = append(c.Env, settings...)
		if r := runCommand(t, c); r.code != cli.ExitDone || strings.Contains(r.errOut, said) != want || strings.Contains(r.out, said) {
			t.Errorf("key create with %v, want it said %v: %+v", settings, want, r)
		}
	}
	starts(true)
	starts(false, "LEDGERFEED_BRAND=ACME")
	starts(false, "LEDGERFEED_BRAND=SERVICE")
	creates(true)
	creates(false)
	starts(false)
}
