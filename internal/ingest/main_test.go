package ingest_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/internal/ingest"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit/natscluster"
	"github.com/ledgerfeed/ledgerfeed/migrations"
)

func TestMain(m *testing.M) {
	if natscluster.Serve() {
		os.Exit(0)
	}
	if text, is := os.LookupEnv(ingestVariable); is {
		ingestUntilKilled(text)
	}
	testkit.Main(m, migrations.Up)
}

// ingestVariable tells a child process the addresses of an outbox and of a log, with a space between.
const ingestVariable = "LEDGERFEED_TEST_INGEST"

// ingestUntilKilled ingests in a process of its own.
func ingestUntilKilled(text string) {
	ctx := context.Background()
	from, into, _ := strings.Cut(text, " ")
	target, err := ingest.ParseTarget(from)
	var (
		source ingest.Source
		pool   *pgxpool.Pool
		log    *eventlog.Log
		i      *ingest.Ingest
	)
	if err == nil {
		source, err = ingest.OpenOutbox(ctx, target, testkit.Discard())
	}
	if err == nil {
		pool, err = pgxpool.New(ctx, into)
	}
	if err == nil {
		log, err = eventlog.New(eventlog.Config{Pool: pool, Clock: time.Now})
	}
	if err == nil {
		i, err = ingest.New(ingest.Config{Source: source, CreateWorkspaces: true, Log: log, Logger: testkit.Discard(), Clock: time.Now})
	}
	if err == nil {
		err = i.Run(ctx)
	}
	panic(err)
}

// installation is a log that is ingested into.
type installation struct {
	t       *testing.T
	url     string // of its database
	pool    testkit.DB
	log     *eventlog.Log
	logged  *testkit.Buffer
	metrics *prometheus.Registry
	rules   ingest.Rules // of its sources
	refuses bool         // workspaces that do not exist
	force   bool         // retry outdated letters
	each    int          // how many letters are retried at a time; 0: all of a page
}

func install(t *testing.T) *installation {
	t.Helper()
	url := testkit.NewDatabase(t)
	cfg := testkit.Must(pgxpool.ParseConfig(url))(t)
	cfg.MaxConns = 12
	pool := testkit.Must(pgxpool.NewWithConfig(context.Background(), cfg))(t)
	t.Cleanup(pool.Close)
	return &installation{
		t: t, url: url, pool: pool, logged: &testkit.Buffer{}, metrics: prometheus.NewRegistry(),
		log: testkit.Must(eventlog.New(eventlog.Config{Pool: pool, Clock: time.Now}))(t),
	}
}

// start ingests from a source until the test, or what it returns, ends it.
func (n *installation) start(source ingest.Source, register prometheus.Registerer) (i *ingest.Ingest, stop func()) {
	n.t.Helper()
	i = testkit.Must(ingest.New(ingest.Config{Source: source, Rules: n.rules, CreateWorkspaces: !n.refuses, Log: n.log, Logger: n.logged.Logger(), Clock: time.Now, Metrics: register}))(n.t)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- i.Run(ctx) }()
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-ended; err != nil {
			n.t.Error(err)
		}
	}
	n.t.Cleanup(stop)
	return i, stop
}

// eventuallyHolds waits until a workspace holds entries with these ids, in this order, and
// no others.
func (n *installation) eventuallyHolds(workspaceID string, want []string) {
	n.t.Helper()
	testkit.Eventually(n.t, func() error {
		var got int
		err := n.pool.QueryRow(n.t.Context(), `SELECT count(*) FROM event_log WHERE workspace_id = $1`, workspaceID).Scan(&got)
		if err == nil && got < len(want) {
			err = fmt.Errorf("%s has %d entries, want %d; logged:\n%s", workspaceID, got, len(want), n.logged)
		}
		return err
	})
	entries := testkit.Must(n.log.Read(n.t.Context(), workspaceID, 0, len(want)+1))(n.t)
	for i := range entries {
		if i >= len(want) || entries[i].ID != want[i] {
			n.t.Fatalf("%s: position %d is %s, want %v", workspaceID, i+1, entries[i].ID, want[min(i, len(want)-1)])
		}
	}
}

// line is an entry as a producer writes it.
func line(workspaceID, id string) string {
	return fmt.Sprintf(`{"workspace_id":%q,"id":%q,"type":"invoice.sent","data":{"invoice_id":%q,"client_id":"c"}}`, workspaceID, id, "i-"+id)
}

// chains are the chain values of a workspace's log.
func chains(t *testing.T, l *eventlog.Log, workspaceID string) (list []string) {
	t.Helper()
	err := l.Walk(t.Context(), workspaceID, 0, func(e *domain.Entry) error {
		list = append(list, fmt.Sprintf("%x", e.Chain))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}
