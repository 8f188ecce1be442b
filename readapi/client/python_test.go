//go:build outside

// These tests need Python, which does not come with Go. They have a build tag so that the ordinary
// tests need nothing set up. CI runs both.

package client_test

import (
	"bytes"
	"context"
	"fmt"
	"html"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
	"github.com/ledgerfeed/ledgerfeed/readapi/openapi"
)

// python runs a program of the folder python and returns what it prints.
func python(ctx context.Context, input io.Reader, env []string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "python3", append([]string{"-B", "-W", "error"}, args...)...)
	var out, said bytes.Buffer
	cmd.Dir, cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = "python", append(os.Environ(), env...), input, &out, &said
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("python3 %s: %w\n%s%s", strings.Join(args, " "), err, out.String(), said.String())
	}
	return out.String(), nil
}

// TestScenariosInPython runs the scenarios with both clients of the package for Python.
func TestScenariosInPython(t *testing.T) {
	t.Parallel()
	for _, form := range []string{"sync", "async"} {
		t.Run(form, func(t *testing.T) {
			t.Parallel()
			runScenarios(t, programRunner("python", "python3", "-B", "-W", "error", "tests/runner.py", form))
		})
	}
}

// TestThePythonPackage runs the package's own tests.
func TestThePythonPackage(t *testing.T) {
	t.Parallel()
	if _, err := python(t.Context(), nil, []string{"PYTHONPATH=."}, "-m", "unittest", "discover", "-s", "tests"); err != nil {
		t.Error(err)
	}
}

// TestPythonSamples runs the samples of the package's README and of the guide.
func TestPythonSamples(t *testing.T) {
	t.Parallel()
	address, key := exampleService()
	got, err := python(t.Context(), nil, []string{"API_URL=" + address, "API_KEY=" + key}, "samples.py", t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	want := `2026-001 420.00 EUR
2026-002 79.90 EUR
in all 499.90
1 row at position 10 and more: True
1 row at position 10 and more: False
{'te_1': Decimal('7.5')}
5 events
2 invoices, to go on from a cursor: True
Blue Door Ltd 2 499.90 EUR
there is no such invoice
sent
400 no signature of the message matches its body and a secret
Blue Door Ltd
acme
`
	if got != want {
		t.Errorf("the samples print\n%s", got)
	}
}

var pythonCode = regexp.MustCompile(`(?s)data-language="Python"><code>(.*?)</code>`)

// TestThePythonGuideShowsTheSamples: the lines of the guide are lines of the samples, which run.
func TestThePythonGuideShowsTheSamples(t *testing.T) {
	t.Parallel()
	samples := strings.ReplaceAll(string(testkit.Must(os.ReadFile("python/samples.py"))(t)), "\n    ", "\n") // bodies of functions
	guide := string(testkit.Must(os.ReadFile("../reference/pages/guides/python-client.html"))(t))
	shown := pythonCode.FindAllStringSubmatch(guide, -1)
	if len(shown) < 5 {
		t.Errorf("the guide shows %d pieces of code", len(shown))
	}
	for _, m := range shown {
		if code := "\n" + html.UnescapeString(m[1]) + "\n"; !strings.Contains(samples, code) {
			t.Errorf("no sample has\n%s", code)
		}
	}
}

// TestThePythonTypesAreCurrent: they are what the generator makes of the API's description.
func TestThePythonTypesAreCurrent(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	document := testkit.Must(openapi.Document(openapi.Info{BaseURL: "https://api.example.com", DocsURL: "https://docs.example.com"}))(t)
	file := filepath.Join(dir, "openapi.json")
	if err := os.WriteFile(file, document, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := python(t.Context(), nil, nil, "generate.py", file, dir); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"types.py", "_lists.py"} {
		made := testkit.Must(os.ReadFile(filepath.Join(dir, name)))(t)
		kept := testkit.Must(os.ReadFile("python/ledgerfeed/" + name))(t)
		if !bytes.Equal(made, kept) {
			t.Errorf("%s is not current: run go generate ./readapi/client and commit what it changes", name)
		}
	}
}
