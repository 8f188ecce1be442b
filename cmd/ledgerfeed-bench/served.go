package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/ledgerfeed/ledgerfeed/internal/brand"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
	"github.com/ledgerfeed/ledgerfeed/readapi"
	"github.com/ledgerfeed/ledgerfeed/readapi/access"
	"github.com/ledgerfeed/ledgerfeed/readapi/access/limit"
	"github.com/ledgerfeed/ledgerfeed/readapi/requestlog"
)

// served is the read API on a listener, as serve has it.
type served struct {
	address   string
	api       *readapi.API
	keys      *access.Store
	directory *access.Directory
}

// noCache keeps no answers: every request is worked out anew.
const noCache = -1

// serving is how the API runs: how many answers are kept, and whether every request is
// recorded for the console, which is work for the database beside the answers.
type serving struct {
	cacheBytes int
	recorded   bool
}

// serve serves the API until ctx ends, with everything on that is on a request's
// path: keys, limits, headers, a log line and measures.
func (s *setting) serve(ctx context.Context, as serving) (*served, error) {
	pool, err := pg.Open(ctx, s.url, pg.Options{MaxConns: 12, ReadBuffer: readapi.ReadBuffer, Settings: readapi.PoolSettings()})
	if err != nil {
		return nil, err
	}
	context.AfterFunc(ctx, pool.Close)
	return s.serveFrom(ctx, pool, as)
}

func (s *setting) serveFrom(ctx context.Context, pool *pgxpool.Pool, as serving) (*served, error) {
	format := access.NewFormat(brand.Brand{})
	keys, err := access.NewStore(access.StoreConfig{Pool: s.pool, Format: format})
	if err != nil {
		return nil, err
	}
	directory, err := access.NewDirectory(access.DirectoryConfig{Pool: s.pool, Format: format})
	if err != nil {
		return nil, err
	}
	limiter, err := limit.New(limit.Config{Pool: s.pool})
	if err != nil {
		return nil, err
	}
	cursorKey, err := readapi.SharedCursorKey(ctx, s.pool)
	if err != nil {
		return nil, err
	}
	runs := []func(context.Context) error{directory.Run, limiter.Run}
	var requests readapi.RequestLog
	if as.recorded {
		store, err := requestlog.New(requestlog.Config{Pool: s.pool, Clock: time.Now, Logger: quiet()})
		if err != nil {
			return nil, err
		}
		requests, runs = store, append(runs, store.Run)
	}
	api, err := readapi.New(readapi.Config{
		Pool: pool, Log: s.log, Keys: directory, Format: format, Limiter: limiter, Clock: time.Now,
		Logger:   slog.New(slog.NewJSONHandler(io.Discard, nil)), //nolint:sloglint // its lines are to be made, not kept
		Requests: requests, Metrics: prometheus.NewRegistry(), CacheBytes: as.cacheBytes,
		BaseURL: "http://localhost", DocsURL: "http://localhost/docs", CursorKey: cursorKey,
	})
	if err != nil {
		return nil, err
	}
	for _, run := range runs {
		go func() { _ = run(ctx) }()
	}
	address, err := listen(ctx, readapi.NewServer(api, quiet()))
	return &served{address: address, api: api, keys: keys, directory: directory}, err
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

// cursorAt follows a list (path has a query) for so many pages, or to its end,
// and returns the cursor there.
func (s *served) cursorAt(ctx context.Context, list request, pages int) (string, error) {
	cursor, more := "", true
	for n := 0; n < pages && more; n++ {
		path := list.path
		if cursor != "" {
			path += "&cursor=" + cursor
		}
		resp, err := s.get(ctx, request{path: path, key: list.key})
		if err != nil {
			return "", err
		}
		var page struct {
			NextCursor string `json:"next_cursor"`
			HasMore    bool   `json:"has_more"`
		}
		err = errors.Join(json.NewDecoder(resp.Body).Decode(&page), resp.Body.Close())
		if err != nil {
			return "", fmt.Errorf("read a page: %w", err)
		}
		cursor, more = url.QueryEscape(page.NextCursor), page.HasMore
	}
	return cursor, nil
}

// key makes a key for a workspace that no limit stops.
func (s *served) key(ctx context.Context, workspaceID string) (string, error) {
	_, secret, err := s.keys.Create(ctx, access.NewKey{
		WorkspaceID: workspaceID, Name: "benchmark", Permissions: access.PermissionsOf(access.AllPermissions()...), RateLimit: access.MaxRateLimit,
	})
	if err != nil {
		return "", fmt.Errorf("make a key: %w", err)
	}
	return secret.Reveal(), nil
}
