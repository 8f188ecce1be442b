package readapi

import (
	"context"
	"net/http"

	"github.com/go-chi/chi/v5"

	"github.com/ledgerfeed/ledgerfeed/internal/tracing"
	"github.com/ledgerfeed/ledgerfeed/readapi/answer"
	"github.com/ledgerfeed/ledgerfeed/readapi/openapi"
	"github.com/ledgerfeed/ledgerfeed/readapi/route"
	"github.com/ledgerfeed/ledgerfeed/readapi/wholelist"
)

// New makes an API, for which Run must run. Nothing that New starts outlives a request by
// more than Config.Timeout. The error says everything that is wrong with cfg.
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
	pages, err := newPages(info, cfg.Signing, document, answers)
	if err != nil {
		return nil, err
	}
	signer, err := newSigner(&cfg)
	if err != nil {
		return nil, err
	}
	source := newSource(&cfg, cfg.Pool, cfg.WholeLists.Pool, cfg.Feed)
	waits := newWaits(&cfg)
	places := wholelist.NewPlaces(cfg.WholeLists.Most, cfg.WholeLists.MostOfWorkspace, cfg.WholeLists.Keep)
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

// mountRoutes mounts the route table on the mux. The numbers are those of
// docs/contract/decisions.md, "Requests, in the order in which they are checked".
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
		decodePath, // 6, which is what the mux does next
	)
	a.mux.NotFound(handler(answerUnknownPath).ServeHTTP)
	for _, r := range route.Table() {
		e := newEndpoint(r)
		e.answer, e.version = a.handlers(r)
		found := a.mux.With(e.enter)
		found.Method(http.MethodOptions, e.Pattern(), handler(answerMethods))
		checked := found.With(
			check(checkPermission), // 7
			check(checkParams),     // 8
		)
		checked.Method(http.MethodGet, e.Pattern(), handler(answerRequest)) // 9
		checked.Method(http.MethodHead, e.Pattern(), handler(answerRequest))
	}
}

// handlers returns the two functions of an endpoint, answer and version.
func (a *API) handlers(r route.Route) (handle func(*request) error, version func(*request) (version, error)) {
	switch r.Kind {
	case route.Rows:
		return answerRows, rowsVersion
	case route.Row:
		return answerRow, rowsVersion
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
	apart(q, func() { a.route(q, w) })
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
