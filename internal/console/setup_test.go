package console

import (
	"cmp"
	"context"
	"crypto/rand"
	"io"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ledgerfeed/ledgerfeed/delivery"
	"github.com/ledgerfeed/ledgerfeed/delivery/dispatch"
	"github.com/ledgerfeed/ledgerfeed/delivery/keyring"
	"github.com/ledgerfeed/ledgerfeed/delivery/mail"
	"github.com/ledgerfeed/ledgerfeed/delivery/policy"
	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/internal/audit"
	"github.com/ledgerfeed/ledgerfeed/internal/brand"
	"github.com/ledgerfeed/ledgerfeed/internal/console/session"
	"github.com/ledgerfeed/ledgerfeed/internal/flow"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
	"github.com/ledgerfeed/ledgerfeed/internal/signingkey"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
	"github.com/ledgerfeed/ledgerfeed/readapi/access"
	"github.com/ledgerfeed/ledgerfeed/readapi/openapi"
	"github.com/ledgerfeed/ledgerfeed/readapi/reference"
)

// The workspaces of the tests. What happens in one must not show in the other.
const (
	acme = "acme"
	beta = "beta"
)

// bundle is a console with a database of its own.
type bundle struct {
	t        *testing.T
	pool     testkit.DB
	sessions *session.Store
	keys     *access.Store
	webhooks *delivery.Store
	log      *eventlog.Log
	notifier *eventlog.Notifier
	keyring  *keyring.Keyring
	settings policy.Settings
	clock    *testkit.Clock
	logs     *testkit.Buffer
	console  *Console
	server   *httptest.Server
}

// setup makes a bundle; change may alter the console's Config.
func setup(t *testing.T, change ...func(*Config)) *bundle {
	t.Helper()
	return setupWith(t, pg.Options{Settings: PoolSettings()}, change...)
}

// setupWith is setup with options for the pool, such as a tracer or other lock timeouts.
func setupWith(t *testing.T, o pg.Options, change ...func(*Config)) *bundle {
	t.Helper()
	o.MaxConns = cmp.Or(o.MaxConns, 6)
	pool := testkit.Must(pg.Open(t.Context(), testkit.NewDatabase(t), o))(t)
	t.Cleanup(pool.Close)
	s := &bundle{t: t, pool: pool, clock: testkit.RunningClock(), logs: &testkit.Buffer{}}
	logger := s.logs.Logger()
	s.notifier = eventlog.NewNotifier(s.pool, logger)
	testkit.AnyClock(t, s.pool)
	s.log = testkit.Must(eventlog.New(eventlog.Config{Pool: s.pool, Clock: s.clock.Now, Notify: s.notifier.Notify}))(t)
	format := access.NewFormat(brand.Brand{})
	s.keys = testkit.Must(access.NewStore(access.StoreConfig{Pool: s.pool, Format: format, Clock: s.clock.Now}))(t)
	s.keyring = testkit.Must(keyring.New("0123456789abcdef"))(t)
	s.settings = policy.Settings{
		Allow: testkit.Loopback(), CAFile: testkit.CAFile(t), Timeout: 5 * time.Second,
	}
	s.webhooks = testkit.Must(delivery.NewStore(delivery.StoreConfig{
		Pool: s.pool, Keyring: s.keyring, Log: s.log, Notify: s.notifier.Notify, Clock: s.clock.Now, Settings: s.settings,
	}))(t)
	s.sessions = testkit.Must(session.NewStore(session.Config{Pool: s.pool, Clock: s.clock.Now}))(t)
	s.server = httptest.NewUnstartedServer(nil)
	cfg := Config{
		Pool: s.pool, Sessions: s.sessions, Audit: audit.NewTrail(s.pool), Keys: s.keys, Webhooks: s.webhooks, Log: s.log, Mailer: testkit.Must(mail.New(mail.Settings{URL: "smtp://127.0.0.1:9", From: "ledgerfeed@example.com"}, s.pool, s.clock.Now, logger))(t), Feed: eventlog.NewFeed(s.pool), Reader: s.reader(), Clock: s.clock.Now, Logger: logger,
		Settings: s.settings, URL: "http://" + s.server.Listener.Addr().String(), APIURL: "https://api.example.com",
		BesideTimeout: time.Minute, // a busy machine may need longer than people should wait
		Reference:     testkit.Must(reference.Pages(openapi.Info{BaseURL: "https://api.example.com", DocsURL: "https://api.example.com/docs"}, nil, reference.Under(ReferencePath)))(t),
	}
	cfg.Signing = testkit.Must(signingkey.Parse(testkit.Must(signingkey.New(rand.Reader))(t)))(t)
	for _, c := range change {
		c(&cfg)
	}
	s.console = testkit.Must(New(cfg))(t)
	s.server.Config.Handler = s.console
	s.server.Start()
	t.Cleanup(s.server.Close)
	for id, name := range map[string]string{acme: "Acme Advisors", beta: "Beta Studio"} {
		if _, err := s.pool.Exec(t.Context(), `SELECT workspace_create($1, $2, now())`, id, name); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// deliver delivers webhooks until the test ends.
func (s *bundle) deliver() {
	s.t.Helper()
	dispatcher := testkit.Must(dispatch.New(dispatch.Config{
		Pool: s.pool, Keyring: s.keyring, Notifier: s.notifier, Clock: s.clock.Now, Logger: testkit.Discard(),
		Settings: s.settings, Sweep: 100 * time.Millisecond,
	}))(s.t)
	ctx, cancel := context.WithCancel(context.Background())
	var group sync.WaitGroup
	group.Go(func() {
		if err := dispatcher.Run(ctx); err != nil {
			s.t.Errorf("deliver: %v", err)
		}
	})
	// In place of the projector: entries become visible soon after they are appended.
	group.Go(func() {
		for flow.Sleep(ctx, 20*time.Millisecond) {
			s.show(ctx)
		}
	})
	s.t.Cleanup(func() { cancel(); group.Wait() })
}

// show makes all entries visible.
func (s *bundle) show(ctx context.Context) {
	rows, err := s.pool.Query(ctx, `
		UPDATE log_checkpoint c SET position = h.position FROM log_head h
		 WHERE c.workspace_id = h.workspace_id AND c.consumer = 'read_models' AND c.position < h.position RETURNING c.workspace_id`)
	if err != nil {
		return // the test is over
	}
	defer rows.Close()
	for rows.Next() {
		var id string
		if rows.Scan(&id) == nil {
			s.notifier.Notify(eventlog.TopicProjected, id)
		}
	}
}

// append appends an entry and makes it visible.
func (s *bundle) append(workspace, typ, data string) (id string) {
	s.t.Helper()
	draft := testkit.Must(domain.NewDraft(workspace, typ, []byte(data)))(s.t)
	receipts := testkit.Must(s.log.Append(s.t.Context(), draft))(s.t)
	s.show(s.t.Context())
	return receipts[0].ID
}

// receiver is an HTTPS server that answers webhooks.
func (s *bundle) receiver(answer http.HandlerFunc) *httptest.Server {
	s.t.Helper()
	r := httptest.NewUnstartedServer(answer)
	r.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelInfo)
	r.StartTLS()
	s.t.Cleanup(func() { r.CloseClientConnections(); r.Close() })
	return r
}

// patient is a setting for pools of tests that look at who waits: a statement that waits for a lock
// does so until the test is over.
func patient() pg.Options {
	return pg.Options{Settings: map[string]string{"lock_timeout": "10min", "statement_timeout": "10min"}}
}

// person is a browser without scripts.
type person struct {
	t      *testing.T
	bundle *bundle
	client *http.Client
}

// stranger is a browser without a session.
func (s *bundle) stranger() *person {
	s.t.Helper()
	jar := testkit.Must(cookiejar.New(nil))(s.t)
	client := &http.Client{Jar: jar, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	return &person{s.t, s, client}
}

// link makes a sign-in link.
func (s *bundle) link(n session.Link) (path string) {
	s.t.Helper()
	path, _, err := s.sessions.CreateLink(s.t.Context(), n)
	if err != nil {
		s.t.Fatal(err)
	}
	return path
}

// signIn signs a person in with a link.
func (s *bundle) signIn(workspace string, role session.Role) *person {
	s.t.Helper()
	p := s.stranger()
	p.post(s.link(session.Link{WorkspaceID: workspace, Role: role, Person: string(role) + "@" + workspace + ".example"}), nil).status(http.StatusSeeOther)
	return p
}

// reply is a response, read whole.
type reply struct {
	*http.Response
	t    *testing.T
	body string
}

func (p *person) do(method, path string, form url.Values, change ...func(*http.Request)) *reply {
	p.t.Helper()
	var body io.Reader
	if form != nil || method == http.MethodPost {
		body = strings.NewReader(form.Encode())
	}
	r := testkit.Must(http.NewRequestWithContext(p.t.Context(), method, p.bundle.server.URL+path, body))(p.t)
	if body != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Sec-Fetch-Site", "same-origin")
	}
	for _, c := range change {
		c(r)
	}
	resp, err := p.client.Do(r)
	if err != nil {
		p.t.Fatal(err)
	}
	defer resp.Body.Close()
	text := testkit.Must(io.ReadAll(resp.Body))(p.t)
	return &reply{resp, p.t, string(text)}
}

func (p *person) get(path string) *reply {
	p.t.Helper()
	return p.do(http.MethodGet, path, nil)
}

func (p *person) post(path string, form url.Values) *reply {
	p.t.Helper()
	return p.do(http.MethodPost, path, form)
}

func (a *reply) status(want int) *reply {
	a.t.Helper()
	if a.StatusCode != want {
		a.t.Fatalf("%s %s: %d, want %d\n%s", a.Request.Method, a.Request.URL, a.StatusCode, want, a.body)
	}
	return a
}

func (a *reply) has(texts ...string) *reply {
	a.t.Helper()
	for _, text := range texts {
		if !strings.Contains(a.body, text) {
			a.t.Fatalf("%s %s: %q is not on the page\n%s", a.Request.Method, a.Request.URL, text, a.body)
		}
	}
	return a
}

func (a *reply) hasNot(texts ...string) *reply {
	a.t.Helper()
	for _, text := range texts {
		if strings.Contains(a.body, text) {
			a.t.Fatalf("%s %s: %q is on the page", a.Request.Method, a.Request.URL, text)
		}
	}
	return a
}

// to is where the answer redirects the browser.
func (a *reply) to() string {
	a.t.Helper()
	a.status(http.StatusSeeOther)
	return a.Header.Get("Location")
}
