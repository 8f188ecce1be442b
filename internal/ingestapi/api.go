package ingestapi

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/readapi"
	"github.com/ledgerfeed/ledgerfeed/readapi/access"
	"github.com/ledgerfeed/ledgerfeed/readapi/openapi"
)

// Config configures an API. All fields but Metrics are required.
type Config struct {
	Log    *eventlog.Log // with a short LockTimeout, and connections of its own
	Keys   *KeyDirectory
	Format access.Format // from KeyFormat
	Logger *slog.Logger

	// InFlight is how many bytes of bodies are under way at the same time. The process needs about
	// five times as much memory for them.
	InFlight int64
	// Connections is how many connections the Log has. A key has half of them, and a workspace a quarter.
	Connections int

	Metrics prometheus.Registerer // nil: none
}

// API answers producers. It is an http.Handler.
type API struct {
	cfg         Config
	pages       map[string]page
	share       *share
	lanes, keys *places // appends of a workspace, and of a key
	requests    *prometheus.CounterVec
}

// Paths of an API.
const (
	entriesPath = "/entries"
	errorsPath  = "/docs/errors/" // and a status
)

// New makes an API; it starts nothing and needs no closing.
func New(cfg Config) (*API, error) {
	if cfg.InFlight < MaxBody {
		return nil, fmt.Errorf("ingestapi: InFlight is %d: want at least one body, %d", cfg.InFlight, MaxBody)
	}
	pages, err := newPages()
	if err != nil {
		return nil, err
	}
	a := &API{
		cfg: cfg, pages: pages, share: newShare(cfg.InFlight), lanes: newPlaces(cfg.Connections / 4), keys: newPlaces(cfg.Connections / 2),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "ledgerfeed_ingest_api_requests_total", Help: "Requests of producers to append entries over HTTP, by the status of the answer.",
		}, []string{"status"}),
	}
	for _, m := range append(meanings(), meaning{status: http.StatusOK}) {
		a.requests.WithLabelValues(strconv.Itoa(m.status))
	}
	if cfg.Metrics == nil {
		return a, nil
	}
	for _, c := range []prometheus.Collector{a.requests, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "ledgerfeed_ingest_api_bytes", Help: "Bytes of producers' requests that are under way; LEDGERFEED_INGEST_IN_FLIGHT bounds them.",
	}, func() float64 { return float64(a.share.inUse()) })} {
		if err := cfg.Metrics.Register(c); err != nil {
			return nil, fmt.Errorf("ingestapi: register metrics: %w", err)
		}
	}
	return a, nil
}

// Times that bound what a slow caller can hold.
const (
	readHeaderTimeout = 5 * time.Second
	readTimeout       = 30 * time.Second // of the whole request
	writeTimeout      = 90 * time.Second // from the end of the headers, so the body, waiting and appending are in it
	idleTimeout       = 2 * time.Minute
	maxHeaderBytes    = 16 << 10
)

// NewServer makes the server of an API.
func NewServer(h http.Handler, logger *slog.Logger) *http.Server {
	p := new(http.Protocols)
	p.SetHTTP1(true)
	p.SetHTTP2(true)
	return &http.Server{
		Handler: h, Protocols: p,
		ReadHeaderTimeout: readHeaderTimeout, ReadTimeout: readTimeout, WriteTimeout: writeTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeaderBytes,
		ErrorLog: slog.NewLogLogger(logger.Handler(), slog.LevelDebug), DisableGeneralOptionsHandler: true,
	}
}

// ServeHTTP answers a request.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	requestID := newRequestID()
	h := w.Header()
	h.Set("X-Request-Id", requestID)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	err := a.answer(w, r)
	status := http.StatusOK
	if err != nil {
		p, is := errors.AsType[*problem](err)
		if !is {
			p = internal(err)
		}
		status = p.Status
		a.log(r, requestID, p)
		if err := p.write(w, requestID); err != nil {
			a.cfg.Logger.DebugContext(r.Context(), "cannot answer a producer", "request_id", requestID, "error", err)
		}
	}
	if r.URL.Path == entriesPath {
		a.requests.WithLabelValues(strconv.Itoa(status)).Inc()
	}
}

// log says why a request failed. Texts of requests are not repeated, because they may hold keys or
// names of people.
func (a *API) log(r *http.Request, requestID string, p *problem) {
	level := slog.LevelDebug
	if p.Status >= http.StatusInternalServerError {
		level = slog.LevelWarn
	}
	a.cfg.Logger.Log(r.Context(), level, "a producer's request failed", "request_id", requestID, "status", p.Status, "code", p.Code, "error", p.Cause)
}

func newRequestID() string {
	var id [12]byte
	_, _ = rand.Read(id[:]) // it never fails
	return "req_" + hex.EncodeToString(id[:])
}

// answer answers a request, or returns the *problem to answer with.
func (a *API) answer(w http.ResponseWriter, r *http.Request) error {
	if a.cfg.Format.LooksLikeKey(r.RequestURI) {
		return &problem{Status: http.StatusBadRequest, Code: codeKeyInURL, Detail: "The address holds a key. Addresses end up in logs, so replace the key, and send keys only in the header Authorization: Bearer <KEY>."}
	}
	if r.URL.Path == entriesPath {
		if r.Method != http.MethodPost {
			return methodNotAllowed(w, http.MethodPost)
		}
		return a.postEntries(w, r)
	}
	p, found := a.pages[r.URL.Path]
	switch {
	case !found:
		return &problem{Status: http.StatusNotFound, Code: codeNotFound, Detail: "There is nothing at this path. Entries go to /entries; /openapi.json describes it."}
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		return methodNotAllowed(w, "GET, HEAD")
	}
	w.Header().Set("Content-Type", p.contentType)
	_, _ = w.Write(p.text) // the caller may have gone
	return nil
}

func methodNotAllowed(w http.ResponseWriter, allowed string) error {
	w.Header().Set("Allow", allowed)
	return &problem{Status: http.StatusMethodNotAllowed, Code: codeMethodNotAllowed, Detail: "This path has other methods: " + allowed + "."}
}

// postEntries appends the entries of a request, or tries them out.
func (a *API) postEntries(w http.ResponseWriter, r *http.Request) error {
	key, err := a.cfg.Keys.Authenticate(r.Context(), readapi.KeyOf(r))
	switch {
	case errors.Is(err, ErrKeyRefused):
		return &problem{Status: http.StatusUnauthorized, Code: codeUnauthorized, Detail: "Send a valid producer's key in the header Authorization: Bearer <KEY>. The key is missing, unknown, revoked or replaced. API keys do not append."}
	case err != nil:
		return unavailable(err)
	}
	dryRun, idempotencyKey, err := parameters(r)
	if err != nil {
		return err
	}
	release, ok := a.share.take(key.ID, weight(r))
	if !ok {
		return busy("As much is under way as this key may have, or all producers together.")
	}
	defer release()
	body, err := readBody(w, r)
	if err != nil {
		return err
	}
	e, err := decode(key, body, idempotencyKey)
	if err != nil {
		return err
	}
	do := a.append
	if dryRun {
		do = a.tryOut
	}
	out, err := do(r.Context(), e)
	if err != nil {
		return err
	}
	out.Warnings = e.warnings()
	h := w.Header()
	h.Set("Content-Type", "application/json")
	for _, position := range out.Positions {
		if len(out.Positions) == 1 { // of several workspaces, the body alone says it
			h.Set("Log-Position", strconv.FormatInt(position, 10))
		}
	}
	if err := writeJSON(w, http.StatusOK, out); err != nil {
		a.cfg.Logger.DebugContext(r.Context(), "cannot answer a producer", "error", err)
	}
	return nil
}

// weight is how many bytes a request takes of the share: as many as its body can come to.
func weight(r *http.Request) int64 {
	if r.ContentLength < 0 || r.Header.Get("Content-Encoding") != "" {
		return MaxBody
	}
	return min(max(r.ContentLength, leastWeight), MaxBody)
}

// parameters reads the query and the header Idempotency-Key. The error is a *problem.
func parameters(r *http.Request) (dryRun bool, idempotencyKey string, err error) {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return false, "", wrongParameter("query", "is not a query of a URL")
	}
	for name, values := range query {
		switch {
		case name != "dry_run":
			return false, "", wrongParameter(name, "is not a parameter; the only one is dry_run")
		case len(values) != 1 || values[0] != "true" && values[0] != "false":
			return false, "", wrongParameter(name, "want true or false, once")
		}
		dryRun = values[0] == "true"
	}
	given := r.Header.Values("Idempotency-Key")
	if len(given) == 0 {
		return dryRun, "", nil
	}
	printable := func(c rune) bool { return c >= '!' && c <= '~' }
	if len(given) > 1 || given[0] == "" || len(given[0]) > maxKeyLength || strings.ContainsFunc(given[0], func(c rune) bool { return !printable(c) }) {
		return false, "", wrongParameter("Idempotency-Key", fmt.Sprintf("want 1 to %d visible ASCII characters, such as a UUID, once", maxKeyLength))
	}
	return dryRun, given[0], nil
}

// Probe does what requests need of the database.
func (a *API) Probe(ctx context.Context) error {
	if err := a.cfg.Keys.Probe(ctx); err != nil {
		return fmt.Errorf("probe: %w", err)
	}
	if _, err := a.cfg.Log.Clock(ctx); err != nil {
		return fmt.Errorf("probe: %w", err)
	}
	return nil
}

// page is a text that never changes, which needs no key.
type page struct {
	contentType string
	text        []byte
}

func newPages() (map[string]page, error) {
	schema, err := openapi.EntrySchema(domain.EntryTypes()...)
	if err != nil {
		return nil, fmt.Errorf("ingestapi: %w", err)
	}
	pages := map[string]page{"/openapi.json": {"application/json", document}, "/docs/entries.schema.json": {"application/schema+json", schema}}
	for _, m := range meanings() {
		path := errorsPath + strconv.Itoa(m.status)
		p, there := pages[path]
		if !there {
			p = page{"text/plain; charset=utf-8", fmt.Appendf(nil, "%d: %s\n", m.status, title(m.status))}
		}
		p.text = fmt.Appendf(p.text, "\n%s\n  %s\n", m.code, m.text)
		pages[path] = p
	}
	return pages, nil
}
