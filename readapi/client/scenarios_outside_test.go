//go:build outside

// These tests need programs that do not come with Go. .ci/setup languages installs them.

package client_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

// programRunner runs each task with a program in a folder, which scenarios/README.md describes.
func programRunner(dir, name string, args ...string) runner {
	return func(ctx context.Context, in input) (*result, error) {
		text, err := json.Marshal(in)
		if err != nil {
			return nil, err
		}
		command := exec.CommandContext(ctx, name, args...)
		command.Dir, command.Stdin = dir, bytes.NewReader(text)
		out, err := command.Output()
		if err != nil {
			return nil, fmt.Errorf("%s: %w\n%s%s", name, err, out, logged(err))
		}
		return read(out)
	}
}

// read reads what a runner has written.
func read(out []byte) (*result, error) {
	got := &result{}
	decoder := json.NewDecoder(bytes.NewReader(out))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(got); err != nil {
		return nil, fmt.Errorf("the runner wrote %s: %w", out, err)
	}
	return got, nil
}

// logged is what a program wrote to its standard error.
func logged(err error) string {
	if ended, ok := errors.AsType[*exec.ExitError](err); ok {
		return string(ended.Stderr)
	}
	return ""
}

// inFolder runs a command in a folder to its end.
func inFolder(t *testing.T, dir, name string, args ...string) {
	t.Helper()
	command := exec.CommandContext(t.Context(), name, args...)
	command.Dir = dir
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
}

// sources copies the files of a folder that git tracks, or would.
func sources(t *testing.T, from, to string) {
	t.Helper()
	list := exec.CommandContext(t.Context(), "git", "ls-files", "--cached", "--others", "--exclude-standard", ".")
	list.Dir = from
	for name := range strings.FieldsSeq(string(testkit.Must(list.Output())(t))) {
		text := testkit.Must(os.ReadFile(filepath.Join(from, name)))(t)
		target := filepath.Join(to, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(target), 0o750), os.WriteFile(target, text, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
}

// TestTypeScript installs, compiles and tests the client in TypeScript, and runs the scenarios and
// the samples of its README with it.
func TestTypeScript(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "typescript")
	sources(t, "typescript", dir)
	inFolder(t, dir, "npm", "ci", "--ignore-scripts", "--silent", "--prefer-offline")
	inFolder(t, dir, "npm", "test", "--silent")
	t.Run("scenarios", func(t *testing.T) {
		t.Parallel()
		runScenarios(t, programRunner(dir, "node", "out/test/runner.js"))
	})
	if testkit.Full() {
		runtimes := filepath.Join(dir, "test", "runtimes")
		inFolder(t, runtimes, "npm", "ci", "--silent", "--prefer-offline") // with scripts: they put the programs in their places
		bin := filepath.Join(runtimes, "node_modules", ".bin")
		t.Run("scenarios in Deno", func(t *testing.T) {
			t.Parallel()
			runScenarios(t, programRunner(dir, filepath.Join(bin, "deno"), "run", "--allow-all", "out/test/runner.js"))
		})
		t.Run("scenarios in Bun", func(t *testing.T) {
			t.Parallel()
			runScenarios(t, programRunner(dir, filepath.Join(bin, "bun"), "out/test/runner.js"))
		})
		t.Run("scenarios in a browser", func(t *testing.T) {
			t.Parallel()
			runScenarios(t, openPage(t, filepath.Join(dir, "out")).run)
		})
	}
	t.Run("samples", func(t *testing.T) {
		t.Parallel()
		address, key := exampleService()
		command := exec.CommandContext(t.Context(), "node", filepath.Join(dir, "out", "test", "samples.js"))
		command.Dir = t.TempDir()
		command.Env = append(os.Environ(), "API_URL="+address, "API_KEY="+key, "WEBHOOK_SECRET="+secret)
		out, err := command.CombinedOutput()
		if got := string(out); err != nil || got != samplesPrint {
			t.Errorf("the samples print (%v)\n%s\nwant\n%s", err, got, samplesPrint)
		}
	})
}

// samplesPrint is what the samples of the README print when they read the workspace of the examples.
const samplesPrint = `== lists
2026-001 420.00 EUR
2026-002 79.90 EUR
in all 499.90
== pages
1 row at position 10 and more: true
1 row at position 10 and more: false
== follow
Map(1) { 'te_1' => '7.5' }
== follow in a transaction
invoice.issued invoice.sent invoice.issued invoice.sent time_entry.deleted
== whole
2 invoices, to go on from a cursor: true
== totals
Blue Door Ltd 2 499.90 EUR
== errors
there is no such invoice
== webhooks
== verify
invoice.sent in_1 at position 7
sent
204
204
true false
`
