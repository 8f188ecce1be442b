package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ledgerfeed/ledgerfeed/internal/cli"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

const fixture = "../../domain/testdata/agency.ndjson"

func TestAppendCountsAndCanBeRunAgain(t *testing.T) {
	t.Parallel()
	url := testkit.NewDatabase(t)
	lines := strings.Count(read(t, fixture), "\n")
	positions := func() string {
		chained, list := succeed(t, url, "export", "--chain"), []string{}
		for _, w := range []string{"agency-0", "agency-1"} {
			list = append(list, fmt.Sprintf("%q:%d", w, countEntries(t, chained, w)))
		}
		return strings.Join(list, ",")
	}
	got := succeed(t, url, "append", "--json", fixture)
	if want := fmt.Sprintf(`{"appended":%d,"skipped":0,"positions":{%s}}`+"\n", lines, positions()); got != want {
		t.Fatalf("first run: %s, want %s", got, want)
	}
	got = succeed(t, url, "append", "--json", fixture)
	if want := fmt.Sprintf(`{"appended":0,"skipped":%d,"positions":{%s}}`+"\n", lines, positions()); got != want {
		t.Fatalf("second run: %s, want %s", got, want)
	}
	// From standard input, as from a file.
	c := command(t, url, "append")
	c.Stdin = strings.NewReader(read(t, fixture))
	if r := runCommand(t, c); r.code != cli.ExitDone || r.out != fmt.Sprintf("appended 0, skipped %d\n", lines) {
		t.Fatalf("from standard input: %+v", r)
	}
}

func TestAppendChecksEveryLineFirst(t *testing.T) {
	t.Parallel()
	url := testkit.NewDatabase(t)
	var text strings.Builder
	text.WriteString(`{"workspace_id":"w","type":"client.recorded","data":{"client_id":"c","name":"n"}}` + "\n\n")
	for range 25 {
		text.WriteString(`{"workspace_id":"w","type":"client.recorded","data":{"client_id":"no good","name":"n"}}` + "\n")
	}
	name := filepath.Join(t.TempDir(), "bad.ndjson")
	write(t, name, text.String())
	r := runCommand(t, command(t, url, "append", name))
	if r.code != cli.ExitFailed || r.out != "" {
		t.Fatalf("%+v", r)
	}
	if n := strings.Count(r.errOut, "data.client_id"); n != 20 {
		t.Errorf("%d bad lines reported, want 20:\n%s", n, r.errOut)
	}
	if !strings.Contains(r.errOut, name+", line 3: data.client_id") {
		t.Errorf("the place is not named:\n%s", r.errOut)
	}
	if !strings.Contains(r.errOut, "25 lines have a wrong form") {
		t.Errorf("the whole is not counted:\n%s", r.errOut)
	}
	if out := succeed(t, url, "export"); out != "" {
		t.Errorf("something was appended: %s", out)
	}
}

func TestAppendStopsAtTheFirstRefusedLine(t *testing.T) {
	t.Parallel()
	url := testkit.NewDatabase(t)
	line := func(id, name, at string) string {
		return fmt.Sprintf(`{"workspace_id":"w","id":%q,"type":"client.recorded","created_at":%q,"data":{"client_id":"c","name":%q}}`+"\n", id, at, name)
	}
	file := filepath.Join(t.TempDir(), "stream.ndjson")
	write(t, file, line("a", "one", "2026-01-01T00:00:00Z")+
		line("b", "two", "2026-01-02T00:00:00Z")+
		line("a", "other", "2026-01-03T00:00:00Z")+
		line("d", "four", "2026-01-04T00:00:00Z"))
	r := runCommand(t, command(t, url, "append", "--json", file))
	if r.code != cli.ExitFailed || r.out != `{"appended":2,"skipped":0,"positions":{"w":2}}`+"\n" {
		t.Fatalf("%+v", r)
	}
	if !strings.Contains(r.errOut, "line 3: entry a refused: the workspace holds this id with other content") {
		t.Errorf("the line and the reason are not named:\n%s", r.errOut)
	}
	write(t, file, line("c", "early", "2025-01-01T00:00:00Z"))
	r = runCommand(t, command(t, url, "append", file))
	if r.code != cli.ExitFailed || !strings.Contains(r.errOut, "line 1") || !strings.Contains(r.errOut, "before the workspace's newest entry") {
		t.Fatalf("%+v", r)
	}
	write(t, file, `{"workspace_id":"w","type":"client.recorded","created_at":"2025-01-01T00:00:00Z","data":{"client_id":"c","name":"n"}}`+"\n")
	r = runCommand(t, command(t, url, "append", file))
	if r.code != cli.ExitFailed || !strings.Contains(r.errOut, "line 1: entry refused: created_at is before the workspace's newest entry") {
		t.Fatalf("the refusal of an entry without an id names one: %+v", r)
	}
}

func TestALineThatIsTooLong(t *testing.T) {
	t.Parallel()
	url := testkit.NewDatabase(t)
	file := filepath.Join(t.TempDir(), "long.ndjson")
	good := `{"workspace_id":"w","type":"client.recorded","data":{"client_id":"c","name":"n"}}` + "\n"
	write(t, file, good+strings.Repeat("x", 1<<20)+"\n"+good+"{}\n")
	r := runCommand(t, command(t, url, "append", file))
	if r.code != cli.ExitFailed || !strings.Contains(r.errOut, "line 2: the entry is longer than 65536 bytes") || !strings.Contains(r.errOut, "line 4:") {
		t.Fatalf("%+v", r)
	}
}

// An export that is appended elsewhere gives the same log, byte by byte.
func TestExportAndAppendMakeTheSameLog(t *testing.T) {
	t.Parallel()
	here, there := testkit.NewDatabase(t), testkit.NewDatabase(t)
	succeed(t, here, "append", fixture)
	file := filepath.Join(t.TempDir(), "export.ndjson")
	write(t, file, succeed(t, here, "export"))
	succeed(t, there, "append", file)
	want, got := succeed(t, here, "export", "--chain"), succeed(t, there, "export", "--chain")
	if got != want {
		t.Error("the chains differ")
	}
	if n := strings.Count(succeed(t, here, "export", "--workspace", "agency-0", "--from", "11"), "\n"); n != countEntries(t, want, "agency-0")-10 {
		t.Errorf("%d entries from position 11", n)
	}
}

func countEntries(t *testing.T, chained, workspaceID string) (n int) {
	t.Helper()
	for line := range strings.Lines(chained) {
		var e struct {
			WorkspaceID string          `json:"workspace_id"`
			Position    int             `json:"position"`
			Chain       string          `json:"chain"`
			Data        json.RawMessage `json:"data"`
		}
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatal(err)
		}
		if e.WorkspaceID != workspaceID {
			continue
		}
		if n++; e.Position != n || len(e.Chain) != 64 {
			t.Fatalf("line %s: want position %d and a chain of 64 digits", line, n)
		}
	}
	return n
}

// With --follow, the export writes what is appended later, too, also in new
// workspaces.
func TestExportFollows(t *testing.T) {
	t.Parallel()
	url := testkit.NewDatabase(t)
	p := startProcess(t, command(t, url, "export", "--follow"))
	for _, w := range []string{"first", "second"} {
		c := command(t, url, "append")
		c.Stdin = strings.NewReader(`{"workspace_id":"` + w + `","id":"x","type":"client.recorded","data":{"client_id":"c","name":"n"}}`)
		if r := runCommand(t, c); r.code != cli.ExitDone {
			t.Fatalf("%+v", r)
		}
		p.await(`{"workspace_id":"` + w + `"`)
	}
	if code := p.stop(); code != cli.ExitDone {
		t.Errorf("interrupted, it ended with %d:\n%s", code, p.log)
	}
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
