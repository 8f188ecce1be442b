package projections_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
	"github.com/ledgerfeed/ledgerfeed/migrations"
	"github.com/ledgerfeed/ledgerfeed/projections"
	"github.com/ledgerfeed/ledgerfeed/projections/projectionstest"
)

// mortal makes this test program a projector of the database at the URL, which
// ends at once when it is to fold an entry with the id deadly.
const mortal = "LEDGERFEED_TEST_MORTAL"

func TestMain(m *testing.M) {
	if url := os.Getenv(mortal); url != "" {
		projectUntilDeath(url)
		return
	}
	testkit.MainAs(m, migrations.Up, migrations.ApplyGrants, testkit.Waits)
}

func projectUntilDeath(url string) {
	ctx := context.Background()
	pool, err := pg.Open(ctx, url, pg.Options{MaxConns: projections.Connections, Settings: projections.PoolSettings()})
	if err != nil {
		panic(err)
	}
	rules := projections.LiveRules()
	live := rules.Apply
	rules.Apply = func(s *domain.State, e *domain.Entry) {
		if e.ID == "deadly" {
			os.Exit(9)
		}
		live(s, e)
	}
	runner, err := projections.NewRunner(projections.RunnerConfig{
		Pool: pool, Notifier: eventlog.NewNotifier(pool, testkit.Discard()), Clock: time.Now, Logger: testkit.Discard(),
		Rules: rules, Sweep: 10 * time.Millisecond,
	})
	if err != nil {
		panic(err)
	}
	if err := runner.Run(ctx); err != nil {
		panic(err)
	}
}

// TestAnEntryThatEndsTheProcess: after a few deaths the entry is quarantined, and
// nothing else is, whatever was under way beside it. A process that starts then
// lives. The entry is tried again only when an operator says so.
func TestAnEntryThatEndsTheProcess(t *testing.T) {
	t.Parallel()
	b := projectionstest.New(t)
	for _, w := range []string{"a", "b", "c", "d", "e", "f"} {
		b.Append(timeEntries(t, w, 20))
	}
	drafts := timeEntries(t, "bad", 20)
	drafts[7].ID = "deadly"
	b.Append(drafts)
	single := timeEntries(t, "worse", 1)
	single[0].ID = "deadly"
	b.Append(single)

	dieUntilAlive(t, b)
	for _, w := range []string{"bad", "worse"} {
		var deaths int
		if err := b.Pool.QueryRow(t.Context(), `SELECT deaths FROM log_under_way WHERE workspace_id = $1 AND consumer = $2`, w, eventlog.ReadModels).Scan(&deaths); err != nil || deaths != 3 {
			t.Errorf("%d processes died of the entry of %s, want 3 (%v)", deaths, w, err)
		}
	}
	status := testkit.Must(projections.ReadStatus(t.Context(), b.Pool, ""))(t)
	for _, w := range status.Workspaces {
		want := map[string]int64{"bad": 13, "worse": 1}[w.WorkspaceID]
		if w.LagEntries != want || w.Quarantined != (want > 0) {
			t.Errorf("%s: %+v", w.WorkspaceID, w)
		}
		if want > 0 && (w.Error == nil || !strings.Contains(*w.Error, "the process ended 3 times")) {
			t.Errorf("%s does not say why: %+v", w.WorkspaceID, w)
		}
	}
	// With a program that can handle it, it takes an operator.
	if err := b.Quarantine().Retry(t.Context(), "bad"); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Quarantine().Skip(t.Context(), "worse", "it ends the program"); err != nil {
		t.Fatal(err)
	}
	b.Project(1000)
	status = testkit.Must(projections.ReadStatus(t.Context(), b.Pool, ""))(t)
	if status.Quarantined > 0 || status.LagEntries > 0 {
		t.Errorf("afterwards: %+v", status)
	}
}

// dieUntilAlive starts processes until one has projected all that can be.
func dieUntilAlive(t *testing.T, b *projectionstest.Bench) {
	t.Helper()
	for range 30 {
		child := testkit.Child(mortal + "=" + b.URL)
		if err := child.Start(); err != nil {
			t.Fatal(err)
		}
		died := make(chan struct{})
		go func() {
			_ = child.Wait()
			close(died)
		}()
		if waitFor(t, b, died) {
			if err := child.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			<-died
			return
		}
	}
	t.Fatal("processes die without end")
}

// waitFor reports whether every workspace is projected or quarantined before the
// process ends.
func waitFor(t *testing.T, b *projectionstest.Bench, died <-chan struct{}) (settled bool) {
	t.Helper()
	testkit.Eventually(t, func() error {
		select {
		case <-died:
			return nil
		default:
		}
		for _, w := range testkit.Must(projections.ReadStatus(t.Context(), b.Pool, ""))(t).Workspaces {
			if w.LagEntries > 0 && !w.Quarantined {
				return fmt.Errorf("%s is neither projected nor quarantined, and the process lives", w.WorkspaceID)
			}
		}
		settled = true
		return nil
	})
	return settled
}

// TestKilledProcessesQuarantineNothing: operators kill processes too. Work that was
// under way then is done by the next process.
func TestKilledProcessesQuarantineNothing(t *testing.T) {
	t.Parallel()
	b := projectionstest.New(t)
	for _, w := range []string{"a", "b", "c"} {
		b.Append(timeEntries(t, w, 5))
	}
	for range 2 {
		if _, err := b.Pool.Exec(t.Context(), `
			INSERT INTO log_under_way AS u (workspace_id, consumer, position, through, process, server_started, under_way, deaths, suspect_to)
			SELECT workspace_id, consumer, position, position + 5, 'killed', pg_postmaster_start_time(), true, 0, 0 FROM log_checkpoint
			    ON CONFLICT (workspace_id, consumer) DO UPDATE SET deaths = u.deaths + 1`); err != nil {
			t.Fatal(err)
		}
	}
	b.Project(1000)
	b.EqualsFold()
	var left int
	if err := b.Pool.QueryRow(t.Context(), `
		SELECT count(*) FROM log_under_way u JOIN log_checkpoint c USING (workspace_id, consumer) WHERE u.suspect_to > c.position OR u.deaths > 0 AND u.position = c.position`).Scan(&left); err != nil {
		t.Fatal(err)
	}
	if left > 0 {
		t.Errorf("%d workspaces are still suspected", left)
	}
}
