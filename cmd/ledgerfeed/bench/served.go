package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ledgerfeed/ledgerfeed/access"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
	"github.com/ledgerfeed/ledgerfeed/readapi"
)

// served is the read API on a listener, as serve has it.
type served struct {
	address   string
	keys      *access.Store
	directory *access.Directory
}

// serve serves the API until ctx ends.
func (s *setting) serve(ctx context.Context, databaseURL string) (*served, error) {
	pool, err := pg.Open(ctx, databaseURL, pg.Options{MaxConns: 12, ReadBuffer: readapi.ReadBuffer, Settings: readapi.PoolSettings()})
	if err != nil {
		return nil, err //nolint:wrapcheck // says it all
	}
	context.AfterFunc(ctx, pool.Close)
	return s.serveFrom(ctx, pool)
}

func (s *setting) serveFrom(ctx context.Context, pool *pgxpool.Pool) (*served, error) {
	format, err := access.NewFormat("SERVICE")
	if err != nil {
		return nil, err //nolint:wrapcheck // says it all
	}
	keys, err := access.NewStore(access.StoreConfig{Pool: s.pool, Format: format})
	if err != nil {
		return nil, err //nolint:wrapcheck // says it all
	}
	directory, err := access.NewDirectory(access.DirectoryConfig{Pool: s.pool, Format: format})
	if err != nil {
		return nil, err //nolint:wrapcheck // says it all
	}
	limiter, err := access.NewLimiter(access.LimiterConfig{Pool: s.pool})
	if err != nil {
		return nil, err //nolint:wrapcheck // says it all
	}
	cursorKey, err := readapi.SharedCursorKey(ctx, s.pool)
	if err != nil {
		return nil, err //nolint:wrapcheck // says it all
	}
	api, err := readapi.New(readapi.Config{
		Pool: pool, Log: s.log, Keys: directory, Format: format, Limiter: limiter, Clock: time.Now, Logger: quiet(),
		Brand: "SERVICE", BaseURL: "http://localhost", DocsURL: "http://localhost/docs", CursorKey: cursorKey,
	})
	if err != nil {
		return nil, err //nolint:wrapcheck // says it all
	}
	for _, run := range []func(context.Context) error{directory.Run, limiter.Run} {
		go func() { _ = run(ctx) }()
	}
	address, err := listen(ctx, readapi.NewServer(api, quiet()))
	return &served{address: address, keys: keys, directory: directory}, err
}

// listen serves on a port of the system's choice until ctx ends.
func listen(ctx context.Context, server *http.Server) (address string, err error) {
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("listen: %w", err)
	}
	go func() { _ = server.Serve(listener) }()
	context.AfterFunc(ctx, func() { _ = server.Close() })
	return listener.Addr().String(), nil
}

// get answers a request once.
func (s *served) get(ctx context.Context, q request) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.address+q.path, http.NoBody)
	if err != nil {
		return nil, fmt.Errorf("ask %s: %w", q.path, err)
	}
	req.Header.Set("Authorization", "Bearer "+q.key)
	req.Header.Set("Accept-Encoding", "identity")
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		return nil, fmt.Errorf("ask %s: %w", q.path, err)
	}
	if resp.StatusCode != http.StatusOK {
		_ = resp.Body.Close()
		return nil, fmt.Errorf("%s answered %s", q.path, resp.Status)
	}
	return resp, nil
}

func (s *served) tag(ctx context.Context, q request) (string, error) {
	resp, err := s.get(ctx, q)
	if err != nil {
		return "", err
	}
	return resp.Header.Get("ETag"), resp.Body.Close()
}

// cursorAt follows a list for so many pages and returns the cursor there.
func (s *served) cursorAt(ctx context.Context, key string, limit, pages int) (string, error) {
	cursor := ""
	for range pages {
		path := fmt.Sprintf("/v1/invoices?limit=%d", limit)
		if cursor != "" {
			path += "&cursor=" + cursor
		}
		resp, err := s.get(ctx, request{path: path, key: key})
		if err != nil {
			return "", err
		}
		var page struct {
			NextCursor string `json:"next_cursor"`
		}
		err = errors.Join(json.NewDecoder(resp.Body).Decode(&page), resp.Body.Close())
		if err != nil {
			return "", fmt.Errorf("read a page: %w", err)
		}
		cursor = url.QueryEscape(page.NextCursor)
	}
	return cursor, nil
}

// captureStatement learns which statement the API sends for a page of
// invoices, so that the limit is that very statement.
func (r *reading) captureStatement(ctx context.Context) (string, error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	cfg, err := pgxpool.ParseConfig(r.url)
	if err != nil {
		return "", fmt.Errorf("capture a statement: %w", err)
	}
	tracer := &statementTracer{}
	cfg.ConnConfig.Tracer = tracer
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return "", fmt.Errorf("capture a statement: %w", err)
	}
	defer pool.Close()
	s, err := r.serveFrom(ctx, pool)
	if err != nil {
		return "", err
	}
	key, err := s.key(ctx, narrowWorkspace)
	if err != nil {
		return "", err
	}
	resp, err := s.get(ctx, request{path: "/v1/invoices", key: key})
	if err != nil {
		return "", err
	}
	if err := resp.Body.Close(); err != nil {
		return "", fmt.Errorf("capture a statement: %w", err)
	}
	return tracer.found()
}

// statementTracer keeps the statement that reads invoices.
type statementTracer struct {
	mu  sync.Mutex
	sql string
}

func (t *statementTracer) TraceQueryStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	if strings.Contains(data.SQL, "FROM invoice") {
		t.mu.Lock()
		t.sql = data.SQL
		t.mu.Unlock()
	}
	return ctx
}

func (*statementTracer) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

func (t *statementTracer) found() (string, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.sql == "" {
		return "", errors.New("no statement that reads invoices was seen")
	}
	return t.sql, nil
}
