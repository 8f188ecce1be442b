// Package projectionstest gives the tests of projections and replay a database
// with a log that can be projected, and an independent check of the rows.
package projectionstest

import (
	"context"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
	"github.com/ledgerfeed/ledgerfeed/internal/rowcheck"
	"github.com/ledgerfeed/ledgerfeed/internal/scenario"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
	"github.com/ledgerfeed/ledgerfeed/projections"
)

// Bench is a database with a log, and what is needed to project it. Its methods
// fail the test instead of returning errors.
type Bench struct {
	t        testing.TB
	URL      string
	Pool     *pg.Pool // with projections.PoolSettings
	Log      *eventlog.Log
	Notifier *eventlog.Notifier
}

// New makes a Bench with an empty log.
func New(t testing.TB) *Bench {
	t.Helper()
	return at(t, testkit.NewDatabase(t))
}

// Filled makes a Bench whose database put has filled. Tests that use the same name share that work
// (testkit.FilledDatabase).
func Filled(t testing.TB, name string, put func(b *Bench)) *Bench {
	t.Helper()
	return at(t, testkit.FilledDatabase(t, name, func(url string) {
		b := at(t, url)
		put(b)
		b.Pool.Close()
	}))
}

func at(t testing.TB, url string) *Bench {
	t.Helper()
	b := &Bench{t: t, URL: url}
	pool, err := pg.Open(t.Context(), b.URL, pg.Options{MaxConns: projections.Connections + 2, Settings: projections.PoolSettings()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	b.Pool = pool
	b.Notifier = eventlog.NewNotifier(pool, NoLog())
	b.Log, err = eventlog.New(eventlog.Config{Pool: pool, Clock: time.Now, Notify: b.Notifier.Notify})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// NoLog discards what is logged.
func NoLog() *slog.Logger { return slog.New(slog.DiscardHandler) }

// Quarantine returns the quarantine of the read models.
func (b *Bench) Quarantine() *eventlog.Quarantine {
	return eventlog.NewQuarantine(b.Pool, eventlog.ReadModels, time.Now, b.Notifier.Notify)
}

// Append appends drafts in batches.
func (b *Bench) Append(drafts []domain.Draft) {
	b.t.Helper()
	for part := range slices.Chunk(drafts, 1000) {
		if _, err := b.Log.Append(b.t.Context(), part...); err != nil {
			b.t.Fatal(err)
		}
	}
}

// Project runs a Runner, with claims of up to so many entries, until everything appended is
// projected.
func (b *Bench) Project(entries int) {
	b.t.Helper()
	b.ProjectBy(entries, projections.LiveRules())
}

// ProjectBy is Project with other rules.
func (b *Bench) ProjectBy(entries int, rules projections.Rules) {
	b.t.Helper()
	runner, err := projections.NewRunner(projections.RunnerConfig{
		Pool: b.Pool, Notifier: b.Notifier, Clock: time.Now, Logger: NoLog(), Entries: entries, Rules: rules,
	})
	if err != nil {
		b.t.Fatal(err)
	}
	ctx, stop := context.WithCancel(b.t.Context())
	ended := make(chan error, 1)
	go func() { ended <- runner.Run(ctx) }()
	b.AwaitProjected()
	stop()
	if err := <-ended; err != nil {
		b.t.Fatal(err)
	}
}

// projectedTimeout is generous: under the race detector, alongside other tests, a change of
// hundreds of large rows takes a minute.
const projectedTimeout = 5 * time.Minute

// AwaitProjected waits until every workspace's read models have reached its head.
func (b *Bench) AwaitProjected() {
	b.t.Helper()
	waiter, done := b.Notifier.Subscribe(eventlog.TopicProjected)
	defer done()
	late, stop := context.WithTimeout(b.t.Context(), projectedTimeout)
	defer stop()
	for {
		status, err := projections.ReadStatus(b.t.Context(), b.Pool, "")
		if err != nil {
			b.t.Fatal(err)
		}
		if status.LagEntries == 0 {
			return
		}
		select {
		case <-waiter.C:
			waiter.Take()
		case <-late.Done():
			b.t.Fatalf("not projected within %v: %+v", projectedTimeout, status)
		}
	}
}

// EqualsFold fails the test for each difference between the read tables and a
// fold of the log.
func (b *Bench) EqualsFold() {
	b.t.Helper()
	workspaces, err := eventlog.NewWorkspaces(b.Pool, time.Now).IDs(b.t.Context())
	if err != nil {
		b.t.Fatal(err)
	}
	for _, w := range workspaces {
		stored, err := rowcheck.Stored(b.t.Context(), b.Pool, w)
		if err != nil {
			b.t.Fatal(err)
		}
		for _, line := range rowcheck.Diff(stored, rowcheck.Folded(b.fold(w)), 10) {
			b.t.Errorf("workspace %s: %s", w, line)
		}
	}
}

// fold folds a workspace's log in memory.
func (b *Bench) fold(workspaceID string) *domain.State {
	b.t.Helper()
	s := domain.NewState()
	err := b.Log.Walk(b.t.Context(), workspaceID, 0, func(e *domain.Entry) error {
		s.Apply(e)
		return nil
	})
	if err != nil {
		b.t.Fatal(err)
	}
	return s
}

// Generate makes the first n entries of a scenario.
func Generate(t testing.TB, workspaceID string, seed uint64, n int) []domain.Draft {
	t.Helper()
	end := time.Now().UTC().Truncate(24 * time.Hour)
	g := scenario.New(scenario.Config{WorkspaceID: workspaceID, Seed: seed, Start: end.AddDate(-1, 0, 0), End: end})
	var drafts []domain.Draft
	for len(drafts) < n {
		line, ok := g.Next()
		if !ok {
			t.Fatalf("the scenario ended after %d entries", len(drafts))
		}
		drafts = append(drafts, Draft(t, line.AppendNDJSON(nil)))
	}
	return drafts
}

// Draft reads a line of NDJSON.
func Draft(t testing.TB, line []byte) domain.Draft {
	t.Helper()
	d, err := domain.DecodeDraft(line)
	if err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	return d
}
