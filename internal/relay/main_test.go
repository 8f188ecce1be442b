package relay_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/internal/relay"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit/natscluster"
	"github.com/ledgerfeed/ledgerfeed/migrations"
)

func TestMain(m *testing.M) {
	if natscluster.Serve() {
		os.Exit(0)
	}
	testkit.Main(m, migrations.Up)
}

// bench is a log, a broker, and relays between them.
type bench struct {
	t        *testing.T
	pool     testkit.DB
	log      *eventlog.Log
	notifier *eventlog.Notifier
	cluster  *natscluster.Cluster
	js       nats.JetStreamContext
	logged   *testkit.Buffer
	metrics  *prometheus.Registry
}

// setup starts servers, and makes the stream unless there is none for the test.
func setup(t *testing.T, servers int, subjects ...string) *bench {
	t.Helper()
	b := &bench{t: t, logged: &testkit.Buffer{}, metrics: prometheus.NewRegistry(), cluster: natscluster.Start(t, servers)}
	cfg := testkit.Must(pgxpool.ParseConfig(testkit.NewDatabase(t)))(t)
	cfg.MaxConns = 3 * relay.Connections
	b.pool = testkit.Must(pgxpool.NewWithConfig(context.Background(), cfg))(t)
	t.Cleanup(b.pool.Close)
	b.notifier = eventlog.NewNotifier(b.pool, b.logged.Logger())
	b.log = testkit.Must(eventlog.New(eventlog.Config{Pool: b.pool, Clock: time.Now, Notify: b.notifier.Notify}))(t)
	_, b.js = b.cluster.Connect()
	if len(subjects) > 0 {
		testkit.Must(b.js.AddStream(&nats.StreamConfig{Name: "LEDGERFEED", Subjects: subjects, Replicas: servers, Duplicates: time.Minute}))(t)
	}
	return b
}

// start runs a relay until the test, or what it returns, ends it.
func (b *bench) start(change ...func(*relay.Config)) (r *relay.Relay, stop func()) {
	b.t.Helper()
	publisher := testkit.Must(relay.OpenJetStream(b.cluster.URL(), relay.BrokerConfig{Name: "test", Logger: b.logged.Logger()}))(b.t)
	cfg := relay.Config{
		Pool: b.pool, Notifier: b.notifier, Publisher: publisher, Clock: time.Now, Logger: b.logged.Logger(), Name: "test",
		Source: "https://api.example.com", Sweep: 20 * time.Millisecond,
	}
	for _, do := range change {
		do(&cfg)
	}
	r = testkit.Must(relay.New(cfg))(b.t)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-ended; err != nil {
			b.t.Error(err)
		}
	}
	b.t.Cleanup(stop)
	return r, stop
}

func entries(c *relay.Config) { c.Form = relay.FormEntries }

// at is for a relay to the same servers with parameters.
func (b *bench) at(parameters string) func(*relay.Config) {
	return func(c *relay.Config) {
		testkit.Must(0, c.Publisher.Close())(b.t)
		c.Publisher = testkit.Must(relay.OpenJetStream(b.cluster.URL()+parameters, relay.BrokerConfig{Name: "test", Logger: b.logged.Logger()}))(b.t)
	}
}

func draft(workspaceID string) (domain.Draft, error) {
	return domain.NewDraft(workspaceID, "invoice.sent", []byte(`{"invoice_id":"i","client_id":"c"}`))
}

// append appends n entries to a workspace, of which every third is internal, and shows
// them.
func (b *bench) append(workspaceID string, n int) {
	b.t.Helper()
	drafts := make([]domain.Draft, n)
	for i := range drafts {
		typ, data := "invoice.sent", fmt.Sprintf(`{"invoice_id":"i%d","client_id":"c"}`, i)
		if i%3 == 2 {
			typ, data = "client.recorded", fmt.Sprintf(`{"client_id":"c%d","name":"Secret & Sons"}`, i)
		}
		drafts[i] = testkit.Must(domain.NewDraft(workspaceID, typ, []byte(data)))(b.t)
	}
	testkit.Must(b.log.Append(b.t.Context(), drafts...))(b.t)
	b.show(workspaceID, 0)
}

// show moves the visible position of a workspace to all of its log but some entries, as
// the projector does.
func (b *bench) show(workspaceID string, but int) {
	b.t.Helper()
	testkit.Must(b.pool.Exec(b.t.Context(), `
		UPDATE log_checkpoint c SET position = h.position - $2 FROM log_head h
		 WHERE h.workspace_id = c.workspace_id AND c.workspace_id = $1 AND c.consumer = 'read_models'`, workspaceID, but))(b.t)
	b.notifier.Notify(eventlog.TopicProjected, workspaceID)
}

// sent are the messages that the broker holds, by workspace, in their order. A cluster that has
// just lost or got back a server may lose a request, so it is asked again.
func (b *bench) sent() (list map[string][]*nats.Msg) {
	b.t.Helper()
	testkit.Eventually(b.t, func() (err error) {
		list, err = b.read()
		return err
	})
	return list
}

func (b *bench) read() (map[string][]*nats.Msg, error) {
	info, err := b.js.StreamInfo("LEDGERFEED")
	if err != nil {
		return nil, fmt.Errorf("read the stream: %w", err)
	}
	list := map[string][]*nats.Msg{}
	if info.State.Msgs == 0 {
		return list, nil
	}
	sub, err := b.js.SubscribeSync("", nats.BindStream("LEDGERFEED"), nats.OrderedConsumer(), nats.DeliverAll())
	if err != nil {
		return nil, fmt.Errorf("subscribe: %w", err)
	}
	defer func() { _ = sub.Unsubscribe() }()
	for n := range info.State.Msgs {
		msg, err := sub.NextMsg(30 * time.Second)
		if err != nil {
			return nil, fmt.Errorf("message %d of %d: %w", n+1, info.State.Msgs, err)
		}
		w := msg.Header.Get(relay.MetadataWorkspaceID)
		list[w] = append(list[w], msg)
	}
	return list, nil
}

// stored are the payloads that a workspace must have in the broker, read from the log.
func (b *bench) stored(workspaceID string, form relay.Form) []string {
	b.t.Helper()
	if form == relay.FormPublic {
		rows := testkit.Must(b.pool.Query(b.t.Context(), `
			SELECT e.public_event FROM event_log e JOIN log_checkpoint c ON c.workspace_id = e.workspace_id AND c.consumer = 'read_models'
			 WHERE e.workspace_id = $1 AND e.position <= c.position AND public_event IS NOT NULL ORDER BY e.position`, workspaceID))(b.t)
		return testkit.Must(pgx.CollectRows(rows, pgx.RowTo[string]))(b.t)
	}
	var list []string
	err := b.log.Walk(b.t.Context(), workspaceID, 0, func(e *domain.Entry) error {
		list = append(list, strings.TrimSpace(string(e.AppendNDJSON(nil))))
		return nil
	})
	if err != nil {
		b.t.Fatal(err)
	}
	return list
}

// eventuallySent waits until the broker holds exactly what the log does, in its order.
func (b *bench) eventuallySent(form relay.Form, workspaces ...string) {
	b.t.Helper()
	want, all := map[string][]string{}, uint64(0)
	for _, w := range workspaces {
		want[w] = b.stored(w, form)
		all += uint64(len(want[w]))
	}
	testkit.Eventually(b.t, func() error {
		info, err := b.js.StreamInfo("LEDGERFEED")
		if err == nil && info.State.Msgs < all {
			err = fmt.Errorf("the broker holds %d messages, want %d; logged:\n%s", info.State.Msgs, all, b.logged)
		}
		return err
	})
	got := b.sent()
	for _, w := range workspaces {
		compare(b.t, w, got[w], want[w])
		delete(got, w)
	}
	for w := range got {
		b.t.Errorf("the broker holds messages of %s", w)
	}
}

func compare(t *testing.T, workspaceID string, got []*nats.Msg, want []string) {
	t.Helper()
	for i := range min(len(got), len(want)) {
		if string(got[i].Data) != want[i] {
			t.Fatalf("%s: message %d is %s\nwant %s", workspaceID, i, got[i].Data, want[i])
		}
	}
	if len(got) != len(want) {
		t.Fatalf("%s: %d messages, want %d", workspaceID, len(got), len(want))
	}
}

// eventuallyAt waits until the checkpoint of the relay is at the visible position.
func (b *bench) eventuallyAt(workspaceID string) {
	b.t.Helper()
	testkit.Eventually(b.t, func() error {
		list, err := eventlog.ReadProgress(b.t.Context(), b.pool, relay.Consumer("test"), workspaceID)
		if err == nil && (len(list) != 1 || list[0].Position != list[0].Head) {
			err = fmt.Errorf("%s is at %+v; logged:\n%s", workspaceID, list, b.logged)
		}
		return err
	})
}
