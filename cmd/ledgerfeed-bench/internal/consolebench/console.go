// Package consolebench measures the pages of the console with many deliveries and
// requests.
package consolebench

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"time"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed-bench/internal/measure"
	"github.com/ledgerfeed/ledgerfeed/delivery"
	"github.com/ledgerfeed/ledgerfeed/delivery/keyring"
	"github.com/ledgerfeed/ledgerfeed/delivery/mail"
	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/internal/audit"
	"github.com/ledgerfeed/ledgerfeed/internal/brand"
	"github.com/ledgerfeed/ledgerfeed/internal/console"
	"github.com/ledgerfeed/ledgerfeed/internal/console/sample"
	"github.com/ledgerfeed/ledgerfeed/internal/console/session"
	"github.com/ledgerfeed/ledgerfeed/internal/rollup"
	"github.com/ledgerfeed/ledgerfeed/readapi"
	"github.com/ledgerfeed/ledgerfeed/readapi/access"
	"github.com/ledgerfeed/ledgerfeed/readapi/reference"
)

const (
	manyRows = 100_000 // deliveries, and as many requests
	fewRows  = 1_000
	rounds   = 40
)

// Benchmark is ledgerfeed-bench console.
func Benchmark(o *measure.Options) measure.Benchmark {
	return measure.Benchmark{
		Name: "console", Short: "Pages of the console with 100,000 deliveries and requests", SetUp: measure.ServingHeap, Parts: []measure.Part{
			{Name: "pages", Measure: func(ctx context.Context) error { return measure.InDatabase(ctx, o, benchPages) }},
		},
	}
}

// benchPages reports how long each page takes, beside the same page of a workspace with
// few deliveries and requests.
func benchPages(ctx context.Context, db *measure.Database) error {
	// The events are as old as the deliveries, so the log must not compare clocks.
	if _, err := db.Pool.Exec(ctx, `CREATE OR REPLACE FUNCTION log_clock() RETURNS timestamptz LANGUAGE sql VOLATILE RETURN NULL::timestamptz`); err != nil {
		return fmt.Errorf("cannot let the log take any clock: %w", err)
	}
	s, err := serve(db)
	if err != nil {
		return err
	}
	defer s.server.Close()
	var visits [2]*visitor
	for i, w := range []struct {
		id   string
		rows int
	}{{"few", fewRows}, {"many", db.Size(manyRows, fewRows)}} {
		db.Say("making a workspace with %d deliveries and requests", w.rows)
		if visits[i], err = s.fill(ctx, w.id, w.rows); err != nil {
			return err
		}
	}
	if err := db.Quiesce(ctx); err != nil {
		return err
	}
	few, many := visits[0], visits[1]
	if left := s.console.Unvisited(many.addresses); len(left) > 0 {
		return fmt.Errorf("no address of the sample leads to %q", left)
	}
	for i, path := range many.addresses {
		var short, long []time.Duration
		for range rounds { // in turn, so that both see the same machine
			for v, times := range map[*visitor]*[]time.Duration{few: &short, many: &long} {
				took, err := v.visit(ctx, v.addresses[i])
				if err != nil {
					return err
				}
				*times = append(*times, took)
			}
		}
		name := "GET " + many.workspace.Brief(path)
		db.Report.Add(measure.Figure{
			Name: name + ", p50", Value: measure.Quantile(long, 0.5), Unit: "ms",
			Limit: measure.Quantile(short, 0.5), LimitIs: fmt.Sprintf("with %s of each", measure.Number(fewRows)),
		})
		db.Report.Add(measure.Figure{Name: "    p95", Value: measure.Quantile(long, 0.95), Unit: "ms"}.Below(100))
	}
	return nil
}

// served is a console in this process.
type served struct {
	console  *console.Console
	server   *httptest.Server
	sessions *session.Store
	filler   sample.Filler
}

func serve(db *measure.Database) (*served, error) {
	s := &served{server: httptest.NewUnstartedServer(nil)}
	keys, err := access.NewStore(access.StoreConfig{Pool: db.Pool, Format: access.NewFormat(brand.Brand{}), Clock: time.Now})
	if err != nil {
		return nil, err
	}
	secrets, err := keyring.New("the secrets of a benchmark")
	if err != nil {
		return nil, err
	}
	webhooks, err := delivery.NewStore(delivery.StoreConfig{Pool: db.Pool, Keyring: secrets, Log: db.Log, Notify: db.Notifier.Notify, Clock: time.Now})
	if err != nil {
		return nil, err
	}
	if s.sessions, err = session.NewStore(session.Config{Pool: db.Pool, Clock: time.Now}); err != nil {
		return nil, err
	}
	mailer, err := mail.New(mail.Settings{}, db.Pool, time.Now, measure.NoLogger())
	if err != nil {
		return nil, err
	}
	feed := eventlog.NewFeed(db.Pool)
	reader, err := readapi.NewReader(readapi.Config{
		Pool: db.Pool, Feed: feed, Format: access.NewFormat(brand.Brand{}), Clock: time.Now, Logger: measure.NoLogger(),
		BaseURL: "https://api.example.com", DocsURL: "https://api.example.com/docs", CursorKey: make([]byte, 32),
	})
	if err != nil {
		return nil, err
	}
	s.console, err = console.New(console.Config{
		Pool: db.Pool, Sessions: s.sessions, Audit: audit.NewTrail(db.Pool), Keys: keys, Webhooks: webhooks, Log: db.Log, Mailer: mailer, Feed: feed, Reader: reader,
		Clock: time.Now, Logger: measure.NoLogger(), URL: "http://" + s.server.Listener.Addr().String(), APIURL: "https://api.example.com",
		Reference: []*reference.Page{{HTML: []byte("<style></style><script></script>")}}, // whose size no rows change
	})
	if err != nil {
		return nil, err
	}
	s.filler = sample.Filler{
		Pool: db.Pool, Keys: keys, Webhooks: webhooks, Clock: time.Now,
		Rollups: rollup.NewWriter(db.Pool, measure.NoLogger()), Events: rollup.NewEvents(db.Pool, time.Now, measure.NoLogger()),
	}
	s.server.Config.Handler = s.console
	s.server.Start()
	return s, nil
}

// visitor is a person who is signed in to a workspace.
type visitor struct {
	base      string
	client    *http.Client
	workspace *sample.Workspace
	addresses []string
}

// fill makes a workspace with n deliveries and requests, and signs a person in to it.
func (s *served) fill(ctx context.Context, id string, n int) (*visitor, error) {
	w, err := s.filler.Fill(ctx, id, n)
	if err != nil {
		return nil, err
	}
	link, _, err := s.sessions.CreateLink(ctx, session.Link{WorkspaceID: id})
	if err != nil {
		return nil, err
	}
	jar, err := cookiejar.New(nil)
	if err != nil {
		return nil, fmt.Errorf("cannot keep cookies: %w", err)
	}
	v := &visitor{base: s.server.URL, client: &http.Client{Jar: jar}, workspace: w, addresses: w.Addresses()}
	_, err = v.request(ctx, http.MethodPost, link)
	return v, err
}

func (v *visitor) visit(ctx context.Context, path string) (time.Duration, error) {
	return v.request(ctx, http.MethodGet, path)
}

func (v *visitor) request(ctx context.Context, method, path string) (time.Duration, error) {
	r, err := http.NewRequestWithContext(ctx, method, v.base+path, http.NoBody)
	if err != nil {
		return 0, fmt.Errorf("cannot ask for %s: %w", path, err)
	}
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	began := time.Now()
	resp, err := v.client.Do(r)
	if err != nil {
		return 0, fmt.Errorf("cannot ask for %s: %w", path, err)
	}
	defer func() { _ = resp.Body.Close() }()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return 0, fmt.Errorf("cannot read %s: %w", path, err)
	}
	if resp.StatusCode >= http.StatusInternalServerError {
		return 0, fmt.Errorf("%s answered %s", path, resp.Status)
	}
	return time.Since(began), nil
}
