package readapi_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/internal/brand"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
	"github.com/ledgerfeed/ledgerfeed/internal/scenario"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
	"github.com/ledgerfeed/ledgerfeed/readapi"
	"github.com/ledgerfeed/ledgerfeed/readapi/access"
	"github.com/ledgerfeed/ledgerfeed/readapi/requestlog"
)

const (
	docsURL = "https://docs.example.com"
	// highLimit is a rate limit that no test reaches by accident.
	highLimit = 1_000_000
)

// stand is a database with a log, read tables, keys and a served API.
type stand struct {
	t         testing.TB
	url       string
	pool      testkit.DB
	log       *eventlog.Log
	store     *access.Store
	format    access.Format
	limiter   *access.Limiter
	directory *access.Directory
	clock     *testkit.Clock
	notifier  *eventlog.Notifier
	config    readapi.Config
	api       *readapi.API
	server    *httptest.Server
	output    *testkit.Buffer
	requests  *requestList
	states    map[string]*domain.State
	contract  *contract // judges every answer
}

// requestList is a RequestLog that keeps the records.
type requestList struct {
	mu   sync.Mutex
	list []requestlog.Record
	ids  map[string]bool // of all requests there ever were
}

func (l *requestList) Record(r *requestlog.Record) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.list = append(l.list, *r)
	l.ids[r.RequestID] = true
}

// has says whether a request was recorded, also if its record was taken since.
func (l *requestList) has(id string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ids[id]
}

func (l *requestList) last() requestlog.Record {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.list[len(l.list)-1]
}

func (l *requestList) all() []requestlog.Record {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.list)
}

// take returns the records and forgets them.
func (l *requestList) take() []requestlog.Record {
	l.mu.Lock()
	defer l.mu.Unlock()
	list := l.list
	l.list = nil
	return list
}

// newStand builds everything; change may alter the API's configuration first.
func newStand(t testing.TB, change ...func(*readapi.Config)) *stand {
	t.Helper()
	return newStandAt(t, testkit.NewDatabase(t), change...)
}

// newStandAt is newStand on a database of the test.
func newStandAt(t testing.TB, url string, change ...func(*readapi.Config)) *stand {
	t.Helper()
	s := &stand{t: t, url: url, clock: testkit.NewClock(time.Time{}), output: &testkit.Buffer{}, requests: &requestList{ids: map[string]bool{}}, states: map[string]*domain.State{}}
	s.clock.Set(time.Now().UTC().Truncate(time.Minute).Add(30 * time.Second))
	pool, err := pg.Open(t.Context(), s.url, pg.Options{MaxConns: 8, ReadBuffer: readapi.ReadBuffer, Settings: readapi.PoolSettings(), CancelStatements: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	s.pool = pool
	lists, err := pg.Open(t.Context(), s.url, pg.Options{MaxConns: 6, ReadBuffer: readapi.ReadBuffer, Settings: readapi.WholeListPoolSettings(time.Minute), CancelStatements: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(lists.Close)
	testkit.AnyClock(t, pool)
	s.log = testkit.Must(eventlog.New(eventlog.Config{Pool: pool, Clock: s.clock.Now}))(t)
	s.format = access.NewFormat(brand.Brand{})
	s.store = testkit.Must(access.NewStore(access.StoreConfig{Pool: pool, Format: s.format, Clock: s.clock.Now}))(t)
	s.directory = testkit.Must(access.NewDirectory(access.DirectoryConfig{Pool: pool, Format: s.format, Clock: s.clock.Now}))(t)
	s.limiter = testkit.Must(access.NewLimiter(access.LimiterConfig{Pool: pool, Clock: s.clock.Now}))(t)
	s.notifier = eventlog.NewNotifier(pool, testkit.Discard())
	s.config = readapi.Config{
		Notifier: s.notifier,
		Pool:     pool, Feed: eventlog.NewFeed(pool), Keys: s.directory, Format: s.format, Limiter: s.limiter, Clock: s.clock.Now,
		Logger:  slog.New(slog.NewJSONHandler(s.output, nil)),
		BaseURL: "https://api.example.com", DocsURL: docsURL, CursorKey: bytes.Repeat([]byte{7}, 32),
		TrustedProxies: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, Requests: s.requests,
		WholeLists: readapi.WholeLists{Pool: lists, Timeout: 10 * time.Minute},
		Signing:    signingKeys(t, 1),
	}
	s.config.Wait(time.Minute, time.Hour, 0) // what ends a wait is what the test does, not its time
	s.contract = testkit.Must(theContract())(t)
	for _, f := range change {
		f(&s.config)
	}
	s.api = testkit.Must(readapi.New(s.config))(t)
	runs(t, s.api.Run)
	s.server = serve(t, s.api, s.config.Logger)
	return s
}

// by has an API read by one pool alone.
func by(c *readapi.Config, pool testkit.DB) {
	c.Pool, c.Feed = pool, eventlog.NewFeed(pool)
}

// serve serves an API as the program does.
func serve(t testing.TB, api *readapi.API, logger *slog.Logger) *httptest.Server {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &httptest.Server{Listener: api.RewriteErrors(listener), Config: readapi.NewServer(api, logger)}
	server.Config.Handler = witnessed(server.Config.Handler)
	server.Start()
	t.Cleanup(server.Close)
	return server
}

// runs runs something until the test ends.
func runs(t testing.TB, run func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// workspace makes a workspace without entries.
func (s *stand) workspace(id string) {
	s.t.Helper()
	if _, err := s.pool.Exec(s.t.Context(), `SELECT workspace_create($1, $2, $3)`, id, "Agency "+id, s.clock.Now()); err != nil {
		s.t.Fatal(err)
	}
}

// key makes a key of a workspace and returns its text.
func (s *stand) key(workspaceID string, permissions ...access.Permission) string {
	s.t.Helper()
	return s.keyLimited(workspaceID, highLimit, permissions...)
}

func (s *stand) keyLimited(workspaceID string, perMinute int, permissions ...access.Permission) string {
	s.t.Helper()
	_, secret, err := s.store.Create(s.t.Context(), access.NewKey{
		WorkspaceID: workspaceID, Name: "Reporting", Permissions: access.PermissionsOf(permissions...), RateLimit: perMinute,
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return secret.Reveal()
}

// keepKeys lets the stand's directory cache keys until the test ends, as it does in a
// running service.
func (s *stand) keepKeys(t testing.TB) {
	t.Helper()
	runs(t, s.directory.Run)
	s.until(func() bool { return s.directory.Stats().Fresh })
}

// append appends lines of NDJSON.
func (s *stand) append(lines ...string) {
	s.t.Helper()
	if _, err := s.log.Append(s.t.Context(), s.drafts(lines...)...); err != nil {
		s.t.Fatal(err)
	}
}

// drafts reads lines of NDJSON.
func (s *stand) drafts(lines ...string) []domain.Draft {
	s.t.Helper()
	drafts := make([]domain.Draft, len(lines))
	for i, line := range lines {
		d, err := domain.DecodeDraft([]byte(line))
		if err != nil {
			s.t.Fatalf("%s: %v", line, err)
		}
		if d.Value() != "" {
			d.Salt = sha256.Sum256([]byte(d.ID)) // so that two logs of the same lines have the same chain
		}
		drafts[i] = d
	}
	return drafts
}

// history returns the first n lines of an agency's history that ends at end.
func history(t testing.TB, workspaceID string, seed uint64, end time.Time, span time.Duration, n int) []string {
	t.Helper()
	g := scenario.New(scenario.Config{
		WorkspaceID: workspaceID, Seed: seed, Start: end.Add(-span), End: end, Entries: n, Clients: 4, Contractors: 3,
	})
	var lines []string
	for {
		line, ok := g.Next()
		if !ok {
			return lines
		}
		lines = append(lines, string(line.AppendNDJSON(nil)))
	}
}

// reply is an answer that was read to its end.
type reply struct {
	status int
	header http.Header
	body   []byte
}

// do makes a request; key "" sends none. Headers are name and value by turns. The
// request is recorded when do returns: the caller of a large answer may have all of it
// before that.
func (s *stand) do(method, path, key string, headers ...string) reply {
	s.t.Helper()
	r := s.exchange(method, path, key, headers...)
	if id := r.header.Get("X-Request-Id"); id != "" && s.config.Requests == readapi.RequestLog(s.requests) {
		s.until(func() bool { return s.requests.has(id) })
	}
	if s.contract != nil {
		opened := r
		if len(r.body) > 0 { // HEAD has the headers of a body that is not there
			opened.body = unpack(s.t, r)
		}
		s.contract.judge(s.t, method, path, opened)
	}
	return r
}

func (s *stand) get(path, key string, headers ...string) reply {
	s.t.Helper()
	return s.do(http.MethodGet, path, key, headers...)
}

func send(t testing.TB, server *httptest.Server, method, path, key string, headers ...string) reply {
	t.Helper()
	return testkit.Must(ask(t.Context(), server, method, path, key, headers...))(t)
}

// ask is send for goroutines other than the test's.
func ask(ctx context.Context, server *httptest.Server, method, path, key string, headers ...string) (reply, error) {
	r, err := written(ctx, server.Listener.Addr().String(), method, path, key, headers...)
	if err != nil {
		return reply{}, err
	}
	response, err := server.Client().Do(r)
	if err != nil {
		return reply{}, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return reply{response.StatusCode, response.Header, body}, err
}

// written is a request to a host whose path and query are sent as they are given.
func written(ctx context.Context, host, method, path, key string, headers ...string) (*http.Request, error) {
	r, err := http.NewRequestWithContext(ctx, method, "http://"+host, http.NoBody)
	if err != nil {
		return nil, err
	}
	r.URL.Opaque = "//" + host + path
	if key != "" {
		r.Header.Set("Authorization", "Bearer "+key)
	}
	r.Header.Set("Accept-Encoding", "identity")
	for i := 0; i < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
		if headers[i] == "Accept-Encoding" {
			r.Header.Set(headers[i], headers[i+1])
		}
	}
	return r, nil
}

// allPermissions are the scopes of a key that may see everything.
func allPermissions() []access.Permission { return access.AllPermissions() }

// without is allPermissions except some.
func without(missing ...access.Permission) []access.Permission {
	var list []access.Permission
	for _, p := range allPermissions() {
		found := false
		for _, m := range missing {
			found = found || m == p
		}
		if !found {
			list = append(list, p)
		}
	}
	return list
}
