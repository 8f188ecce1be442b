package delivery_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ledgerfeed/ledgerfeed/delivery"
	"github.com/ledgerfeed/ledgerfeed/delivery/dispatch"
	"github.com/ledgerfeed/ledgerfeed/delivery/keyring"
	"github.com/ledgerfeed/ledgerfeed/delivery/policy"
	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

const workspace = "acme"

// bench is a database with a workspace and the Store of its webhooks.
type bench struct {
	t        testing.TB
	pool     testkit.DB
	notifier *eventlog.Notifier
	log      *eventlog.Log
	store    *delivery.Store
	keyring  *keyring.Keyring
	settings policy.Settings
	logger   *slog.Logger
	clock    *testkit.Clock
}

func setup(t testing.TB, s policy.Settings) *bench {
	t.Helper()
	return setupOn(t, testkit.Pool(t), s)
}

func setupOn(t testing.TB, pool testkit.DB, s policy.Settings) *bench {
	t.Helper()
	b := &bench{t: t, pool: pool, logger: slog.New(slog.DiscardHandler), clock: testkit.RunningClock()}
	if testing.Verbose() && os.Getenv("DELIVERY_TEST_LOG") != "" {
		b.logger = slog.New(slog.NewTextHandler(os.Stderr, nil))
	}
	b.notifier = eventlog.NewNotifier(b.pool, b.logger)
	testkit.AnyClock(t, b.pool)
	b.log = testkit.Must(eventlog.New(eventlog.Config{Pool: b.pool, Clock: b.clock.Now, Notify: b.notifier.Notify}))(t)
	b.keyring = testkit.Must(keyring.New("0123456789abcdef"))(t)
	s.Allow = append(s.Allow, testkit.Loopback()...)
	if s.CAFile == "" {
		s.CAFile = testkit.CAFile(t)
	}
	b.settings = s
	b.store = testkit.Must(delivery.NewStore(delivery.StoreConfig{Pool: b.pool, Keyring: b.keyring, Log: b.log, Notify: b.notifier.Notify, Clock: b.clock.Now, Settings: s}))(t)
	b.workspace(workspace)
	return b
}

// status is the lag of all webhooks.
func (b *bench) status() []dispatch.Lag {
	b.t.Helper()
	return testkit.Must(dispatch.ReadStatus(b.t.Context(), b.pool, ""))(b.t)
}

func (b *bench) workspace(id string) {
	b.t.Helper()
	if _, err := b.pool.Exec(b.t.Context(), `SELECT workspace_create($1, $1, now())`, id); err != nil {
		b.t.Fatal(err)
	}
}

func discardLog() *log.Logger { return slog.NewLogLogger(slog.DiscardHandler, slog.LevelInfo) }

// dispatcher runs a Dispatcher until the test or stop ends it.
func (b *bench) dispatcher(change ...func(*dispatch.Config)) (e *dispatch.Dispatcher, stop func()) {
	b.t.Helper()
	cfg := dispatch.Config{
		Pool: b.pool, Keyring: b.keyring, Notifier: b.notifier, Clock: b.clock.Now, Logger: b.logger, Settings: b.settings,
		Sweep: 200 * time.Millisecond,
	}
	for _, c := range change {
		c(&cfg)
	}
	e = testkit.Must(dispatch.New(cfg))(b.t)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- e.Run(ctx) }()
	var once sync.Once
	stop = func() {
		once.Do(func() {
			cancel()
			if err := <-done; err != nil {
				b.t.Errorf("engine: %v", err)
			}
		})
	}
	b.t.Cleanup(stop)
	return e, stop
}

// append appends n public events of a type and makes them visible.
func (b *bench) append(typ string, n int) (ids []string) {
	b.t.Helper()
	return b.appendTo(workspace, typ, n)
}

// webhookIn makes a workspace with a webhook for all event types.
func (b *bench) webhookIn(ws, url string) {
	b.t.Helper()
	b.workspace(ws)
	testkit.Must(b.store.Create(b.t.Context(), ws, delivery.Definition{URL: url, Events: []string{"all"}}))(b.t)
}

// oneForEach makes workspaces, each with a webhook at the receiver. The returned
// function appends an event to each and waits until all have arrived; sent counts
// the events.
func (b *bench) oneForEach(rc *testkit.Receiver, spaces int) (all func(), sent *int) {
	b.t.Helper()
	var names []string
	for i := range spaces {
		names = append(names, fmt.Sprintf("w%d", i))
		b.webhookIn(names[i], rc.URL)
	}
	sent = new(int)
	return func() {
		for _, ws := range names {
			b.appendTo(ws, "invoice.reversed", 1)
			*sent++
		}
		rc.Wait(b.t, *sent)
	}, sent
}

func (b *bench) appendTo(ws, typ string, n int) (ids []string) {
	b.t.Helper()
	ids = b.write(ws, typ, n)
	b.project(ws)
	return ids
}

// write appends events without making them visible.
func (b *bench) write(ws, typ string, n int) (ids []string) {
	b.t.Helper()
	data := map[string]string{
		"invoice.reversed":    `{"invoice_id":"inv_1"}`,
		"time_entry.approved": `{"time_entry_id":"te_1"}`,
		"charge.deleted":      `{"charge_id":"ch_1"}`,
	}[typ]
	for n > 0 {
		var drafts []domain.Draft
		for range min(n, 1000) {
			d, err := domain.NewDraft(ws, typ, []byte(data))
			if err != nil {
				b.t.Fatal(err)
			}
			drafts = append(drafts, d)
		}
		receipts, err := b.log.Append(b.t.Context(), drafts...)
		if err != nil {
			b.t.Fatal(err)
		}
		for _, r := range receipts {
			ids = append(ids, r.ID)
		}
		n -= len(drafts)
	}
	return ids
}

// project does what the projector does for the visible position.
func (b *bench) project(ws string) {
	b.t.Helper()
	b.show(ws)
	b.notifier.Notify(eventlog.TopicProjected, ws)
}

// show moves the visible position without a notification.
func (b *bench) show(ws string) {
	b.t.Helper()
	_, err := b.pool.Exec(b.t.Context(), `
		UPDATE log_checkpoint c SET position = h.position FROM log_head h
		 WHERE c.workspace_id = $1 AND h.workspace_id = $1 AND c.consumer = 'read_models'`, ws)
	if err != nil {
		b.t.Fatal(err)
	}
}

// states waits until a webhook's deliveries are in these states, newest first.
func (b *bench) states(webhookID string, want ...policy.State) []delivery.Delivery {
	b.t.Helper()
	var list []delivery.Delivery
	testkit.Eventually(b.t, func() error {
		page, err := b.store.Deliveries(b.t.Context(), webhookID, delivery.Query{Limit: 500})
		if err != nil {
			return err
		}
		list = page.Deliveries
		var got []string
		for _, d := range list {
			got = append(got, string(d.State))
		}
		if w := join(want); strings.Join(got, " ") != w {
			return fmt.Errorf("deliveries are %q, want %q", strings.Join(got, " "), w)
		}
		return nil
	})
	return list
}

func join(states []policy.State) string {
	var list []string
	for _, s := range states {
		list = append(list, string(s))
	}
	return strings.Join(list, " ")
}

// readableTime is how notices write times.
func readableTime(t time.Time) string { return t.UTC().Format("2 January 2006, 15:04 UTC") }
