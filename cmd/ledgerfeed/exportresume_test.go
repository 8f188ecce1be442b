package main

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ledgerfeed/ledgerfeed/internal/cli"
	"github.com/ledgerfeed/ledgerfeed/internal/flow"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

// However often an export into a file is killed, the file has every entry once,
// and gives the same log and read models elsewhere.
func TestExportGoesOn(t *testing.T) {
	t.Parallel()
	here, there := testkit.NewDatabase(t), testkit.NewDatabase(t)
	file := filepath.Join(t.TempDir(), "log.ndjson")
	write(t, file, "")
	rng := rand.New(rand.NewPCG(7, 8)) // the same moments in every run
	for _, entries := range chunks(t, 3, 8) {
		following := startProcess(t, command(t, here, "export", "--follow", "--out", file))
		succeed(t, here, "append", entries)
		flow.Sleep(t.Context(), time.Duration(rng.IntN(60))*time.Millisecond)
		following.kill()
		// As if it had been killed in the middle of a line.
		text := read(t, file)
		if cut := rng.IntN(100); len(text) > cut {
			write(t, file, text[:len(text)-cut])
		}
	}
	succeed(t, here, "export", "--out", file)
	if want := countEntries(t, succeed(t, here, "export", "--chain"), "agency-0"); strings.Count(read(t, file), `{"workspace_id":"agency-0"`) != want {
		t.Errorf("the file has not each of %d entries once", want)
	}
	succeed(t, there, "append", file)
	if succeed(t, there, "export", "--chain") != succeed(t, here, "export", "--chain") {
		t.Error("the logs differ")
	}
	for _, url := range []string{here, there} {
		serving := startProcess(t, command(t, url, "serve", "--roles", "project", "--no-migrate"))
		succeed(t, url, "status", "--wait", "--timeout", "1m")
		serving.stop()
		succeed(t, url, "verify")
	}
	if r := runCommand(t, command(t, testkit.NewDatabase(t), "export", "--out", file)); r.code != cli.ExitFailed || !strings.Contains(r.errOut, "does not have") {
		t.Errorf("into the file of another log: %+v", r)
	}
}

// An export into a pipe keeps in a file of its own where to continue.
func TestExportResumes(t *testing.T) {
	t.Parallel()
	url := testkit.NewDatabase(t)
	state := filepath.Join(t.TempDir(), "state.json")
	var out strings.Builder
	for _, f := range chunks(t, 2, 4) {
		succeed(t, url, "append", f)
		out.WriteString(succeed(t, url, "export", "--resume", state))
	}
	for _, w := range []string{"agency-0", "agency-1"} {
		if got, want := strings.Count(out.String(), `{"workspace_id":"`+w+`"`), strings.Count(succeed(t, url, "export", "--workspace", w), "\n"); got != want {
			t.Errorf("%d entries of %s, want %d", got, w, want)
		}
	}
	if again := succeed(t, url, "export", "--resume", state); again != "" {
		t.Errorf("exported again: %s", again)
	}
	if err := os.WriteFile(state, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if r := runCommand(t, command(t, url, "export", "--resume", state)); r.code != cli.ExitFailed {
		t.Errorf("with a damaged state: %+v", r)
	}
	if r := runCommand(t, command(t, url, "export", "--resume", state, "--out", state)); r.code != cli.ExitUsage {
		t.Errorf("with --out and --resume: %+v", r)
	}
}
