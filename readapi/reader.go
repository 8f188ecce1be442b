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
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
	"github.com/ledgerfeed/ledgerfeed/readapi/access"
	"github.com/ledgerfeed/ledgerfeed/readapi/answer"
	"github.com/ledgerfeed/ledgerfeed/readapi/route"
)

// Reader reads for a program that authenticates its users itself, such as the console. It answers
// as the API would answer a GET with the same permissions, through the same checks and handlers.
// Its requests are not limited, counted or recorded. It is safe for concurrent use.
type Reader struct{ api *API }

// NewReader makes a Reader from the Config that New takes. It does not use Keys, Limiter, Requests,
// Metrics and Tracer. Config.Timeout bounds each read, and answers are not cached.
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

// Ask is a request to a Reader.
type Ask struct {
	WorkspaceID string
	Permissions access.Permissions
	Path        string // such as /v1/invoices/in_1042, with the query if there is one
}

// Read is the answer to an Ask.
type Read struct {
	Status int
	Body   []byte // JSON; a problem document if Status is an error

	// Removed is the row that stands in the list with include=removed if Status is 404; nil: there
	// is none.
	Removed []byte
}

// Get answers an Ask. A Status of 503 means that the answer could not be read in time. Get returns
// an error if Path is not a valid address, or if a removed row could not be read.
func (r *Reader) Get(ctx context.Context, ask Ask) (*Read, error) {
	key := &access.Key{WorkspaceID: ask.WorkspaceID, Permissions: ask.Permissions}
	request, err := http.NewRequestWithContext(context.WithValue(ctx, askerKey{}, key), http.MethodGet, ask.Path, http.NoBody)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", ask.Path, err)
	}
	request.RequestURI = ask.Path
	w := &memoryWriter{header: http.Header{}}
	r.api.ServeHTTP(w, request)
	read := &Read{Status: w.status, Body: w.body}
	if read.Status == http.StatusNotFound {
		read.Removed, err = r.api.removedRow(ctx, ask)
	}
	return read, err
}

// Rows reads all rows of a list, from one moment. It calls each with every row, in order, and then end,
// while the list still counts as one that the workspace reads. w is what they write to, or something
// else on the same connection: it says whether the reader still takes anything. If status is not 200,
// neither was called: 400 means that a filter is not valid, 429 that the workspace already reads as many
// lists as it may, 503 that the list cannot be read now. The error is the one that each or end returned.
// If the list cannot be finished, Rows panics with http.ErrAbortHandler.
func (r *Reader) Rows(ctx context.Context, ask Ask, w http.ResponseWriter, each func(row []byte) error, end func() error) (status int, err error) {
	if r.api.cfg.WholeLists.Pool == nil {
		return 0, errNoFiles
	}
	key := &access.Key{WorkspaceID: ask.WorkspaceID, Permissions: ask.Permissions}
	request, err := http.NewRequestWithContext(context.WithValue(ctx, askerKey{}, key), http.MethodGet, ask.Path, http.NoBody)
	if err != nil {
		return 0, fmt.Errorf("read %s: %w", ask.Path, err)
	}
	request.RequestURI = ask.Path
	request.Header.Set("Accept", answer.TypeNDJSON)
	rows := &rowsWriter{to: w, header: http.Header{}, each: each, end: end}
	defer func() {
		if rows.err == nil {
			return
		}
		if recover() != nil { // the list was broken off because of the error
			err = rows.err
		}
	}()
	r.api.ServeHTTP(rows, request)
	return rows.status, rows.err
}

// Beside reads data of a workspace that no endpoint shows, from the database that the API would
// use: the Copy if it shows the log up to position atLeast, otherwise Config.Pool. read may be
// called twice.
func (r *Reader) Beside(ctx context.Context, workspaceID string, atLeast int64, read func(context.Context, pg.DB) error) error {
	if s := r.api.copy; s != nil && s.copy.Usable() {
		err := besideFromCopy(ctx, s, workspaceID, atLeast, read)
		if err == nil || ctx.Err() != nil {
			return err
		}
	}
	return read(ctx, r.api.source.pool)
}

// besideFromCopy reads from the Copy, if it shows enough, until the Copy is lost.
func besideFromCopy(ctx context.Context, s *source, workspaceID string, atLeast int64, read func(context.Context, pg.DB) error) error {
	of, cancel := context.WithCancel(ctx)
	defer cancel()
	if end, ok := ctx.Deadline(); ok { // leave time to read from Config.Pool
		of, cancel = context.WithTimeout(of, time.Until(end)/2)
		defer cancel()
	}
	stay := s.untilLost(cancel)
	defer stay()
	found, err := readPositions(of, s.pool, []string{workspaceID})
	if err != nil {
		return err
	}
	if at, known := found[workspaceID]; !known || at < atLeast {
		return errPassedOver
	}
	return read(of, s.pool)
}

var errNoFiles = errors.New("readapi: files need Config.WholeLists")

// rowsWriter takes the lines of a whole list.
type rowsWriter struct {
	to     http.ResponseWriter
	header http.Header
	status int
	part   []byte // of a line
	each   func(row []byte) error
	end    func() error
	err    error // of each or end
}

func (w *rowsWriter) Header() http.Header    { return w.header }
func (w *rowsWriter) WriteHeader(status int) { w.status = status }

// Unwrap lets http.ResponseController set deadlines.
func (w *rowsWriter) Unwrap() http.ResponseWriter { return w.to }

// FlushError leaves it to each what is sent, and when.
func (*rowsWriter) FlushError() error { return nil }

func (w *rowsWriter) Write(b []byte) (int, error) {
	if w.status != http.StatusOK {
		return len(b), nil
	}
	for line := range bytes.Lines(b) {
		w.part = append(w.part, line...)
		if w.part[len(w.part)-1] != '\n' {
			break
		}
		if bytes.HasPrefix(w.part, []byte(`{"has_more":`)) { // the last line
			w.err = w.end()
		} else {
			w.err = w.each(w.part[:len(w.part)-1])
		}
		if w.err != nil {
			return 0, w.err
		}
		w.part = w.part[:0]
	}
	return len(b), nil
}

// removedRow returns what the list with include=removed shows for the row that a path names; nil:
// nothing.
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

// rowOfPath returns the resource and id of the row that a path names; nil: it names no row.
func rowOfPath(path string) (resource *route.Resource, id string) {
	for _, r := range route.Table() {
		prefix, _, _ := strings.Cut(r.Path, "{id}")
		if id, found := strings.CutPrefix(path, prefix); found && r.Kind == route.Row && domain.IsID(id) {
			return r.Resource, id
		}
	}
	return nil, ""
}

// askerKey is the context key of an Ask's access key.
type askerKey struct{}

// askers is an Authenticator that returns the key that Reader has put into the context.
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

func (noLimit) Take(*access.Key) access.Allowance    { return access.Allowance{OK: true} }
func (noLimit) Left(*access.Key) access.Allowance    { return access.Allowance{OK: true} }
func (noLimit) Refuse(netip.Addr) access.Allowance   { return access.Allowance{OK: true} }
func (noLimit) Refusals(netip.Addr) access.Allowance { return access.Allowance{OK: true} }

// warnings drops log lines below the level of a warning.
type warnings struct{ slog.Handler }

func (h warnings) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn && h.Handler.Enabled(ctx, level)
}
