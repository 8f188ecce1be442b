package operate

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/ledgerfeed/ledgerfeed/internal/settings"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

// TestAgain: the settings and flags of a call come with it, secrets do not.
func TestAgain(t *testing.T) {
	const directory = "/tmp/it's mine"
	t.Setenv("LEDGERFEED_CONSOLE_LISTEN", "127.0.0.1:9191")
	t.Setenv("LEDGERFEED_SECRET_KEY", "a secret key that nobody may see")
	t.Setenv("DATABASE_URL", "postgres://user:password@localhost/db")
	e := &Env{}
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	e.AddFlags(flags)
	if err := flags.Parse([]string{"--data-dir", directory}); err != nil {
		t.Fatal(err)
	}
	s, err := settings.Read([]string{"LEDGERFEED_CONSOLE_LISTEN=127.0.0.1:9191"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	e.Settings = s
	line := e.Again(directory)
	if !strings.HasPrefix(line, "LEDGERFEED_CONSOLE_LISTEN=127.0.0.1:9191 ") || strings.Contains(line, "secret") || strings.Contains(line, "password") {
		t.Errorf("the line is %s", line)
	}
	_, flag, _ := strings.Cut(line, "--data-dir ")
	if out, err := exec.CommandContext(t.Context(), "sh", "-c", "printf %s "+flag).Output(); err != nil || string(out) != directory {
		t.Errorf("a shell reads %s as %q, %v", flag, out, err)
	}
}

// TestAgainHoldsInEveryDirectory: paths that were given from here are whole.
func TestAgainHoldsInEveryDirectory(t *testing.T) {
	here := t.TempDir()
	t.Chdir(here)
	e := &Env{config: "settings.yaml"}
	if line := e.Again("data"); !strings.Contains(line, " --config "+here+"/settings.yaml --data-dir "+here+"/data") {
		t.Errorf("the line is %s", line)
	}
}

// TestAgainWithGoRun: a program that go run started, here this test's, is called again from the
// root of its module, from whichever directory of it the person started it.
func TestAgainWithGoRun(t *testing.T) {
	if self, err := os.Executable(); err != nil || !strings.Contains(self, "go-build") {
		t.Chdir(t.TempDir()) // a test program that was compiled on its own is called by its name
		if called, directory := calledAs(); directory != "" || strings.Contains(called, "go run") {
			t.Errorf("called as %s in %q", called, directory)
		}
		return
	}
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	root := filepath.Join(here, "..", "..", "..", "..")
	for _, directory := range []string{here, filepath.Join(root, "docs", "contract"), root} {
		t.Chdir(directory)
		called, runsIn := calledAs()
		if want := "go run -C " + quote(root) + " ./cmd/ledgerfeed"; called != want || runsIn != root {
			t.Errorf("in %s: called as %s in %s, want %s in %s", directory, called, runsIn, want, root)
		}
	}
	e := &Env{}
	if line := e.Again(defaultDataDir); strings.Contains(line, "--data-dir") {
		t.Errorf("at the root the usual directory needs no flag: %s", line)
	}
	t.Chdir(t.TempDir())
	if called, runsIn := calledAs(); called != "go run ./cmd/ledgerfeed" || runsIn != "" {
		t.Errorf("outside of the module: called as %s in %s", called, runsIn)
	}
}

// TestSourceRoot: the module's name counts, not only that there is a go.mod.
func TestSourceRoot(t *testing.T) {
	for name, c := range map[string]struct {
		mod  string
		want bool
	}{
		"ours":    {"// why\nmodule github.com/ledgerfeed/ledgerfeed // here\n\ngo 1.26\n", true},
		"quoted":  {"module \"github.com/ledgerfeed/ledgerfeed\"\n", true},
		"another": {"module github.com/ledgerfeed/ledgerfeed/v2\n\nrequire github.com/ledgerfeed/ledgerfeed v0.1.0\n", false},
	} {
		root := testkit.Must(filepath.EvalSymlinks(t.TempDir()))(t)
		below := filepath.Join(root, "a", "b")
		if err := os.MkdirAll(below, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, "go.mod"), []byte(c.mod), 0o600); err != nil {
			t.Fatal(err)
		}
		t.Chdir(below)
		if got := sourceRoot(); c.want && got != root || !c.want && got != "" {
			t.Errorf("%s: the root is %q", name, got)
		}
	}
}
