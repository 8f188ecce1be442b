package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ledgerfeed/ledgerfeed/internal/cli"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
	"github.com/ledgerfeed/ledgerfeed/migrations"
)

// appendsTo is an append by an account that makes no workspaces of itself.
func appendsTo(t *testing.T, url, lines string, args ...string) result {
	t.Helper()
	c := command(t, url, append([]string{"append"}, args...)...)
	c.Env = slices.DeleteFunc(c.Env, func(v string) bool { return strings.HasPrefix(v, "LEDGERFEED_CREATE_WORKSPACES=") })
	c.Stdin = strings.NewReader(lines)
	return runCommand(t, c)
}

func recorded(workspaceID, id string) string {
	return fmt.Sprintf(`{"workspace_id":%q,"id":%q,"type":"client.recorded","data":{"client_id":"c","name":"n"}}`+"\n", workspaceID, id)
}

// TestUnknownWorkspacesAreRefused: a mistyped workspace makes none, unless it is asked for.
func TestUnknownWorkspacesAreRefused(t *testing.T) {
	t.Parallel()
	url := testkit.NewDatabase(t)
	succeed(t, url, "workspace", "create", "--id", "acme", "--name", "Acme")
	input := recorded("acme", "a") + recorded("acne", "b") + recorded("acne", "c") + recorded("axme", "d")
	holds := func(want string) {
		t.Helper()
		if out := succeed(t, url, "export"); strings.Count(out, "\n") != len(strings.Fields(want)) {
			t.Errorf("the log has\n%s, want %s", out, want)
		}
	}
	r := appendsTo(t, url, input)
	for _, want := range []string{`standard input, line 2: there is no workspace "acne"`, `standard input, line 4: there is no workspace "axme"`, "2 workspaces of the input do not exist", "--create-workspace; nothing was appended"} {
		if r.code != cli.ExitFailed || !strings.Contains(r.errOut, want) {
			t.Errorf("%+v, want %q", r, want)
		}
	}
	holds("")
	// As lines come, those before are in the log.
	r = appendsTo(t, url, input, "--stream")
	if r.code != cli.ExitFailed || !strings.Contains(r.errOut, `standard input, line 2: there is no workspace "acne"`) || r.out != `{"id":"a","position":1}`+"\n" {
		t.Errorf("%+v", r)
	}
	holds("a")
	if r = appendsTo(t, url, input, "--create-workspace"); r.code != cli.ExitDone || r.out != "appended 3, skipped 1\n" || !strings.Contains(r.errOut, "created the workspace acne") {
		t.Errorf("%+v", r)
	}
	holds("a b c d")
	if r = appendsTo(t, url, recorded("acne", "e")+recorded("other", "f"), "--stream", "--create-workspace"); r.code != cli.ExitDone {
		t.Errorf("%+v", r)
	}
	holds("a b c d e f")
	// A restore makes what it brings.
	export, copied := succeed(t, url, "export"), testkit.NewDatabase(t)
	if r = appendsTo(t, copied, export, "--restore"); r.code != cli.ExitDone || succeed(t, copied, "export") != export {
		t.Errorf("%+v", r)
	}
}

// TestUnknownWorkspacesOfAWriter: an account that may only append is refused the same.
func TestUnknownWorkspacesOfAWriter(t *testing.T) {
	t.Parallel()
	url := testkit.NewDatabase(t)
	succeed(t, url, "workspace", "create", "--id", "acme", "--name", "Acme")
	if err := migrations.ApplyGrants(t.Context(), url); err != nil {
		t.Fatal(err)
	}
	writer := url + "&options=-c%20role%3Dledgerfeed_writer"
	for _, mode := range [][]string{nil, {"--stream"}} {
		if r := appendsTo(t, writer, recorded("acne", "a"), mode...); r.code != cli.ExitFailed || !strings.Contains(r.errOut, `there is no workspace "acne"`) {
			t.Errorf("%v: %+v", mode, r)
		}
		if r := appendsTo(t, writer, recorded("acme", "a"), mode...); r.code != cli.ExitDone {
			t.Errorf("%v: %+v", mode, r)
		}
	}
	if out := succeed(t, url, "workspace", "list", "--json"); strings.Contains(out, "acne") {
		t.Errorf("the workspaces are %s", out)
	}
}

// TestAppendCheck: it reports what an append would refuse, in every way, and appends nothing.
func TestAppendCheck(t *testing.T) {
	t.Parallel()
	url := testkit.NewDatabase(t)
	at := func(id, when string) string {
		return strings.Replace(recorded("acme", id), `"type"`, `"created_at":"`+when+`","type"`, 1)
	}
	if r := appendsTo(t, url, at("old", "2026-10-01T00:00:00.000Z"), "--create-workspace"); r.code != cli.ExitDone {
		t.Fatalf("%+v", r)
	}
	name := filepath.Join(t.TempDir(), "in.ndjson")
	good := recorded("acme", "new") + recorded("acme", "old") + recorded("acme", "new")
	lines := good + strings.Replace(recorded("acme", "old"), `"n"`, `"other"`, 1) + // 4
		strings.Replace(recorded("acme", "new"), `"n"`, `"other"`, 1) + // 5
		at("early", "2026-09-30T00:00:00.000Z") + // 6
		at("ahead", "2999-01-01T00:00:00.000Z") + // 7
		recorded("acne", "x") + // 8
		"no JSON\n" + strings.Replace(recorded("acme", "y"), `"name"`, `"nam"`, 1) // 9, 10
	if err := os.WriteFile(name, []byte(lines), 0o600); err != nil {
		t.Fatal(err)
	}
	before := succeed(t, url, "export")
	r := appendsTo(t, url, "", "--check", name)
	if r.code != cli.ExitFailed || r.out != "1 would be appended, 2 skipped, 7 refused; nothing was appended\n" || !strings.Contains(r.errOut, "7 lines would be refused") {
		t.Errorf("%+v", r)
	}
	for line, want := range map[int]string{
		4: "holds this id with other content", 5: "holds this id with other content", 6: "before the workspace's newest entry", 7: "more than 5 minutes ahead",
		8: `there is no workspace "acne"`, 9: "want an entry", 10: "data.nam",
	} {
		if !strings.Contains(r.errOut, fmt.Sprintf("%s, line %d: ", name, line)) || !strings.Contains(r.errOut, want) {
			t.Errorf("line %d, want %q:\n%s", line, want, r.errOut)
		}
	}
	if r := appendsTo(t, url, "", "--check", "--create-workspace", "--json", name); r.code != cli.ExitFailed || r.out != `{"would_append":2,"would_skip":2,"refused":6}`+"\n" {
		t.Errorf("with --create-workspace: %+v", r)
	}
	if r := appendsTo(t, url, good, "--check"); r.code != cli.ExitDone || r.out != "1 would be appended, 2 skipped, 0 refused; nothing was appended\n" {
		t.Errorf("what is right: %+v", r)
	}
	if after := succeed(t, url, "export"); after != before {
		t.Errorf("something was appended:\n%s", after)
	}
	if r := appendsTo(t, url, "", "--check", "--wait", name); r.code != cli.ExitUsage {
		t.Errorf("with --wait: %+v", r)
	}
}
