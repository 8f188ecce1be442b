package delivery

import (
	"context"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

const workspace = "acme"

// bench is a database with a workspace, and what manages its webhooks.
type bench struct {
	t        testing.TB
	pool     *pgxpool.Pool
	notifier *eventlog.Notifier
	log      *eventlog.Log
	store    *Store
	keyring  *Keyring
	settings Settings
	logger   *slog.Logger
	clock    *testkit.Clock
}

func loopback() []netip.Prefix {
	return []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}
}

func setup(t testing.TB, s Settings) *bench {
	t.Helper()
	return setupOn(t, testkit.Pool(t), s)
}

func setupOn(t testing.TB, pool *pgxpool.Pool, s Settings) *bench {
	t.Helper()
	b := &bench{t: t, pool: pool, logger: slog.New(slog.DiscardHandler), clock: testkit.RunningClock()}
	if testing.Verbose() && os.Getenv("DELIVERY_TEST_LOG") != "" {
		b.logger = slog.New(slog.NewTextHandler(os.Stderr, nil))
	}
	b.notifier = eventlog.NewNotifier(b.pool, b.logger)
	b.log = testkit.Must(eventlog.New(eventlog.Config{Pool: b.pool, Clock: b.clock.Now, Notify: b.notifier.Notify}))(t)
	b.keyring = testkit.Must(NewKeyring("0123456789abcdef"))(t)
	s.Allow = append(s.Allow, loopback()...)
	if s.CAFile == "" {
		s.CAFile = caFile(t)
	}
	b.settings = s
	b.store = testkit.Must(NewStore(StoreConfig{Pool: b.pool, Keyring: b.keyring, Log: b.log, Notify: b.notifier.Notify, Clock: b.clock.Now, Settings: s}))(t)
	b.workspace(workspace)
	return b
}

func (b *bench) workspace(id string) {
	b.t.Helper()
	if _, err := b.pool.Exec(b.t.Context(), `SELECT workspace_create($1, $1, now())`, id); err != nil {
		b.t.Fatal(err)
	}
}

// caFile holds the certificate that every httptest server has.
func caFile(t testing.TB) string {
	t.Helper()
	s := httptest.NewTLSServer(nil)
	defer s.Close()
	path := filepath.Join(t.TempDir(), "ca.pem")
	block := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	if err := os.WriteFile(path, block, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func discardLog() *log.Logger { return slog.NewLogLogger(slog.DiscardHandler, slog.LevelInfo) }

// engine runs an Engine until the test or stop ends it.
func (b *bench) engine(change ...func(*Config)) (e *Engine, stop func()) {
	b.t.Helper()
	cfg := Config{
		Pool: b.pool, Keyring: b.keyring, Notifier: b.notifier, Clock: b.clock.Now, Logger: b.logger, Settings: b.settings,
		Sweep: 200 * time.Millisecond,
	}
	for _, c := range change {
		c(&cfg)
	}
	e = testkit.Must(New(cfg))(b.t)
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

// hookIn makes a workspace with a webhook that takes everything.
func (b *bench) hookIn(ws, url string) {
	b.t.Helper()
	b.workspace(ws)
	testkit.Must(b.store.Create(b.t.Context(), ws, url, []string{"all"}))(b.t)
}

// oneForEach makes so many workspaces, each with a webhook at the receiver. The
// returned function appends an event to each and waits until all have arrived;
// sent counts the events.
func (b *bench) oneForEach(rc *receiver, spaces int) (all func(), sent *int) {
	b.t.Helper()
	var names []string
	for i := range spaces {
		names = append(names, fmt.Sprintf("w%d", i))
		b.hookIn(names[i], rc.URL)
	}
	sent = new(int)
	return func() {
		for _, ws := range names {
			b.appendTo(ws, "invoice.reversed", 1)
			*sent++
		}
		rc.wait(b.t, *sent)
	}, sent
}

func (b *bench) appendTo(ws, typ string, n int) (ids []string) {
	b.t.Helper()
	ids = b.write(ws, typ, n)
	b.project(ws)
	return ids
}

// write appends without making it visible.
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

// show is project whose wake-up is lost.
func (b *bench) show(ws string) {
	b.t.Helper()
	_, err := b.pool.Exec(b.t.Context(), `
		UPDATE log_checkpoint c SET position = h.position FROM log_head h
		 WHERE c.workspace_id = $1 AND h.workspace_id = $1 AND c.consumer = 'read_models'`, ws)
	if err != nil {
		b.t.Fatal(err)
	}
}

// received is a request as a receiver saw it.
type received struct {
	header http.Header
	body   string
	at     time.Time
}

func (r *received) eventID() string { return r.header.Get("Service-Event-Id") }

// receiver is an HTTPS server that keeps what it gets.
type receiver struct {
	*httptest.Server
	mu   sync.Mutex
	got  []received
	more chan struct{}
}

// newReceiver answers as handler says; nil: 200.
func newReceiver(t testing.TB, handler func(n int, w http.ResponseWriter, r *http.Request)) *receiver {
	t.Helper()
	rc := &receiver{more: make(chan struct{}, 1)}
	rc.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		rc.mu.Lock()
		rc.got = append(rc.got, received{r.Header, string(body), time.Now()})
		n := len(rc.got)
		rc.mu.Unlock()
		select {
		case rc.more <- struct{}{}:
		default:
		}
		if handler != nil {
			handler(n, w, r)
		}
	}))
	rc.EnableHTTP2 = true
	rc.Config.ErrorLog = discardLog()
	rc.StartTLS()
	t.Cleanup(func() { rc.CloseClientConnections(); rc.Close() })
	return rc
}

func (r *receiver) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.got)
}

func (r *receiver) all() []received {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]received(nil), r.got...)
}

// wait returns what was received when it is at least n.
func (r *receiver) wait(t testing.TB, n int) []received {
	t.Helper()
	deadline := time.After(time.Minute)
	for {
		if r.count() >= n {
			return r.all()
		}
		select {
		case <-r.more:
		case <-deadline:
			t.Fatalf("received %d messages, want %d", r.count(), n)
		}
	}
}

// slowly is the time that a receiver takes.
func slowly(r *http.Request, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-r.Context().Done():
	}
}

// states waits until a webhook's deliveries are in these states, newest first.
func (b *bench) states(webhookID string, want ...State) []Delivery {
	b.t.Helper()
	var list []Delivery
	testkit.Eventually(b.t, func() error {
		page, err := b.store.Deliveries(b.t.Context(), webhookID, Query{Limit: 500})
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

func join(states []State) string {
	var list []string
	for _, s := range states {
		list = append(list, string(s))
	}
	return strings.Join(list, " ")
}
