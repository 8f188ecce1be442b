//go:build outside

package main

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ledgerfeed/ledgerfeed/internal/cli"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

// TestVerifiesExportsInPython walks the chain of an export that holds forgotten entries with the
// program of the documentation, which shares no code with this one. It finds what is changed.
func TestVerifiesExportsInPython(t *testing.T) {
	t.Parallel()
	url := testkit.NewDatabase(t)
	c := command(t, url, "append", "--create-workspace")
	c.Stdin = strings.NewReader(ofAda)
	if r := runCommand(t, c); r.code != cli.ExitDone {
		t.Fatalf("%+v", r)
	}
	startProcess(t, command(t, url, "serve", "--roles", "project"))
	succeed(t, url, "person", "forget", "--workspace", "acme", "client", "cl_1", "--list", filepath.Join(t.TempDir(), "list"))
	export := succeed(t, url, "export", "--chain", "--workspace", "acme")
	verify := func(text string) (string, error) {
		t.Helper()
		c := exec.CommandContext(t.Context(), "python3", "../../docs/verify_export.py")
		c.Stdin = strings.NewReader(text)
		out, err := c.CombinedOutput()
		return string(out), err
	}
	if out, err := verify(export); err != nil || !strings.Contains(out, "6 entries follow from each other; 2 values are as they were appended, 3 are not there") {
		t.Errorf("%s: %v", out, err)
	}
	if out, err := verify(succeed(t, url, "export", "--chain", "--without-values", "--workspace", "acme")); err != nil || !strings.Contains(out, "0 values are as they were appended, 5 are not there") {
		t.Errorf("%s: %v", out, err)
	}
	for old, changed := range map[string]string{
		`"name":"Bob"`: `"name":"Rob"`, `"client_id":"cl_2"`: `"client_id":"cl_3"`, `"~":"`: `"~":"x`, `"position":4`: `"position":5`,
	} {
		if out, err := verify(strings.Replace(export, old, changed, 1)); err == nil {
			t.Errorf("%s for %s is not found: %s", changed, old, out)
		}
	}
}
