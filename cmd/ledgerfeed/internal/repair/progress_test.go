package repair

import (
	"bytes"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ledgerfeed/ledgerfeed/internal/cli"
	"github.com/ledgerfeed/ledgerfeed/projections/replay"
)

// Without a terminal there is a line every few seconds, and none after the end.
func TestReplayProgressInLines(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var (
			out      bytes.Buffer
			progress replay.Progress
		)
		progress.Entries.Store(1_000_000)
		progress.EntriesDone.Store(250_000)
		progress.Workspaces.Store(4)
		progress.WorkspacesDone.Store(1)
		stop := showProgress(&out, "verify", &progress)
		<-time.After(2*cli.ProgressEvery + cli.ProgressEvery/2) // of the test's own time
		stop()
		<-time.After(2 * cli.ProgressEvery)
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		if len(lines) != 2 {
			t.Fatalf("%d lines:\n%s", len(lines), out.String())
		}
		if want := "verify: 250,000 of 1,000,000 entries, 50,000/s, 15s left, 1 of 4 workspaces, "; !strings.HasPrefix(lines[0], want) || !strings.HasSuffix(lines[0], " MiB") {
			t.Errorf("the line is %q, want %q and the memory", lines[0], want)
		}
	})
}

// On a terminal of 80 columns there is a bar with the count, the rate below it,
// and nothing of it is left at the end.
func TestReplayProgressAsABar(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var (
			out         bytes.Buffer
			progress    replay.Progress
			done, ended = make(chan struct{}), make(chan struct{})
		)
		progress.Entries.Store(10_000_000)
		progress.EntriesDone.Store(2_500_000)
		go func() {
			defer close(ended)
			showBar(&out, "rebuild", &progress, time.Now(), done)
		}()
		<-time.After(2*time.Second + barEvery/2) // of the test's own time
		close(done)
		<-ended
		text := out.String()
		if !strings.Contains(text, "rebuild  [======>") || !strings.Contains(text, "2,500,000 of 10,000,000 entries") {
			t.Errorf("no bar with the count:\n%s", text)
		}
		if !strings.Contains(text, "1,666,666/s, 4s left, 0 of 0 workspaces, ") {
			t.Errorf("no rate:\n%s", text)
		}
		for line := range strings.Lines(text) {
			if n := len([]rune(strings.TrimSpace(line))); n > 80 {
				t.Errorf("%d columns: %q", n, line)
			}
		}
	})
}

func TestReplayLineNamesWhatWasFound(t *testing.T) {
	t.Parallel()
	var progress replay.Progress
	if line := progressLine(&progress, 0); !strings.Contains(line, ", ? left, ") {
		t.Errorf("before anything is done: %s", line)
	}
	progress.Differences.Store(1234)
	progress.RowsWritten.Store(56)
	if line := progressLine(&progress, time.Second); !strings.HasSuffix(line, ", 1,234 differences, 56 rows written") {
		t.Errorf("with differences: %s", line)
	}
	progress.LargestRows.Store(1_000_000)
	if line := costLine(&progress); !strings.HasPrefix(line, "the largest workspace has 1,000,000 rows; memory ") || !strings.HasSuffix(line, " MiB") {
		t.Errorf("at the end: %s", line)
	}
	progress.OverMemory.Store(2)
	if line := costLine(&progress); !strings.HasSuffix(line, " MiB; 2 are larger than --memory by estimate, folded into temporary tables") {
		t.Errorf("at the end, with large workspaces: %s", line)
	}
}
