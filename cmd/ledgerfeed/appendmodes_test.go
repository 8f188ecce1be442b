package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/internal/cli"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

// noID is a line without an id.
func noID(w string, n int) string {
	return fmt.Sprintf(`{"workspace_id":%q,"type":"client.recorded","data":{"client_id":"c","name":"%d"}}`+"\n", w, n)
}

// TestAppendAgainWithoutIDs: the error of a failed run names the file of ids with
// which the second run appends nothing twice.
func TestAppendAgainWithoutIDs(t *testing.T) {
	t.Parallel()
	url := testkit.NewDatabase(t)
	var text strings.Builder
	for i := range 1200 {
		text.WriteString(noID("w", i))
	}
	file := filepath.Join(t.TempDir(), "in.ndjson")
	stopper := `{"workspace_id":"w","id":"x","type":"client.recorded","created_at":"2020-01-01T00:00:00Z","data":{"client_id":"c","name":"n"}}` + "\n"
	write(t, file, text.String()+stopper+noID("w", -1))
	r := runCommand(t, command(t, url, "append", file))
	if r.code != cli.ExitFailed || !strings.Contains(r.out, "appended 1200, skipped 0") || !strings.Contains(r.errOut, "line 1201") {
		t.Fatalf("%+v", r)
	}
	found := regexp.MustCompile(`--ids (\S+),`).FindStringSubmatch(r.errOut)
	if found == nil {
		t.Fatalf("the error names no file of ids: %s", r.errOut)
	}
	t.Cleanup(func() { _ = os.Remove(found[1]) })
	// The second run gets as far, and the third, without the wrong line, to the end.
	again := runCommand(t, command(t, url, "append", "--ids", found[1], file))
	if again.code != cli.ExitFailed || !strings.Contains(again.out, "appended 0, skipped 1200") || !strings.Contains(again.errOut, "--ids "+found[1]) {
		t.Fatalf("%+v", again)
	}
	write(t, file, text.String()+noID("w", -1))
	if out := succeed(t, url, "append", "--ids", found[1], file); out != "appended 1, skipped 1200\n" {
		t.Fatalf("third run: %s", out)
	}
	if out := succeed(t, url, "append", "--ids", found[1], file); out != "appended 0, skipped 1201\n" {
		t.Fatalf("fourth run: %s", out)
	}
	// Ids of other lines are not given to these.
	write(t, file, noID("w", 1)+noID("w", 0))
	if r := runCommand(t, command(t, url, "append", "--ids", found[1], file)); r.code != cli.ExitFailed || !strings.Contains(r.errOut, "line 1: this is not the line that") {
		t.Errorf("with other lines: %+v", r)
	}
	write(t, found[1], "nonsense\n")
	if r := runCommand(t, command(t, url, "append", "--ids", found[1], file)); r.code != cli.ExitFailed || !strings.Contains(r.errOut, "is not a file that --ids wrote") {
		t.Errorf("with another file: %+v", r)
	}
}

// TestAppendKilledWithoutIDs: the ids are on the disk before the log has them.
func TestAppendKilledWithoutIDs(t *testing.T) {
	t.Parallel()
	url := testkit.NewDatabase(t)
	ids, file := filepath.Join(t.TempDir(), "ids.txt"), filepath.Join(t.TempDir(), "in.ndjson")
	const lines = 20_000
	var text strings.Builder
	for i := range lines {
		text.WriteString(noID(fmt.Sprint("w", i%3), i))
	}
	write(t, file, text.String())
	for range 3 {
		p := startProcess(t, command(t, url, "append", "--ids", ids, file))
		testkit.Eventually(t, func() error {
			s, err := os.Stat(ids)
			if err == nil && s.Size() == 0 {
				err = errors.New("no ids yet")
			}
			return err
		})
		p.kill()
	}
	succeed(t, url, "append", "--ids", ids, file)
	if n := strings.Count(succeed(t, url, "export"), "\n"); n != lines {
		t.Errorf("%d entries, want %d", n, lines)
	}
}

// TestAppendLeavesNoFileOfIDs: a run that succeeds, or has no line without an id,
// leaves none and offers none.
func TestAppendLeavesNoFileOfIDs(t *testing.T) {
	t.Parallel()
	url, dir := testkit.NewDatabase(t), t.TempDir()
	file := filepath.Join(dir, "in.ndjson")
	write(t, file, noID("w", 1))
	c := command(t, url, "append", file)
	c.Env = append(c.Env, "TMPDIR="+dir)
	if r := runCommand(t, c); r.code != cli.ExitDone {
		t.Fatalf("%+v", r)
	}
	write(t, file, `{"workspace_id":"w","id":"x","type":"client.recorded","created_at":"2020-01-01T00:00:00Z","data":{"client_id":"c","name":"n"}}`)
	c = command(t, url, "append", file)
	c.Env = append(c.Env, "TMPDIR="+dir)
	if r := runCommand(t, c); r.code != cli.ExitFailed || strings.Contains(r.errOut, "--ids") || !strings.Contains(r.errOut, "can be run again") {
		t.Fatalf("%+v", r)
	}
	if left, err := filepath.Glob(filepath.Join(dir, "ledgerfeed-ids-*")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// TestAppendFindsTimesAheadFirst: before anything is appended.
func TestAppendFindsTimesAheadFirst(t *testing.T) {
	t.Parallel()
	url := testkit.NewDatabase(t)
	file := filepath.Join(t.TempDir(), "in.ndjson")
	ahead := time.Now().Add(time.Hour).UTC().Format(time.RFC3339)
	write(t, file, noID("w", 1)+fmt.Sprintf(`{"workspace_id":"w","id":"x","type":"client.recorded","created_at":%q,"data":{"client_id":"c","name":"n"}}`, ahead))
	r := runCommand(t, command(t, url, "append", file))
	if r.code != cli.ExitFailed || !strings.Contains(r.errOut, "line 2: entry x refused: created_at is more than 5 minutes ahead of now") || !strings.Contains(r.errOut, "nothing was appended") {
		t.Fatalf("%+v", r)
	}
	if out := succeed(t, url, "export"); out != "" {
		t.Errorf("appended: %s", out)
	}
}

// TestAppendRestores: an export with times ahead of now, into an empty workspace and
// into one that holds its beginning, but into no other.
func TestAppendRestores(t *testing.T) {
	t.Parallel()
	url, file := testkit.NewDatabase(t), filepath.Join(t.TempDir(), "export.ndjson")
	var text strings.Builder
	for i := range 1100 {
		fmt.Fprintf(&text, `{"workspace_id":"w%d","id":"e%d","type":"client.recorded","created_at":%q,"data":{"client_id":"c","name":"%d"},"salt":"AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8"}`+"\n",
			i%2, i, time.Now().Add(time.Duration(i)*time.Hour).UTC().Format("2006-01-02T15:04:05.000Z"), i)
	}
	export := text.String()
	write(t, file, export)
	if r := runCommand(t, command(t, url, "append", file)); r.code != cli.ExitFailed || !strings.Contains(r.errOut, "ahead of now") {
		t.Fatalf("without --restore: %+v", r)
	}
	lines := strings.SplitAfter(export, "\n")
	write(t, file, strings.Join(lines[:700], ""))
	if out := succeed(t, url, "append", "--restore", file); out != "appended 700, skipped 0\n" {
		t.Fatal(out)
	}
	write(t, file, export)
	if out := succeed(t, url, "append", "--restore", "--json", file); out != `{"appended":400,"skipped":700,"positions":{"w0":550,"w1":550}}`+"\n" {
		t.Fatal(out)
	}
	for _, w := range []string{"w0", "w1"} {
		for line := range strings.Lines(succeed(t, url, "export", "--workspace", w)) {
			if !strings.Contains(export, line) {
				t.Fatalf("not in the export: %s", line)
			}
		}
	}
	other := testkit.NewDatabase(t)
	c := command(t, other, "append")
	c.Stdin = strings.NewReader(strings.ReplaceAll(lines[1], `"e1"`, `"other"`))
	c.Args = append(c.Args, "--restore")
	if r := runCommand(t, c); r.code != cli.ExitDone {
		t.Fatalf("%+v", r)
	}
	if r := runCommand(t, command(t, other, "append", "--restore", file)); r.code != cli.ExitFailed || !strings.Contains(r.errOut, "workspace w1") {
		t.Errorf("into a workspace with other entries: %+v", r)
	}
	write(t, file, noID("w", 1))
	if r := runCommand(t, command(t, other, "append", "--restore", file)); r.code != cli.ExitFailed || !strings.Contains(r.errOut, "--restore takes an export") {
		t.Errorf("a line that no export has: %+v", r)
	}
}

// TestAppendStreams: each line is answered when it is committed, before the next one
// comes; the first wrong one ends it, after those before were answered.
func TestAppendStreams(t *testing.T) {
	t.Parallel()
	url := testkit.NewDatabase(t)
	c := command(t, url, "append", "--stream")
	in := testkit.Must(c.StdinPipe())(t)
	p := startProcess(t, c)
	for i := range 3 {
		fmt.Fprintf(in, `{"workspace_id":"w","id":"e%d","type":"client.recorded","data":{"client_id":"c","name":"n"}}`+"\n", i)
		p.await(fmt.Sprintf(`{"id":"e%d","position":%d}`, i, i+1))
	}
	fmt.Fprint(in, noID("x", 1))
	p.await(`{"id":"evt_`)
	if err := in.Close(); err != nil {
		t.Fatal(err)
	}
	if code := p.wait(); code != cli.ExitDone {
		t.Errorf("it ended with %d:\n%s", code, p.log)
	}
	c = command(t, url, "append", "--stream")
	c.Stdin = strings.NewReader(noID("y", 1) + noID("y", 2) + "{}\n" + noID("y", 3))
	r := runCommand(t, c)
	if r.code != cli.ExitFailed || strings.Count(r.out, `"position":`) != 2 || !strings.Contains(r.errOut, "line 3") || !strings.Contains(r.errOut, "appended 2, skipped 0") {
		t.Errorf("%+v", r)
	}
	c = command(t, url, "append", "--stream", "--ids", "x")
	if r := runCommand(t, c); r.code != cli.ExitUsage {
		t.Errorf("%+v", r)
	}
}

// TestLivingCopy: export --follow into append --stream copies a living log.
func TestLivingCopy(t *testing.T) {
	t.Parallel()
	here, there := testkit.NewDatabase(t), testkit.NewDatabase(t)
	from, to := command(t, here, "export", "--follow"), command(t, there, "append", "--stream")
	read, feed, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	from.Stdout, to.Stdin = feed, read
	if err := from.Start(); err != nil {
		t.Fatal(err)
	}
	_ = feed.Close()
	p := startProcess(t, to)
	_ = read.Close()
	for _, f := range chunks(t, 2, 3) {
		succeed(t, here, "append", f)
		want := succeed(t, here, "export", "--chain")
		testkit.Eventually(t, func() error {
			if got := succeed(t, there, "export", "--chain"); got != want {
				return fmt.Errorf("%d bytes of %d are there", len(got), len(want))
			}
			return nil
		})
	}
	_ = from.Process.Signal(os.Interrupt)
	_ = from.Wait()
	if code := p.wait(); code != cli.ExitDone {
		t.Errorf("it ended with %d:\n%s", code, p.log)
	}
}

// TestAppendOfUnknownOutcomeBeforeARefusedLine: when the lines before a refused one are
// appended and the connection breaks, the log may have them, so the ids that they were
// given are needed for the next run.
func TestAppendOfUnknownOutcomeBeforeARefusedLine(t *testing.T) {
	t.Parallel()
	url := testkit.NewDatabase(t)
	succeed(t, url, "workspace", "create", "--id", "w", "--name", "W")
	db := testkit.Must(pgx.Connect(t.Context(), url))(t)
	defer func() { _ = db.Close(context.WithoutCancel(t.Context())) }()
	const breakAtCommit = `
		CREATE FUNCTION break_off() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_terminate_backend(pg_backend_pid()); RETURN NULL; END $$;
		CREATE CONSTRAINT TRIGGER break_off AFTER INSERT ON event_log DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION break_off()`
	if _, err := db.Exec(t.Context(), breakAtCommit); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "in.ndjson")
	refused := `{"workspace_id":"w","id":"x","type":"client.recorded","created_at":"2020-01-01T00:00:00Z","data":{"client_id":"c","name":"n"}}` + "\n"
	write(t, file, noID("w", 1)+noID("w", 2)+refused)
	r := runCommand(t, command(t, url, "append", file))
	if r.code != cli.ExitFailed || !strings.Contains(r.errOut, "may or may not have been appended") || !strings.Contains(r.errOut, "--ids ") {
		t.Errorf("%+v", r)
	}
}
