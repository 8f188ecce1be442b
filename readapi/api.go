package readapi

import (
	"context"
	"net/http"
	"sync"

	"github.com/go-chi/chi/v5"

	"github.com/ledgerfeed/ledgerfeed/internal/tracing"
	"github.com/ledgerfeed/ledgerfeed/readapi/answer"
	"github.com/ledgerfeed/ledgerfeed/readapi/openapi"
	"github.com/ledgerfeed/ledgerfeed/readapi/route"
)

// API answers requests; it is an http.Handler for a server made by NewServer.
type API struct {
	cfg      Config
	mux      *chi.Mux
	routing  sync.Pool // of *chi.Context
	answers  *answer.Renderer
	document []byte          // the body of /v1/openapi.json
	pages    map[string]page // pages that need no key, by path
	signer   signer
	keys     keyFinder
	cursors  *workspaceSealers
	tags     *tagger
	source   *source // reads Config.Pool
	copy     *source // reads Config.Copy; nil: there is none
	places   *answer.ListPlaces
	cache    *answerCache
	waits    *waits
	metrics  *metrics
}

var _ http.Handler = (*API)(nil)

// New makes an API. Run must run alongside it. Nothing that the API starts for a request outlives
// it by more than Config.Timeout. The error lists everything that is wrong with cfg.
func New(cfg Config) (*API, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	info := openapi.Info{Brand: cfg.Brand, BaseURL: cfg.BaseURL, DocsURL: cfg.DocsURL}
	document, err := openapi.Document(info)
	if err != nil {
		return nil, err
	}
	answers, err := answer.NewRenderer(cfg.DocsURL, cfg.Logger)
	if err != nil {
		return nil, err
	}
	pages, err := newPages(info, cfg.Signing, document)
	if err != nil {
		return nil, err
	}
	signer, err := newSigner(&cfg)
	if err != nil {
		return nil, err
	}
	source := newSource(&cfg, cfg.Pool, cfg.WholeLists.Pool, cfg.Feed, cfg.Timeout)
	waits := newWaits(&cfg)
	places := answer.NewListPlaces(cfg.WholeLists.Most, cfg.WholeLists.MostOfWorkspace, cfg.WholeLists.Keep)
	metrics, err := newMetrics(cfg.Metrics, source.shares, places, waits)
	if err != nil {
		return nil, err
	}
	a := &API{
		cfg:      cfg,
		mux:      chi.NewRouter(),
		answers:  answers,
		document: document,
		pages:    pages,
		signer:   signer,
		keys:     keyFinder{format: cfg.Format, brand: cfg.Brand.KeyPrefix()},
		cursors:  newWorkspaceSealers(cfg.CursorKey),
		tags:     newTagger(cfg.CursorKey, document),
		source:   source,
		copy:     newCopy(&cfg),
		places:   places,
		cache:    newAnswerCache(max(0, cfg.CacheBytes)),
		waits:    waits,
		metrics:  metrics,
	}
	a.routing.New = func() any { return chi.NewRouteContext() }
	a.mountRoutes()
	return a, nil
}

// mountRoutes mounts the route table on the mux. The numbers refer to docs/contract/decisions.md,
// "Requests, in the order in which they are checked".
func (a *API) mountRoutes() {
	a.mux.Use(
		check(checkSize),
		check(checkMethod), // 1
		check(checkURL),    // 2
		answerPages,
		check(identify),
		check(checkSlowDown), // 3
		check(checkKey),      // 4
		check(checkRate),     // 5
		check(checkMoved),
		decodePath, // 6: the mux matches the decoded path next
	)
	a.mux.NotFound(handler(answerUnknownPath).ServeHTTP)
	for _, r := range route.Table() {
		e := newEndpoint(r)
		e.answer, e.version = a.handlers(r)
		a.mount(e.Pattern(), e.enter)
		if e.StreamsWhole() && a.cfg.WholeLists.Pool != nil {
			a.mount(e.Pattern()+".ndjson", e.enterAs(answer.NDJSON))
			a.mount(e.Pattern()+".csv", e.enterAs(answer.CSV))
		}
	}
}

// mount mounts an endpoint at a path.
func (a *API) mount(pattern string, enter func(http.Handler) http.Handler) {
	found := a.mux.With(enter)
	found.Method(http.MethodOptions, pattern, handler(answerMethods))
	checked := found.With(
		check(checkPermission), // 7
		check(checkParams),     // 8
	)
	checked.Method(http.MethodGet, pattern, handler(answerRequest)) // 9
	checked.Method(http.MethodHead, pattern, handler(answerRequest))
}

// handlers returns an endpoint's answer and version functions.
func (a *API) handlers(r route.Route) (handle func(*request) error, version func(*request) (version, error)) {
	switch r.Kind {
	case route.Rows:
		return answerRows, rowsVersion
	case route.Row:
		return answerRow, rowsVersion
	case route.Totals:
		return answerTotals, rowsVersion
	case route.Credit:
		return answerCredit, rowsVersion
	case route.Events:
		return answerEvents, feedVersion
	case route.Event:
		return answerEvent, nil
	case route.Checkpoint:
		return answerCheckpoint, checkpointVersion
	case route.Tile:
		return answerTile, nil
	case route.Bundle:
		return answerBundle, nil
	case route.KeyInfo:
		return answerKeyInfo, nil
	case route.Document:
		return answerDocument, documentVersion
	}
	panic("readapi: a route of an unknown kind")
}

// ServeHTTP answers one request.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if a.cfg.Tracer != nil {
		ctx, span := tracing.StartRequest(a.cfg.Tracer, r)
		defer span.End()
		r = r.WithContext(ctx)
	}
	base := r.Context()
	release, ok := takePlace(r)
	if !ok {
		a.refuseStream(w, r)
		return
	}
	defer release()
	ctx, cancel := context.WithTimeout(base, a.cfg.Timeout)
	defer cancel()
	q := a.newRequest(ctx, w, r)
	q.known = release
	defer a.record(q)
	defer func() { q.answerPanic(recover()) }()
	if !mayWait(r) {
		a.route(q, w)
		return
	}
	inGoroutine(q, func() { a.route(q, w) })
	if q.wait.behind || q.wait.empty != nil {
		cancel()
		if err := a.await(base, q); err != nil {
			q.refuse(err)
		}
	}
}

// route lets the mux answer a request.
func (a *API) route(q *request, w http.ResponseWriter) {
	q.routing = a.routing.Get().(*chi.Context)
	q.routing.Reset()
	defer a.routing.Put(q.routing)
	a.mux.ServeHTTP(w, q.http.WithContext(q))
}

// endpoint is a route with everything that its requests need, prepared once by New.
type endpoint struct {
	route.Route

	// answer writes the answer to a request that passed all checks.
	answer func(*request) error

	// version returns the version of the answer without making the answer. Nil: the version is
	// known only once the answer is made.
	version func(*request) (version, error)

	// Indexes into Params; -1 if the endpoint has no such parameter.
	limit, cursor, since, enum, include, from, to, open, groups int

	filters    []filter
	statements sync.Map // from statementKey to string
}

// filter is a parameter whose value a column must equal.
type filter struct {
	param  int // index in Params
	column string
}

// statementKey identifies one of an endpoint's statements.
type statementKey struct {
	given   uint // bit i: filter i is used
	visible visibility
	removed bool // include rows that have left the list
	days    bool // only rows of a range of days
	open    openFilter
}

// openFilter selects invoices by whether they are open.
type openFilter uint8

const (
	anyOpen openFilter = iota
	onlyOpen
	notOpen
)

// keyOf returns the key of a request's statement, and the arguments of its filters.
func (e *endpoint) keyOf(q *request) (key statementKey, args []any) {
	key = statementKey{visible: q.visible, removed: q.params.has(e.include), days: q.params.has(e.from) || q.params.has(e.to)}
	for i, f := range e.filters {
		if q.params.has(f.param) {
			key.given |= 1 << i
			args = append(args, q.params.get(f.param))
		}
	}
	if q.params.has(e.open) {
		key.open = notOpen
		if q.params.get(e.open) == "true" {
			key.open = onlyOpen
		}
	}
	if key.days {
		args = append(args, daysValues(e.Resource, q.params.get(e.from), q.params.get(e.to))...)
	}
	return key, args
}

func newEndpoint(r route.Route) *endpoint {
	if len(r.Params) > maxParams {
		panic("readapi: " + r.Path + " has too many parameters") // a mistake in the route table, which every test uses
	}
	e := &endpoint{Route: r, limit: -1, cursor: -1, since: -1, enum: -1, include: -1, from: -1, to: -1, open: -1, groups: -1}
	for i := range e.Params {
		p := &e.Params[i]
		switch {
		case p.Form == route.FormLimit:
			e.limit = i
		case p.Form == route.FormCursor:
			e.cursor = i
		case p.Form == route.FormTime:
			e.since = i
		case p.Form == route.FormInclude:
			e.include = i
		case p.Form == route.FormDateFrom:
			e.from = i
		case p.Form == route.FormDateTo:
			e.to = i
		case p.Form == route.FormOpen:
			e.open = i
		case p.Form == route.FormGroups:
			e.groups = i
		case p.Column != "":
			e.filters = append(e.filters, filter{param: i, column: p.Column})
		default:
			e.enum = i
		}
	}
	return e
}

// cacheable reports whether answers are cached. Using a cached answer means reading the version
// first, so caching pays only if the answer costs more than that. A single row does not.
func (e *endpoint) cacheable() bool { return e.version != nil && e.Kind != route.Row }

// whole returns the statement that reads the whole list for a key. It builds the statement each
// time, which costs nothing compared with reading the list.
func (e *endpoint) whole(key statementKey) string { return wholeStatement(e.Resource, e.filters, key) }

// statement returns the statement for a key. It is made when it is first needed.
func (e *endpoint) statement(key statementKey) string {
	if made, ok := e.statements.Load(key); ok {
		return made.(string)
	}
	var made string
	switch e.Kind {
	case route.Row:
		made = rowStatement(e.Resource, key.visible)
	case route.Rows:
		made = pageStatement(e.Resource, e.filters, key)
	case route.Credit:
		made = creditStatement()
	default:
		panic("readapi: " + e.Path + " has no statement")
	}
	e.statements.Store(key, made)
	return made
}
