package ingest_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/ledgerfeed/ledgerfeed/internal/ingest"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
	"github.com/ledgerfeed/ledgerfeed/internal/relay"
	"github.com/ledgerfeed/ledgerfeed/internal/rowcheck"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit/natscluster"
	"github.com/ledgerfeed/ledgerfeed/projections"
	"github.com/ledgerfeed/ledgerfeed/projections/projectionstest"
	"github.com/ledgerfeed/ledgerfeed/projections/replay"
)

// region is an installation that projects.
type region struct {
	*projectionstest.Bench
	t    *testing.T
	pool testkit.DB // of what is not a projector
}

func newRegion(t *testing.T) *region {
	t.Helper()
	r := &region{Bench: projectionstest.New(t), t: t}
	r.pool = testkit.Must(pg.Open(t.Context(), r.URL, pg.Options{MaxConns: 16}))(t)
	t.Cleanup(r.pool.Close)
	projecting := testkit.Must(pg.Open(t.Context(), r.URL, pg.Options{MaxConns: projections.Connections, Settings: projections.PoolSettings()}))(t)
	t.Cleanup(projecting.Close)
	runner := testkit.Must(projections.NewRunner(projections.RunnerConfig{
		Pool:     projecting,
		Notifier: r.Notifier, Clock: time.Now, Logger: projectionstest.NoLog(),
	}))(t)
	r.run(runner.Run)
	return r
}

// run runs something until the test, or what it returns, ends it.
func (r *region) run(do func(context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- do(ctx) }()
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-ended; err != nil {
			r.t.Error(err)
		}
	}
	r.t.Cleanup(stop)
	return stop
}

func (r *region) relay(c *natscluster.Cluster) (stop func()) {
	r.t.Helper()
	publisher := testkit.Must(relay.OpenJetStream(c.URL()+"?replicas=3", relay.BrokerConfig{Name: "test", Logger: projectionstest.NoLog()}))(r.t)
	return r.run(testkit.Must(relay.New(relay.Config{
		Pool: r.pool, Notifier: r.Notifier, Publisher: publisher, Clock: time.Now, Logger: projectionstest.NoLog(), Name: "test", Form: relay.FormEntries,
		Sweep: 20 * time.Millisecond,
	}))(r.t).Run)
}

func (r *region) ingest(c *natscluster.Cluster, logged *testkit.Buffer, wrap func(ingest.Source) ingest.Source) (stop func()) {
	r.t.Helper()
	n := &installation{t: r.t, pool: r.pool, log: r.Log, logged: logged, rules: ingest.Rules{Relay: true}}
	_, stop = n.start(wrap(n.stream(c, "")), nil)
	return stop
}

// TestFollowerRegion relays the log of one installation to another, while servers of the
// broker are killed and processes of both sides end, and expects the same chains, the same
// rows, and nothing for verify to find.
func TestFollowerRegion(t *testing.T) {
	t.Parallel()
	home, away, c, logged := newRegion(t), newRegion(t), natscluster.Start(t, 3), &testkit.Buffer{}
	plain := func(s ingest.Source) ingest.Source { return s }
	stopRelay := home.relay(c)
	stopIngest := away.ingest(c, logged, func(s ingest.Source) ingest.Source { return crashing{s, new(int)} })
	away.ingest(c, logged, plain)
	workspaces := []string{"a", "b", "c"}
	for i, w := range workspaces {
		drafts := projectionstest.Generate(t, w, uint64(i), 900)
		home.Append(drafts[:400])
		switch i {
		case 0:
			c.Kill(0)
		case 1:
			c.Run(0)
			stopRelay()
			stopIngest()
			home.relay(c)
		}
		home.Append(drafts[400:])
	}
	for _, w := range workspaces {
		want := chains(t, home.Log, w)
		testkit.Eventually(t, func() error {
			if got := chains(t, away.Log, w); !slices.Equal(got, want) {
				return fmt.Errorf("%s: %d entries, or other ones, want %d; logged:\n%s", w, len(got), len(want), logged)
			}
			return nil
		})
	}
	for _, r := range []*region{home, away} {
		r.AwaitProjected()
		r.EqualsFold()
	}
	for _, w := range workspaces {
		at, there := testkit.Must(rowcheck.Stored(t.Context(), home.Pool, w))(t), testkit.Must(rowcheck.Stored(t.Context(), away.Pool, w))(t)
		if diff := rowcheck.Diff(there, at, 10); len(diff) > 0 {
			t.Errorf("%s: rows of the follower differ: %s", w, diff)
		}
	}
	away.verify()
}

// verify fails the test for what ledgerfeed verify would find.
func (r *region) verify() {
	r.t.Helper()
	pool := testkit.Must(pg.Open(r.t.Context(), r.URL, pg.Options{MaxConns: 6, Settings: replay.PoolSettings()}))(r.t)
	r.t.Cleanup(pool.Close)
	replayer := testkit.Must(replay.New(replay.Config{Pool: pool, Clock: time.Now}))(r.t)
	verified := 0
	err := replayer.Verify(r.t.Context(), replay.VerifyRequest{},
		func(d replay.Difference) { r.t.Errorf("verify finds: %s", d.String()) }, func(replay.Verification) { verified++ })
	if err != nil || verified != 3 {
		r.t.Errorf("%d workspaces were verified, error %v", verified, err)
	}
}

// TestFollowerWithEntriesOfItsOwn: a log that is not the beginning of the one that is
// relayed takes nothing of it, and others go on.
func TestFollowerWithEntriesOfItsOwn(t *testing.T) {
	t.Parallel()
	home, away, c, logged := newRegion(t), newRegion(t), natscluster.Start(t, 1), &testkit.Buffer{}
	_, js := c.Connect()
	for name, subject := range map[string]string{"LEDGERFEED": "ledgerfeed.>", "DEAD": "ledgerfeed_dead"} {
		testkit.Must(js.AddStream(&nats.StreamConfig{Name: name, Subjects: []string{subject}}))(t)
	}
	away.Append(projectionstest.Generate(t, "a", 7, 3))
	before := chains(t, away.Log, "a")
	for i, w := range []string{"a", "b"} {
		home.Append(projectionstest.Generate(t, w, uint64(i), 20))
	}
	publisher := testkit.Must(relay.OpenJetStream(c.URL(), relay.BrokerConfig{Name: "test", Logger: projectionstest.NoLog()}))(t)
	home.run(testkit.Must(relay.New(relay.Config{
		Pool: home.pool, Notifier: home.Notifier, Publisher: publisher, Clock: time.Now, Logger: projectionstest.NoLog(), Name: "test", Form: relay.FormEntries,
	}))(t).Run)
	away.ingest(c, logged, func(s ingest.Source) ingest.Source { return s })
	want := chains(t, home.Log, "b")
	testkit.Eventually(t, func() error {
		info, err := js.StreamInfo("DEAD")
		if err == nil && (info.State.Msgs != 20 || !slices.Equal(chains(t, away.Log, "b"), want)) {
			err = fmt.Errorf("%d dead letters; logged:\n%s", info.State.Msgs, logged)
		}
		return err
	})
	if got := chains(t, away.Log, "a"); !slices.Equal(got, before) {
		t.Errorf("the follower's own log changed: %d entries", len(got))
	}
	if !strings.Contains(logged.String(), "the chain at this position is another one") {
		t.Errorf("logged:\n%s", logged)
	}
}
