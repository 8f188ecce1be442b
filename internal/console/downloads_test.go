package console

import (
	"bufio"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/ledgerfeed/ledgerfeed/internal/console/session"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
	"github.com/ledgerfeed/ledgerfeed/readapi"
)

// downloading begins a download whose reader takes no more than its first line.
func (p *person) downloading(path string) *bufio.Reader {
	p.t.Helper()
	r := testkit.Must(http.NewRequestWithContext(p.t.Context(), http.MethodGet, p.bundle.server.URL+path, http.NoBody))(p.t)
	for _, c := range p.client.Jar.Cookies(testkit.Must(url.Parse(p.bundle.server.URL))(p.t)) {
		r.AddCookie(c)
	}
	transport := &http.Transport{DisableCompression: true, ReadBufferSize: 4 << 10}
	p.t.Cleanup(transport.CloseIdleConnections)
	answer := testkit.Must(transport.RoundTrip(r))(p.t)
	p.t.Cleanup(func() { _ = answer.Body.Close() })
	body := bufio.NewReader(answer.Body)
	if line, err := body.ReadString('\n'); answer.StatusCode != http.StatusOK || err != nil {
		p.t.Fatalf("%s: %d %.200s %v", path, answer.StatusCode, line, err)
	}
	return body
}

// TestASlowDownloadLeavesOthersTheirs: a person who reads a file slowly keeps nobody of another
// workspace from downloading one, and several together do not keep all places.
func TestASlowDownloadLeavesOthersTheirs(t *testing.T) {
	t.Parallel()
	const third = "gamma"
	s := setup(t, func(c *Config) {
		pool := testkit.Must(pg.Open(t.Context(), testkit.AsPool(c.Pool).Config().ConnString(), pg.Options{MaxConns: 2, CancelStatements: true}))(t)
		t.Cleanup(pool.Close)
		c.Reader = readerOf(t, c.Pool, c.Clock, c.Logger, readapi.WholeLists{Pool: pool, Most: 2, MostOfWorkspace: 1, Keep: time.Nanosecond})
	})
	testkit.AsOwner(t, s.pool, `SELECT workspace_create($1, 'Gamma', now())`, third)
	// More than all buffers on the way to a reader hold.
	testkit.AsOwner(t, s.pool, `
		INSERT INTO contractor SELECT w, 'co_' || n, n, '{"id":"co_' || n || '","name":"' || repeat('x', 8000) || '"'
		  FROM unnest(ARRAY[$1, $2]) w, generate_series(1, 3000) n`, acme, beta)
	slow, other := s.signIn(acme, session.Viewer), s.signIn(beta, session.Viewer)
	first := slow.downloading("/files/contractors.csv")
	s.signIn(acme, session.Admin).get("/files/clients.csv").status(http.StatusTooManyRequests).has("Somebody is downloading")
	if file := other.get("/files/clients.csv").status(http.StatusOK); !strings.HasPrefix(file.Header.Get("Content-Type"), "text/csv") {
		t.Errorf("another workspace gets %q", file.body)
	}
	second := other.downloading("/files/contractors.csv") // both places are taken, each for long enough
	s.signIn(third, session.Viewer).get("/files/clients.csv").status(http.StatusOK)
	if n, err := io.Copy(io.Discard, first); err == nil {
		t.Errorf("the oldest download goes on, with %d bytes", n)
	}
	if n, err := io.Copy(io.Discard, second); err != nil || n < 3000*8000 {
		t.Errorf("the other one was broken off after %d bytes: %v", n, err)
	}
	// A workbook, which is sent when it is complete, takes its workspace's place until it was taken. The
	// random text cannot be compressed.
	testkit.AsOwner(t, s.pool, `
		INSERT INTO contractor SELECT $1, 'co_r' || n, n, '{"id":"co_r' || n || '","name":"' || (SELECT string_agg(md5(n::text || ':' || i), '') FROM generate_series(1, 250) i) || '"'
		  FROM generate_series(1, 3000) n`, third)
	workbook := s.signIn(third, session.Viewer).downloading("/files/contractors.xlsx")
	s.signIn(third, session.Admin).get("/files/clients.csv").status(http.StatusTooManyRequests).has("Somebody is downloading")
	if n, err := io.Copy(io.Discard, workbook); err != nil || n < 3000*4000 {
		t.Errorf("the workbook was broken off after %d bytes: %v", n, err)
	}
	if NewServer(s.console).ConnContext == nil {
		t.Error("the console's server does not know how much of a file is taken")
	}
}
