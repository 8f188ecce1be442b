package projections_test

import (
	"bufio"
	"context"
	"errors"
	"log/slog"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
	"github.com/ledgerfeed/ledgerfeed/internal/rowcheck"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
	"github.com/ledgerfeed/ledgerfeed/projections"
)

// bench is a database with a log, and what is needed to project it.
type bench struct {
	t        *testing.T
	url      string
	pool     *pgxpool.Pool
	log      *eventlog.Log
	notifier *eventlog.Notifier

	memory int64 // of a Replay; 0: the default
}

func newBench(t *testing.T) *bench {
	t.Helper()
	b := &bench{t: t, url: testkit.NewDatabase(t)}
	pool, err := pg.Open(t.Context(), b.url, pg.Options{MaxConns: 8, Settings: projections.PoolSettings()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	b.pool = pool
	b.notifier = eventlog.NewNotifier(pool, discard())
	b.log, err = eventlog.New(eventlog.Config{Pool: pool, Clock: time.Now, Notify: b.notifier.Notify})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// bothWays runs a test of replay with the folded rows in memory, and with them
// in fresh tables, because no workspace fits into the memory.
func bothWays(t *testing.T, test func(t *testing.T, memory int64)) {
	t.Helper()
	for name, memory := range map[string]int64{"in memory": 0, "in fresh tables": 1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, memory)
		})
	}
}

// within bounds the memory of replays.
func (b *bench) within(memory int64) *bench {
	b.memory = memory
	return b
}

func discard() *slog.Logger { return slog.New(slog.DiscardHandler) }

// append appends drafts in batches.
func (b *bench) append(drafts []domain.Draft) {
	b.t.Helper()
	for part := range slices.Chunk(drafts, 1000) {
		if _, err := b.log.Append(b.t.Context(), part...); err != nil {
			b.t.Fatal(err)
		}
	}
}

// project runs a Runner until everything appended is projected.
func (b *bench) project(entries int) {
	b.t.Helper()
	b.projectBy(entries, projections.LiveRules())
}

// projectBy is project by other rules.
func (b *bench) projectBy(entries int, rules projections.Rules) {
	b.t.Helper()
	runner, err := projections.NewRunner(projections.RunnerConfig{
		Pool: b.pool, Notifier: b.notifier, Clock: time.Now, Logger: discard(), Entries: entries, Rules: rules,
	})
	if err != nil {
		b.t.Fatal(err)
	}
	ctx, stop := context.WithCancel(b.t.Context())
	ended := make(chan error, 1)
	go func() { ended <- runner.Run(ctx) }()
	b.awaitProjected()
	stop()
	if err := <-ended; err != nil {
		b.t.Fatal(err)
	}
}

// until waits for what happens beside; failing says what did not.
func (b *bench) until(done func() bool, failing func() string) {
	b.t.Helper()
	testkit.Eventually(b.t, func() error {
		if !done() {
			return errors.New(failing())
		}
		return nil
	})
}

// awaitProjected waits until every workspace's read models stand at its head.
func (b *bench) awaitProjected() {
	b.t.Helper()
	waiter, done := b.notifier.Subscribe(eventlog.TopicProjected)
	defer done()
	late := time.After(time.Minute)
	for {
		status, err := projections.ReadStatus(b.t.Context(), b.pool, b.log, time.Now(), "")
		if err != nil {
			b.t.Fatal(err)
		}
		if status.LagEntries == 0 {
			return
		}
		select {
		case <-waiter.C:
			waiter.Take()
		case <-late:
			b.t.Fatalf("not projected within a minute: %+v", status)
		}
	}
}

// fold folds a workspace's log in memory.
func (b *bench) fold(workspaceID string) *domain.State {
	b.t.Helper()
	s := domain.NewState()
	err := b.log.Walk(b.t.Context(), workspaceID, 0, func(e *domain.Entry) error {
		s.Apply(e)
		return nil
	})
	if err != nil {
		b.t.Fatal(err)
	}
	return s
}

// equalsFold fails the test for each difference between the read tables and a
// fold of the log.
func (b *bench) equalsFold() {
	b.t.Helper()
	workspaces, err := b.log.WorkspaceIDs(b.t.Context())
	if err != nil {
		b.t.Fatal(err)
	}
	for _, w := range workspaces {
		stored, err := rowcheck.Stored(b.t.Context(), b.pool, w)
		if err != nil {
			b.t.Fatal(err)
		}
		for _, line := range rowcheck.Diff(stored, rowcheck.Folded(b.fold(w)), 10) {
			b.t.Errorf("workspace %s: %s", w, line)
		}
	}
}

// readDrafts reads NDJSON.
func readDrafts(t *testing.T, name string) []domain.Draft {
	t.Helper()
	file, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var drafts []domain.Draft
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		d, err := domain.DecodeDraft(lines.Bytes())
		if err != nil {
			t.Fatalf("%s: %v", lines.Bytes(), err)
		}
		drafts = append(drafts, d)
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return drafts
}
