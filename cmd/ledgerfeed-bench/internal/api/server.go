// Package api runs the read API for benchmarks as ledgerfeed serve does, and sends
// requests to it.
package api

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed-bench/internal/measure"
	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/internal/brand"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
	"github.com/ledgerfeed/ledgerfeed/internal/signingkey"
	"github.com/ledgerfeed/ledgerfeed/readapi"
	"github.com/ledgerfeed/ledgerfeed/readapi/access"
	"github.com/ledgerfeed/ledgerfeed/readapi/requestlog"
)

// Server is the read API on a listener.
type Server struct {
	Address   string // host:port
	Handler   *readapi.API
	Directory *access.Directory
	keys      *access.Store
}

// NoCache turns the cache of responses off.
const NoCache = -1

// Options of a Server.
type Options struct {
	CacheBytes int  // NoCache, or above 0
	RequestLog bool // write every request to the request log, as serve does
	MaxWaits   int  // readapi.Config.MaxWaits

	lists readapi.WholeLists // none without Serve
}

// Serve serves the API until ctx ends, with everything that a request passes in
// production: keys, limits, headers, a log line and metrics.
func Serve(ctx context.Context, db *measure.Database, o Options) (*Server, error) {
	pool, err := pg.Open(ctx, db.URL, pg.Options{MaxConns: 12, ReadBuffer: readapi.ReadBuffer, Settings: readapi.PoolSettings(), CancelStatements: true})
	if err != nil {
		return nil, err
	}
	context.AfterFunc(ctx, pool.Close)
	lists, err := pg.Open(ctx, db.URL, pg.Options{MaxConns: 4, ReadBuffer: readapi.ReadBuffer, Settings: readapi.WholeListPoolSettings(time.Hour), CancelStatements: true})
	if err != nil {
		return nil, err
	}
	context.AfterFunc(ctx, lists.Close)
	o.lists = readapi.WholeLists{Pool: lists, Timeout: time.Hour}
	return ServeFrom(ctx, db, pool, pool, o)
}

// ServeFrom is Serve with the caller's connections for requests, and for
// the feed.
func ServeFrom(ctx context.Context, db *measure.Database, pool, feed pg.DB, o Options) (*Server, error) {
	format := access.NewFormat(brand.Brand{})
	keys, err := access.NewStore(access.StoreConfig{Pool: db.Pool, Format: format})
	if err != nil {
		return nil, err
	}
	directory, err := access.NewDirectory(access.DirectoryConfig{Pool: db.Pool, Format: format})
	if err != nil {
		return nil, err
	}
	limiter, err := access.NewLimiter(access.LimiterConfig{Pool: db.Pool})
	if err != nil {
		return nil, err
	}
	cursorKey, err := readapi.SharedCursorKey(ctx, db.Pool)
	if err != nil {
		return nil, err
	}
	text, err := signingkey.New(rand.Reader)
	if err != nil {
		return nil, err
	}
	signing, err := signingkey.Parse(text)
	if err != nil {
		return nil, err
	}
	runs := []func(context.Context) error{directory.Run, limiter.Run}
	var requests readapi.RequestLog
	if o.RequestLog {
		store, err := requestlog.New(requestlog.Config{Pool: db.Pool, Clock: time.Now, Logger: measure.NoLogger()})
		if err != nil {
			return nil, err
		}
		requests, runs = store, append(runs, store.Run)
	}
	handler, err := readapi.New(readapi.Config{
		Pool: pool, Feed: eventlog.NewFeed(feed), Keys: directory, Format: format, Limiter: limiter, Clock: time.Now,
		Logger:   slog.New(slog.NewJSONHandler(io.Discard, nil)), //nolint:sloglint // making its lines is measured, too
		Notifier: db.Notifier, Requests: requests, Metrics: prometheus.NewRegistry(), CacheBytes: o.CacheBytes, WholeLists: o.lists, MaxWaits: o.MaxWaits,
		BaseURL: "http://localhost", DocsURL: "http://localhost/docs", CursorKey: cursorKey, Signing: signing,
	})
	if err != nil {
		return nil, err
	}
	for _, run := range append(runs, handler.Run) {
		go func() { _ = run(ctx) }()
	}
	address, err := Listen(ctx, readapi.NewServer(handler, measure.NoLogger()))
	return &Server{Address: address, Handler: handler, Directory: directory, keys: keys}, err
}

// Listen serves on a free port of this machine until ctx ends.
func Listen(ctx context.Context, server *http.Server) (address string, err error) {
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("cannot listen: %w", err)
	}
	go func() { _ = server.Serve(listener) }()
	context.AfterFunc(ctx, func() { _ = server.Close() })
	return listener.Addr().String(), nil
}

// Get sends a request once; the caller closes the body.
func (s *Server) Get(ctx context.Context, q Request) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.Address+q.Path, http.NoBody)
	if err != nil {
		return nil, fmt.Errorf("cannot get %s: %w", q.Path, err)
	}
	req.Header.Set("Authorization", "Bearer "+q.Key)
	req.Header.Set("Accept-Encoding", cmp.Or(q.Encoding, "identity"))
	if q.Accept != "" {
		req.Header.Set("Accept", q.Accept)
	}
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		return nil, fmt.Errorf("cannot get %s: %w", q.Path, err)
	}
	if resp.StatusCode != http.StatusOK {
		_ = resp.Body.Close()
		return nil, fmt.Errorf("%s answered %s", q.Path, resp.Status)
	}
	return resp, nil
}

// ETag is the ETag of the response to a request.
func (s *Server) ETag(ctx context.Context, q Request) (string, error) {
	resp, err := s.Get(ctx, q)
	if err != nil {
		return "", err
	}
	return resp.Header.Get("ETag"), resp.Body.Close()
}

// CursorAfter follows a list, whose path has a query, for some pages or to its
// end, and returns the cursor there.
func (s *Server) CursorAfter(ctx context.Context, list Request, pages int) (string, error) {
	cursor, more := "", true
	for n := 0; n < pages && more; n++ {
		path := list.Path
		if cursor != "" {
			path += "&cursor=" + cursor
		}
		resp, err := s.Get(ctx, Request{Path: path, Key: list.Key})
		if err != nil {
			return "", err
		}
		var page struct {
			NextCursor string `json:"next_cursor"`
			HasMore    bool   `json:"has_more"`
		}
		err = errors.Join(json.NewDecoder(resp.Body).Decode(&page), resp.Body.Close())
		if err != nil {
			return "", fmt.Errorf("cannot read a page: %w", err)
		}
		cursor, more = url.QueryEscape(page.NextCursor), page.HasMore
	}
	return cursor, nil
}

// NewKey makes a key for a workspace, with every permission and the highest rate
// limit.
func (s *Server) NewKey(ctx context.Context, workspaceID string) (string, error) {
	return newKey(ctx, s.keys, workspaceID)
}

// NewKey is NewKey of a Server for one that another process runs.
func NewKey(ctx context.Context, db *measure.Database, workspaceID string) (string, error) {
	keys, err := access.NewStore(access.StoreConfig{Pool: db.Pool, Format: access.NewFormat(brand.Brand{})})
	if err != nil {
		return "", err
	}
	return newKey(ctx, keys, workspaceID)
}

func newKey(ctx context.Context, keys *access.Store, workspaceID string) (string, error) {
	_, secret, err := keys.Create(ctx, access.NewKey{
		WorkspaceID: workspaceID, Name: "benchmark", Permissions: access.PermissionsOf(access.AllPermissions()...), RateLimit: access.MaxRateLimit,
	})
	if err != nil {
		return "", fmt.Errorf("cannot make a key: %w", err)
	}
	return secret.Reveal(), nil
}
