package readapi

import (
	"context"
	"crypto/aes"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"time"

	"github.com/ledgerfeed/ledgerfeed/readapi/access"
	"github.com/ledgerfeed/ledgerfeed/readapi/answer"
	"github.com/ledgerfeed/ledgerfeed/readapi/route"
)

// Statement is one prepared statement, for the tests of plans.
type Statement struct {
	Path    string
	Table   string
	Filters []string // columns that are filtered, in the order of the arguments after the fixed ones
	One     bool     // reads one row by id
	Removed bool     // with the rows that have left
	Whole   bool     // reads the list to its end
	Days    bool     // of a range of days, whose three arguments follow
	Sums    bool     // adds up rows
	Open    bool     // by whether invoices are open
	Turned  bool     // of a Page, the newest first
	SQL     string
}

// Statements are all statements that read a read table, without CreditStatement.
func Statements() []Statement {
	var list []Statement
	for _, r := range route.Table() {
		if r.Kind != route.Rows && r.Kind != route.Row && r.Kind != route.Totals {
			continue
		}
		e := newEndpoint(r)
		for _, key := range e.keys() {
			s := Statement{Path: r.Path, Table: r.Resource.Table, One: r.Kind == route.Row, Removed: key.removed, Days: key.days, Open: key.open != anyOpen}
			for i, f := range e.filters {
				if key.given&(1<<i) != 0 {
					s.Filters = append(s.Filters, f.column)
				}
			}
			if r.Kind == route.Totals {
				q := &request{target: target{endpoint: e}, visible: key.visible}
				t := newTotalsQuery(q)
				s.SQL, s.Sums = totalsStatement(r.Resource, e.filters, key, &t), true
				list = append(list, s)
				continue
			}
			s.SQL = e.statement(key)
			list = append(list, s)
			if r.Kind == route.Rows {
				s.SQL, s.Whole = e.whole(key), true
				list = append(list, s)
			}
			if s.Whole && !key.removed {
				s.Whole, s.Turned = false, true
				for _, t := range []turn{{}, {at: Place{Newer: true}}} {
					s.SQL = turnStatement(r.Resource, e.filters, key, &t)
					list = append(list, s)
				}
			}
		}
	}
	return list
}

// keys are the keys of all statements of an endpoint.
func (e *endpoint) keys() (list []statementKey) {
	flags := func(param int) []bool {
		if param < 0 {
			return []bool{false}
		}
		return []bool{false, true}
	}
	opens := []openFilter{anyOpen}
	if e.open >= 0 {
		opens = append(opens, onlyOpen, notOpen)
	}
	for _, visible := range []visibility{{}, {pay: true}, {pay: true, margin: true}} {
		for given := range uint(1) << len(e.filters) {
			for _, removed := range flags(e.include) {
				for _, days := range flags(e.from) {
					for _, open := range opens {
						list = append(list, statementKey{given, visible, removed, days, open})
					}
				}
			}
		}
	}
	return list
}

// WithStatement reads the rows of a table that have a value in a column, NamedStatement those with a
// name, and NumberedStatement invoices with a document of a number.
func WithStatement(table, column string) string { return turnOf(table, &turn{column: column}) }

func NamedStatement(table string) string { return turnOf(table, &turn{name: "a"}) }

func NumberedStatement() string { return turnOf("invoice", &turn{document: "a"}) }

func turnOf(table string, t *turn) string {
	routes := route.Table()
	r := routes[slices.IndexFunc(routes, func(r route.Route) bool { return r.Kind == route.Rows && r.Resource.Table == table })]
	return turnStatement(r.Resource, nil, statementKey{}, t)
}

// CreditStatement reads a credit.
func CreditStatement() string { return creditStatement() }

// PreferredWait reads Prefer.
func PreferredWait(headers []string) int { return preferredWait(headers) }

// Shares are the connections for pages.
type Shares struct{ *shares }

// NewShares makes as many connections as one workspace may have.
func NewShares(n int) Shares { return Shares{newShares(n, n, time.Minute)} }

// Take uses a connection.
func (s Shares) Take(ctx context.Context) (release func(), err error) { return s.take(ctx, "acme") }

// Pace is that of a whole list beside the pages.
func (s Shares) Pace() Pace { return Pace{newPace(s.shares)} }

// Pace is how fast a whole list is sent.
type Pace struct{ *pace }

// Yield lets pages go first.
func (p Pace) Yield(ctx context.Context) { p.yield(ctx) }

// PositionTimeout is how long a request waits for a position if a test does not say else.
const PositionTimeout = positionTimeout

// Wait sets how long requests wait: a second of Prefer, for a position, and between two
// looks at positions; 0: as long as in a running service.
func (c *Config) Wait(second, position, sweep time.Duration) {
	c.waiting = waitTimes{second, position, sweep}
}

// SharingReads is how many requests wait for what another one reads.
func (a *API) SharingReads() (n int) {
	a.waits.reads.mu.Lock()
	defer a.waits.reads.mu.Unlock()
	for _, read := range a.waits.reads.reads {
		n += read.joined
	}
	return n
}

// HoldShare takes all that the workspace acme may use of the connections for pages, and has
// requests wait for it for a time.
func (a *API) HoldShare(ctx context.Context, wait time.Duration) error {
	s := a.source.shares
	s.wait = wait
	for range s.each {
		if _, err := s.take(ctx, "acme"); err != nil {
			return err
		}
	}
	return nil
}

// InURL is what the second check asks.
func (a *API) InURL(uri, query string) bool { return a.keys.inURL(uri, query) }

// OpenCursor opens a cursor sealed by SealCursor.
func (a *API) OpenCursor(associated []byte, cursor string) ([]byte, bool) {
	return a.cursors.of("acme").open(associated, cursor)
}

// SealCursor seals a position.
func (a *API) SealCursor(associated, position []byte) string {
	return a.cursors.of("acme").seal(associated, position)
}

// EarlierCursor is what an earlier version would have given in place of a cursor of events: sealed
// under keys with the name of its form, and without what the key could see.
func (a *API) EarlierCursor(form, workspaceID, query, cursor string) (string, error) {
	q := &request{api: a, key: &access.Key{WorkspaceID: workspaceID}}
	table := route.Table()
	q.endpoint = newEndpoint(table[slices.IndexFunc(table, func(r route.Route) bool { return r.Kind == route.Events })])
	q.params.parse(q.endpoint.Params, query+"&cursor="+cursor, "")
	key := WorkspaceCursorKey(a.cfg.CursorKey, workspaceID)
	block, err := aes.NewCipher(deriveKey(key, "cursor cipher"+form))
	if err != nil {
		return "", err
	}
	sealer := &cursorSealer{mac: newKeyedHash(deriveKey(key, "cursor proof"+form)), block: block}
	return sealer.seal(q.associatedData(), q.position()), nil
}

// Joined is what a request that waits makes of a read that another one does: it demands
// atLeast, its page without rows is of the position seen, and the read is of another
// position, or does not end before the request's time. accepted reports whether it is
// answered with that read; the error is what it would be refused with.
func Joined(atLeast, seen, read int64, ends bool) (accepted bool, err error) {
	table := route.Table()
	e := newEndpoint(table[slices.IndexFunc(table, func(r route.Route) bool { return r.Kind == route.Rows })])
	e.answer = func(*request) error { return errBehind } // if it reads by itself
	answers, err := answer.NewRenderer("https://docs.example.com", slog.New(slog.DiscardHandler))
	if err != nil {
		return false, err
	}
	w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, e.Path, http.NoBody)
	reads := newSharedReads()
	a := &API{answers: answers, cache: newAnswerCache(0), waits: &waits{reads: reads}, tags: newTagger(make([]byte, cursorKeySize), nil)}
	if a.metrics, err = newMetrics(nil, nil, nil, nil); err != nil {
		return false, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if !ends {
		ctx, cancel = context.WithTimeout(ctx, 0)
		defer cancel()
	}
	q := &request{Context: ctx, api: a, http: r, target: target{endpoint: e}, key: &access.Key{WorkspaceID: "acme"}, out: answers.Writer(w, r, "x")}
	q.wait = waiter{atLeast: atLeast, seconds: 1, empty: &emptyPage{nil, version{name: "seen", position: seen}}}
	shared, _ := reads.join(sharedKeyOf(q))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for ends {
			reads.mu.Lock()
			joined := shared.joined > 0
			reads.mu.Unlock()
			if joined {
				reads.end(sharedKeyOf(q), shared, func() {
					shared.found, shared.body, shared.version, shared.rows = true, []byte("{}"), version{name: "read", position: read}, 1
				})
				return
			}
			runtime.Gosched()
		}
	}()
	err = reads.read(q, 1)
	<-ended
	return q.out.Status == http.StatusOK, err
}
