package ingestapi

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/internal/brand"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
	"github.com/ledgerfeed/ledgerfeed/migrations"
)

func TestMain(m *testing.M) { testkit.MainAs(m, migrations.Up, migrations.ApplyGrants) }

// stand is an API for producers that listens, with the workspaces acme and globex.
type stand struct {
	*testing.T
	pool    testkit.DB
	log     *eventlog.Log
	store   *KeyStore
	logged  *testkit.Buffer
	metrics *prometheus.Registry
	address string // host:port
}

func newStand(t *testing.T, change ...func(*http.Server)) *stand {
	t.Helper()
	cfg := testkit.Must(pgxpool.ParseConfig(testkit.NewDatabase(t)))(t)
	cfg.MaxConns = 12
	pool := testkit.Must(pgxpool.NewWithConfig(context.Background(), cfg))(t)
	t.Cleanup(pool.Close)
	s := &stand{T: t, pool: pool, logged: &testkit.Buffer{}, metrics: prometheus.NewRegistry()}
	format := KeyFormat(brand.Brand{})
	s.log = testkit.Must(eventlog.New(eventlog.Config{Pool: pool, Clock: time.Now}))(t)
	s.store = NewKeyStore(KeyStoreConfig{Pool: pool, Format: format, Clock: time.Now})
	for _, w := range []string{"acme", "globex"} {
		testkit.Must(pool.Exec(t.Context(), `SELECT workspace_create($1, $1, now())`, w))(t)
	}
	api := testkit.Must(New(Config{
		Log: s.log, Keys: testkit.Must(NewKeyDirectory(pool, format, time.Now))(t), Format: format, Logger: s.logged.Logger(),
		InFlight: 4 * MaxBody, Connections: 8, Metrics: s.metrics,
	}))(t)
	if err := api.Probe(t.Context()); err != nil {
		t.Fatal(err)
	}
	server := NewServer(api, testkit.Discard())
	for _, c := range change {
		c(server)
	}
	var listen net.ListenConfig
	listener := testkit.Must(listen.Listen(t.Context(), "tcp", "127.0.0.1:0"))(t)
	s.address = listener.Addr().String()
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close() })
	return s
}

// key makes a producer's key.
func (s *stand) key(workspaces string, types ...string) string {
	s.Helper()
	_, secret, err := s.store.Create(s.Context(), KeyOptions{Workspaces: strings.Split(workspaces, ","), Name: "test", Types: types})
	if err != nil {
		s.Fatal(err)
	}
	return secret.Reveal()
}

// got is an answer.
type got struct {
	status int
	header http.Header
	text   string
	answer
	Code   string
	Detail string
	Errors []fault
}

// post posts entries; header has names and values.
func (s *stand) post(key, query string, body io.Reader, header ...string) got {
	s.Helper()
	g, err := s.tryPost(key, query, body, header...)
	if err != nil {
		s.Fatal(err)
	}
	return g
}

func (s *stand) tryPost(key, query string, body io.Reader, header ...string) (g got, err error) {
	r, err := http.NewRequestWithContext(s.Context(), http.MethodPost, "http://"+s.address+entriesPath+query, body)
	if err != nil {
		return g, err
	}
	if key != "" {
		r.Header.Set("Authorization", "Bearer "+key)
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		return g, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return g, err
	}
	g = got{status: resp.StatusCode, header: resp.Header, text: string(text)}
	if err := json.Unmarshal(text, &g); err != nil {
		return g, fmt.Errorf("%d %s: %w", g.status, text, err)
	}
	return g, nil
}

// positions are the positions of ids in the log of a workspace.
func (s *stand) positions(workspaceID string) map[string]int64 {
	s.Helper()
	found := map[string]int64{}
	rows := testkit.Must(s.pool.Query(s.Context(), `SELECT id, position FROM event_log WHERE workspace_id = $1`, workspaceID))(s)
	defer rows.Close()
	for rows.Next() {
		var id string
		var position int64
		if err := rows.Scan(&id, &position); err != nil {
			s.Fatal(err)
		}
		if found[id] != 0 {
			s.Errorf("%s is in the log twice", id)
		}
		found[id] = position
	}
	return found
}

// sent is an entry that says that an invoice was sent; without an id, it has none.
func sent(workspaceID, id string) string {
	given := ""
	if id != "" {
		given = fmt.Sprintf(`"id":%q,`, id)
	}
	return fmt.Sprintf(`{"workspace_id":%q,%s"type":"invoice.sent","data":{"invoice_id":"i-%s","client_id":"c"}}`+"\n", workspaceID, given, id)
}

func text(parts ...string) io.Reader { return bytes.NewReader([]byte(strings.Join(parts, ""))) }
