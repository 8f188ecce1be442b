package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/ledgerfeed/ledgerfeed/internal/cli"
)

// runBench runs ledgerfeed bench with a shell script on PATH in the place of the
// program that has the benchmarks; without a script, there is none.
func runBench(t *testing.T, script string, args ...string) result {
	t.Helper()
	return runCommand(t, prepareBench(t, script, args...))
}

func prepareBench(t *testing.T, script string, args ...string) *exec.Cmd {
	t.Helper()
	dir := t.TempDir()
	if script != "" {
		if err := os.WriteFile(filepath.Join(dir, benchProgram), []byte("#!/bin/sh\n"+script+"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	c := command(t, "", append([]string{"bench"}, args...)...)
	c.Env = append(c.Env, "PATH="+dir+":/usr/bin:/bin")
	return c
}

// The arguments, help included, the output and the exit status are those of the
// program that has the benchmarks.
func TestBenchRunsTheOtherProgram(t *testing.T) {
	t.Parallel()
	if r := runBench(t, `echo "$@"; echo busy >&2`, "log", "--scale", "0.1", "--json"); r.code != cli.ExitDone || r.out != "log --scale 0.1 --json\n" || r.errOut != "busy\n" {
		t.Errorf("%+v", r)
	}
	if r := runBench(t, `echo "help of $*"`, "--help"); r.code != cli.ExitDone || r.out != "help of --help\n" {
		t.Errorf("--help: %+v", r)
	}
	for _, status := range []string{"1", "2", "7"} {
		r := runBench(t, `echo "it failed" >&2; exit `+status, "read")
		if got := string(rune('0' + r.code)); got != status || r.errOut != "it failed\n" {
			t.Errorf("exit %s: %+v", status, r)
		}
	}
	if r := runBench(t, "", "log"); r.code != cli.ExitFailed || !strings.Contains(r.errOut, "cannot find the program ledgerfeed-bench") || !strings.Contains(r.errOut, "go run ./cmd/ledgerfeed-bench") {
		t.Errorf("without the program: %+v", r)
	}
	if r := runBench(t, `kill -9 $$`, "log"); r.code != cli.ExitFailed || !strings.Contains(r.errOut, "ledgerfeed-bench: signal: killed") {
		t.Errorf("killed: %+v", r)
	}
}

// Asked to stop, it interrupts the other program and waits for its end.
func TestBenchIsInterrupted(t *testing.T) {
	t.Parallel()
	const script = `trap 'echo cleaned up; exit 3' INT; echo started; while :; do sleep 0.1; done`
	for _, signal := range []os.Signal{syscall.SIGTERM, os.Interrupt} {
		p := startProcess(t, prepareBench(t, script, "log"))
		p.await("started")
		if err := p.cmd.Process.Signal(signal); err != nil {
			t.Fatal(err)
		}
		p.await("cleaned up")
		<-p.done
		if code := p.cmd.ProcessState.ExitCode(); code != 3 {
			t.Errorf("after %s: exit %d, want 3\n%s", signal, code, p.log)
		}
	}
}
