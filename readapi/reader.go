package readapi

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/readapi/access"
	"github.com/ledgerfeed/ledgerfeed/readapi/access/limit"
	"github.com/ledgerfeed/ledgerfeed/readapi/route"
)

// Reader reads for a program that has found out by itself who asks, such as the console:
// it answers what GET on a path answers a key with some permissions, through the same
// checks and handlers. Its requests are not limited, counted or recorded. It is safe for
// concurrent use.
type Reader struct{ api *API }

// NewReader makes a Reader of the API that New would make of cfg. Of cfg, Keys, Limiter,
// Requests, Metrics and Tracer are not used. Config.Timeout bounds each read, and answers
// are not cached.
func NewReader(cfg Config) (*Reader, error) {
	cfg.Keys, cfg.Limiter = askers{}, noLimit{}
	cfg.Requests, cfg.Metrics, cfg.Tracer = nil, nil, nil
	cfg.CacheBytes = -1
	if cfg.Logger != nil {
		cfg.Logger = slog.New(warnings{cfg.Logger.Handler()}) // no line for each request
	}
	api, err := New(cfg)
	if err != nil {
		return nil, err
	}
	return &Reader{api}, nil
}

// Ask is who asks for what.
type Ask struct {
	WorkspaceID string
	Permissions access.Permissions
	Path        string // such as /v1/invoices/in_1042, with the query if there is one
}

// Read is the answer to an Ask.
type Read struct {
	Status int
	Body   []byte // JSON; a problem document where Status says so

	// Removed is what stands in the list with include=removed for a row that Status says
	// is not there; nil: nothing does.
	Removed []byte
}

// Get answers an Ask. A Status of 503 says that the answer could not be read in time. The
// error is about a Path that is no address, or a removed row that could not be read.
func (r *Reader) Get(ctx context.Context, ask Ask) (*Read, error) {
	key := &access.Key{WorkspaceID: ask.WorkspaceID, Permissions: ask.Permissions}
	request, err := http.NewRequestWithContext(context.WithValue(ctx, askerKey{}, key), http.MethodGet, ask.Path, http.NoBody)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", ask.Path, err)
	}
	request.RequestURI = ask.Path
	w := &readWriter{header: http.Header{}}
	r.api.ServeHTTP(w, request)
	read := &Read{Status: w.status, Body: w.body.Bytes()}
	if read.Status == http.StatusNotFound {
		read.Removed, err = r.api.removedRow(ctx, ask)
	}
	return read, err
}

// removedRow returns what stands in the list with include=removed for the row of a path;
// nil: nothing does.
func (a *API) removedRow(ctx context.Context, ask Ask) ([]byte, error) {
	resource, id := rowOfPath(ask.Path)
	if resource == nil {
		return nil, nil
	}
	table := removedTable(resource, visibilityOf(ask.Permissions))
	if table == "" {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, a.cfg.Timeout)
	defer cancel()
	var base []byte
	err := a.cfg.Pool.QueryRow(ctx, `SELECT base FROM `+table+` WHERE workspace_id = $1 AND id = $2`, ask.WorkspaceID, id).Scan(&base)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read what stands for the removed %s: %w", ask.Path, err)
	}
	var row bytes.Buffer
	appendRow(&row, [][]byte{base})
	return row.Bytes(), nil
}

// rowOfPath is what a path names by its id; nil: no row.
func rowOfPath(path string) (resource *route.Resource, id string) {
	for _, r := range route.Table() {
		prefix, _, _ := strings.Cut(r.Path, "{id}")
		if id, found := strings.CutPrefix(path, prefix); found && r.Kind == route.Row && domain.IsID(id) {
			return r.Resource, id
		}
	}
	return nil, ""
}

// attachmentKey finds the name of the file in a context that Reader.File made.
type attachmentKey struct{}

// attachment is the name of the file as which the answer is kept; empty: none.
func attachment(ctx context.Context) string {
	name, _ := ctx.Value(attachmentKey{}).(string)
	return name
}

// askerKey finds the key of an Ask in a context.
type askerKey struct{}

// askers finds the key that Reader.Get has put into the context.
type askers struct{}

func (askers) Authenticate(ctx context.Context, _ string) (*access.Key, error) {
	if key, ok := ctx.Value(askerKey{}).(*access.Key); ok {
		return key, nil
	}
	return nil, access.ErrRefused
}

func (a askers) AuthenticateSlowly(ctx context.Context, text string) (*access.Key, error) {
	return a.Authenticate(ctx, text)
}

type noLimit struct{}

func (noLimit) Take(*access.Key) limit.Allowance    { return limit.Allowance{OK: true} }
func (noLimit) Refuse(netip.Addr) limit.Allowance   { return limit.Allowance{OK: true} }
func (noLimit) Refusals(netip.Addr) limit.Allowance { return limit.Allowance{OK: true} }

// readWriter keeps what is written.
type readWriter struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (w *readWriter) Header() http.Header         { return w.header }
func (w *readWriter) WriteHeader(status int)      { w.status = status }
func (w *readWriter) Write(b []byte) (int, error) { return w.body.Write(b) }

// warnings leaves out lines below the level of a warning.
type warnings struct{ slog.Handler }

func (h warnings) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn && h.Handler.Enabled(ctx, level)
}
