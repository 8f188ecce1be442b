package main

import (
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/ledgerfeed/ledgerfeed/internal/cli"
)

// TestDemoBesideOthers: where the usual ports are taken the demo has others, the lines that
// it prints work in another directory and a shell without its environment, and a second one
// does not start on the same data.
func TestDemoBesideOthers(t *testing.T) {
	t.Parallel()
	for _, address := range []string{"127.0.0.1:8080", "127.0.0.1:8081", "127.0.0.1:9090"} {
		if l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", address); err == nil { // else it is taken anyway
			t.Cleanup(func() { _ = l.Close() })
		}
	}
	dir := localDir(t)
	withDefaults := func() *exec.Cmd {
		c := localCommand(t, dir, "demo")
		c.Env = slices.DeleteFunc(c.Env, func(s string) bool { return strings.Contains(s, "_LISTEN=") })
		return c
	}
	demo := startProcess(t, withDefaults())
	demo.await("Ctrl-C stops everything")
	if log := demo.log.String(); strings.Contains(log, "level=WARN") {
		t.Errorf("what a newcomer reads has warnings:\n%s", log)
	}
	lf := "lf() " + demo.await("  lf() ") + "\n"
	for _, hint := range []struct{ line, says string }{
		{"  lf trigger ", "invoice.paid evt_"},
		{"  lf status", "demo-agency"},
	} {
		if out := paste(t, lf+hint.line+demo.await(hint.line)); !strings.Contains(out, hint.says) {
			t.Errorf("%s: %s", hint.line, out)
		}
	}
	first, _, _ := strings.Cut("http://"+demo.await("  http://"), "/sign-in/")
	if link := paste(t, lf+"lf console link --workspace demo-agency"); !strings.HasPrefix(link, first+"/sign-in/") || strings.HasPrefix(link, "http://127.0.0.1:8081/") {
		t.Errorf("the console is at %s; the other link is %s", first, link)
	}
	if r := runCommand(t, withDefaults()); r.code != cli.ExitFailed || !strings.Contains(r.errOut, "a demo is running with its data in "+dir) {
		t.Errorf("a second demo: %+v", r)
	}
}

// paste runs a line in another directory, in a shell that has nothing of this one's
// environment but what finds the program.
func paste(t *testing.T, line string) string {
	t.Helper()
	c := exec.CommandContext(t.Context(), "/bin/sh", "-c", line)
	c.Dir = t.TempDir()
	c.Env = []string{asProgram + "=1"}
	for _, s := range os.Environ() {
		if name, _, _ := strings.Cut(s, "="); name == "PATH" || name == "HOME" || strings.HasPrefix(name, "GO") {
			c.Env = append(c.Env, s)
		}
	}
	out, err := c.Output()
	if err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	return string(out)
}
