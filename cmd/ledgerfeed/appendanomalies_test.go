package main

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/ledgerfeed/ledgerfeed/internal/cli"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
	"github.com/ledgerfeed/ledgerfeed/migrations"
)

// noEffect is an entry about an invoice that does not exist.
func noEffect(w, id string) string {
	return fmt.Sprintf(`{"workspace_id":%q,"id":%q,"type":"invoice.reversed","data":{"invoice_id":"none"}}`+"\n", w, id)
}

// created is what append says of a workspace that it made.
func created(w string) string { return "created the workspace " + w + ", which did not exist\n" }

// appendLines runs append with lines on standard input.
func appendLines(t *testing.T, url, lines string, args ...string) result {
	t.Helper()
	c := command(t, url, append([]string{"append"}, args...)...)
	c.Stdin = strings.NewReader(lines)
	return runCommand(t, c)
}

var slowWait = regexp.MustCompile(`(?m)^waiting for the read models, which do not have .*\n`)

// TestAppendCountsAnomalies: those of this run's entries alone, as soon as the read
// models have them.
func TestAppendCountsAnomalies(t *testing.T) {
	t.Parallel()
	url := testkit.NewDatabase(t)
	startProcess(t, command(t, url, "serve", "--roles", "project"))
	lines := noID("w", 1) + noEffect("w", "a") + noEffect("w", "b") + noID("w", 2)
	for _, c := range []struct{ name, lines, args, want, errOut string }{
		{"some", lines, "--wait", "appended 4, skipped 0\n2 of them are anomalies: ledgerfeed anomaly list --workspace w\n", created("w")},
		{"as JSON", noEffect("w", "c"), "--wait --json", `{"appended":1,"skipped":0,"positions":{"w":5},"anomalies":1}` + "\n", ""},
		{"one that was there", noEffect("w", "a") + noID("w", 3), "--wait", "appended 1, skipped 1\nnone of them is an anomaly\n", ""},
		{"nothing new", noEffect("w", "a"), "--wait --json", `{"appended":0,"skipped":1,"positions":{"w":2},"anomalies":0}` + "\n", ""},
		{"several workspaces", noEffect("w", "d") + noEffect("v", "d"), "--wait", "appended 2, skipped 0\n2 of them are anomalies: ledgerfeed anomaly list\n", created("v")},
	} {
		r := appendLines(t, url, c.lines, strings.Fields(c.args)...)
		// A wait that takes long says so.
		said := slowWait.ReplaceAllString(r.errOut, "")
		if r.code != cli.ExitDone || r.out != c.want || said != c.errOut {
			t.Errorf("%s: %+v, want %q and %q", c.name, r, c.want, c.errOut)
		}
	}
	// Without --wait, too: everything is projected within a moment, sooner or later.
	n := 0
	testkit.Eventually(t, func() error {
		n++
		r := appendLines(t, url, noEffect("w", fmt.Sprint("again", n)))
		if r.code != cli.ExitDone || r.out != "appended 1, skipped 0\n1 of them is an anomaly: ledgerfeed anomaly list --workspace w\n" {
			return fmt.Errorf("%+v", r)
		}
		return nil
	})
}

// TestAppendStreamCountsAnomalies: entries that others append meanwhile do not count.
func TestAppendStreamCountsAnomalies(t *testing.T) {
	t.Parallel()
	url := testkit.NewDatabase(t)
	startProcess(t, command(t, url, "serve", "--roles", "project"))
	c := command(t, url, "append", "--stream", "--wait")
	in := testkit.Must(c.StdinPipe())(t)
	p := startProcess(t, c)
	const rounds = 3
	for i := range rounds {
		id := fmt.Sprint("mine", i)
		fmt.Fprint(in, noEffect("w", id))
		p.await(`{"id":"` + id + `"`)
		if r := appendLines(t, url, noEffect("w", fmt.Sprint("other", i))); r.code != cli.ExitDone {
			t.Fatalf("%+v", r)
		}
	}
	fmt.Fprint(in, noID("w", 1))
	if err := in.Close(); err != nil {
		t.Fatal(err)
	}
	if code := p.wait(); code != cli.ExitDone || !strings.Contains(p.log.String(), fmt.Sprintf("appended 4, skipped 0\n%d of them are anomalies: ", rounds)) {
		t.Errorf("it ended with %d:\n%s", code, p.log)
	}
}

// TestAppendWithoutAProjector: what is not known is not said, and nothing hangs.
func TestAppendWithoutAProjector(t *testing.T) {
	t.Parallel()
	url := testkit.NewDatabase(t)
	limit, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	r := appendLines(t, url, noEffect("w", "a"))
	if r.code != cli.ExitDone || r.out != "appended 1, skipped 0\n" || r.errOut != created("w")+"not projected yet: ledgerfeed anomaly list --workspace w says later which of them are anomalies\n" {
		t.Errorf("%+v", r)
	}
	r = appendLines(t, url, noEffect("w", "b"), "--json")
	if r.code != cli.ExitDone || r.out != `{"appended":1,"skipped":0,"positions":{"w":2}}`+"\n" {
		t.Errorf("%+v", r)
	}
	r = appendLines(t, url, noEffect("w", "c"), "--wait", "--timeout", "1s")
	if r.code != cli.ExitFailed || r.out != "appended 1, skipped 0\n" ||
		!strings.Contains(r.errOut, "the entries are in the log, but the read models do not have them: not everything was projected within 1s") || strings.Contains(r.errOut, "--ids") {
		t.Errorf("%+v", r)
	}
	if limit.Err() != nil {
		t.Error("three appends that nobody projects took longer than a minute: they waited for the read models")
	}
	for _, args := range [][]string{{"--timeout", "1s"}, {"--wait", "--timeout", "-1s"}} {
		if r := appendLines(t, url, "", args...); r.code != cli.ExitUsage || !strings.Contains(r.errOut, "--timeout is") {
			t.Errorf("%v: %+v", args, r)
		}
	}
}

// TestAppendAsAProducer: an account that may only append is told so before anything is
// appended where it asks for more, and otherwise appends.
func TestAppendAsAProducer(t *testing.T) {
	t.Parallel()
	url := testkit.NewDatabase(t)
	if err := migrations.ApplyGrants(t.Context(), url); err != nil {
		t.Fatal(err)
	}
	producer := url + "&options=-c%20role%3Dledgerfeed_writer"
	r := appendLines(t, producer, noEffect("w", "a"), "--wait")
	if r.code != cli.ExitFailed || r.out != "" || !strings.Contains(r.errOut, "nothing was appended: --wait reads how far the read models are") {
		t.Errorf("%+v", r)
	}
	r = appendLines(t, producer, noEffect("w", "a"))
	if r.code != cli.ExitDone || r.out != "appended 1, skipped 0\n" || !strings.Contains(r.errOut, "may not read which of them are anomalies") || !strings.HasPrefix(r.errOut, "w had no entries before: ") {
		t.Errorf("%+v", r)
	}
}

// TestAppendNamesNewWorkspaces: a workspace that a mistyped id makes is named, one that
// was created before is not, and a restored export of many does not fill the screen.
func TestAppendNamesNewWorkspaces(t *testing.T) {
	t.Parallel()
	url := testkit.NewDatabase(t)
	succeed(t, url, "workspace", "create", "--id", "acme")
	if r := appendLines(t, url, noID("acme", 1)+noID("acne", 1)); r.code != cli.ExitDone || strings.Count(r.errOut, "created the workspace") != 1 || !strings.HasPrefix(r.errOut, created("acne")) {
		t.Errorf("one of two: %+v", r)
	}
	if r := appendLines(t, url, noID("acme", 1)+noID("stream", 1), "--stream"); r.code != cli.ExitDone || strings.Count(r.errOut, "created the workspace") != 1 || !strings.HasPrefix(r.errOut, created("stream")) {
		t.Errorf("--stream: %+v", r)
	}
	var many strings.Builder
	for i := range 600 { // two batches
		many.WriteString(noID(fmt.Sprint("w", i), 1))
	}
	if r := appendLines(t, url, many.String()); r.code != cli.ExitDone || strings.Count(r.errOut, "created the workspace") != 10 || strings.Count(r.errOut, "more workspaces are new: ledgerfeed workspace list\n") != 1 {
		t.Errorf("many: %+v", r)
	}
}
