package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/internal/cli"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

// dated are lines of one workspace with the given ids, one second apart.
func dated(ids ...string) string {
	var text strings.Builder
	for i, id := range ids {
		text.WriteString(`{"workspace_id":"w","id":"` + id + `","type":"client.recorded","created_at":"2026-01-01T00:00:` + string(rune('0'+i/10)) + string(rune('0'+i%10)) +
			`.000Z","data":{"client_id":"c","name":"n"}}` + "\n")
	}
	return text.String()
}

// appended is a database with these lines.
func appended(t *testing.T, lines string) (url string) {
	t.Helper()
	url = testkit.NewDatabase(t)
	c := command(t, url, "append")
	c.Stdin = strings.NewReader(lines)
	if r := runCommand(t, c); r.code != cli.ExitDone {
		t.Fatalf("%+v", r)
	}
	return url
}

// TestExportContinuesItsOwnLogOnly: an export that was begun before the restore of an
// older backup, or before a failover that lost the last commits, stops and says so,
// instead of passing over the new entries at positions that it has passed.
func TestExportContinuesItsOwnLogOnly(t *testing.T) {
	t.Parallel()
	here := appended(t, dated("a", "b", "c", "d", "e"))
	state, file := filepath.Join(t.TempDir(), "state.json"), filepath.Join(t.TempDir(), "log.ndjson")
	succeed(t, here, "export", "--resume", state)
	succeed(t, here, "export", "--out", file)
	whole := read(t, file)
	for what, url := range map[string]string{
		"an older backup":                           appended(t, dated("a", "b", "c")),
		"a backup from before the workspace":        appended(t, strings.ReplaceAll(dated("a"), `"w"`, `"v"`)),
		"other entries since":                       appended(t, dated("a", "b", "c", "x", "y", "z", "zz")),
		"the last entry, and others before it":      appended(t, dated("a", "b", "x", "d", "e", "z")),
		"the last entry, at a later position":       appended(t, dated("a", "b", "c", "x", "d", "e")),
		"none of the entries at so late a position": appended(t, dated("p", "q", "r", "s", "t", "u")),
	} {
		for _, args := range [][]string{{"--resume", state}, {"--out", file}, {"--follow", "--resume", state}} {
			r := runCommand(t, command(t, url, append([]string{"export"}, args...)...))
			if r.code != cli.ExitFailed || r.out != "" || !strings.Contains(r.errOut, "older backup") && !strings.Contains(r.errOut, "does not have") {
				t.Errorf("%s, %v: %+v", what, args, r)
			}
		}
	}
	if read(t, file) != whole {
		t.Error("the file was changed")
	}
	c := command(t, here, "append")
	c.Stdin = strings.NewReader(strings.ReplaceAll(dated("f"), "00:00:00", "00:01:00"))
	if r := runCommand(t, c); r.code != cli.ExitDone {
		t.Fatalf("%+v", r)
	}
	if out := succeed(t, here, "export", "--resume", state); strings.Count(out, "\n") != 1 || !strings.Contains(out, `"id":"f"`) {
		t.Errorf("its own log is continued with %s", out)
	}
	succeed(t, here, "export", "--out", file)
	if strings.Count(read(t, file), "\n") != 6 {
		t.Errorf("its own log is continued to %s", read(t, file))
	}
}

// TestFollowNoticesAnotherLog: also when the log becomes another one while it follows.
func TestFollowNoticesAnotherLog(t *testing.T) {
	t.Parallel()
	url := appended(t, dated("a", "b", "c"))
	p := startProcess(t, command(t, url, "export", "--follow"))
	p.await(`"id":"c"`)
	conn := testkit.Must(pgx.Connect(t.Context(), url))(t)
	defer conn.Close(t.Context())
	// What the log is after a failover that lost the last commit, and a new one.
	for _, sql := range []string{
		`ALTER TABLE event_log DISABLE TRIGGER ALL`,
		`UPDATE event_log SET id = 'other', chain = sha256('other') WHERE position = 3`,
		`UPDATE log_head SET chain = sha256('other')`,
	} {
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	p.await("cannot continue after position 3 of w: the log holds another entry there")
	if code := p.wait(); code != cli.ExitFailed {
		t.Errorf("it ended with %d", code)
	}
}
