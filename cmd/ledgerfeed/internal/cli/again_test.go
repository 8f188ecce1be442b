package cli

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/ledgerfeed/ledgerfeed/internal/settings"
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
