package client_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
	"github.com/ledgerfeed/ledgerfeed/readapi/access"
	"github.com/ledgerfeed/ledgerfeed/readapi/readapitest"
)

// sharedScenario is one of scenarios/scenarios.json, which scenarios/README.md describes. All clients run
// the same scenarios.
type sharedScenario struct {
	Name    string `json:"name"`
	History int    `json:"history"`
	Begin   int    `json:"begin"`
	Steps   []step `json:"steps"`
}

// step changes the service, then lets runners read it, or both at the same time.
type step struct {
	Grow    int      `json:"grow"`
	Append  []entry  `json:"append"`
	Rotate  string   `json:"rotate"`
	Restore bool     `json:"restore"`
	Advance duration `json:"advance"`
	While   bool     `json:"while"`
	Runs    []run    `json:"runs"`
}

type entry struct {
	Type string          `json:"type"`
	Data json.RawMessage `json:"data"`
}

type duration struct{ time.Duration }

func (d *duration) UnmarshalText(text []byte) (err error) {
	d.Duration, err = time.ParseDuration(string(text))
	return err
}

// run is what a runner does, and what it should find.
type run struct {
	task

	Until   string   `json:"until"`    // "head": the follower ends at the log's end
	AtLeast string   `json:"at_least"` // "head"
	Faults  []string `json:"faults"`
	Want    want     `json:"want"`
}

// task is the part of a run that a runner gets.
type task struct {
	Name          string          `json:"name"`
	Do            string          `json:"do"`
	List          string          `json:"list"`
	ID            string          `json:"id,omitempty"`
	Key           string          `json:"key"`
	Params        json.RawMessage `json:"params,omitempty"`
	State         string          `json:"state,omitempty"`
	Once          bool            `json:"once,omitempty"`
	StartAgain    bool            `json:"start_again,omitempty"`
	LeaveAt       int             `json:"leave_at,omitempty"`
	UntilPosition int64           `json:"until_position,omitempty"`
	Position      int64           `json:"position,omitempty"`
	Times         int             `json:"times,omitempty"`
	Cache         int             `json:"cache,omitempty"`
	Field         string          `json:"field,omitempty"`
	GroupBy       []string        `json:"group_by,omitempty"`
	Pairs         [][2]string     `json:"pairs,omitempty"`
	Messages      []hook          `json:"messages,omitempty"`
}

// hook is a message of a webhook, with what a receiver has.
type hook struct {
	Method  string            `json:"method,omitempty"`
	Headers map[string]string `json:"headers"`
	Body    string            `json:"body"`
	Secrets []string          `json:"secrets"`
	Now     int64             `json:"now"`
	Fails   bool              `json:"fails,omitempty"`
}

// want is what is checked of a result. What is not named is not checked, but an error that is not
// named is a failure.
type want struct {
	Rows           string          `json:"rows"`
	One            string          `json:"one"`
	Copy           string          `json:"copy"`
	Sums           string          `json:"sums"`
	Pages          int             `json:"pages"`
	Removes        bool            `json:"removes"`
	BeginsWithLast bool            `json:"begins_with_last_page"`
	Restarted      *string         `json:"restarted"`
	Asked          []int           `json:"asked"`
	Waits          []float64       `json:"waits"`
	Plain          json.RawMessage `json:"plain"`
	Error          *failure        `json:"error"`
}

// input is what a runner gets on its standard input.
type input struct {
	URL      string            `json:"url"`
	Keys     map[string]string `json:"keys"`
	Scenario task              `json:"scenario"`
}

// result is what a runner writes to its standard output.
type result struct {
	Rows     []json.RawMessage `json:"rows,omitempty"`
	Pages    []resultPage      `json:"pages,omitempty"`
	Removed  []string          `json:"removed,omitempty"`
	Cursor   *bool             `json:"cursor,omitempty"`
	Sums     map[string]string `json:"sums,omitempty"`
	Compared []int             `json:"compared,omitempty"`
	Verdicts []string          `json:"verdicts,omitempty"`
	Statuses []int             `json:"statuses,omitempty"`
	Handled  []handled         `json:"handled,omitempty"`
	Waits    []float64         `json:"waits"`
	Error    *failure          `json:"error,omitempty"`
}

type resultPage struct {
	Rows      []json.RawMessage `json:"rows"`
	Removed   []string          `json:"removed"`
	Restarted string            `json:"restarted,omitempty"`
}

type handled struct {
	Event    string `json:"event"`
	Type     string `json:"type"`
	Delivery string `json:"delivery"`
	Position int64  `json:"position"`
}

type failure struct {
	Kind      string `json:"kind"` // api, broken_off or other
	Status    int    `json:"status,omitempty"`
	Code      string `json:"code,omitempty"`
	RequestID string `json:"request_id,omitempty"`
	Message   string `json:"message,omitempty"`
}

// runner runs a task with a client.
type runner func(ctx context.Context, in input) (*result, error)

// runScenarios runs all scenarios with a runner.
func runScenarios(t *testing.T, r runner) {
	t.Helper()
	var list []sharedScenario
	decoder := json.NewDecoder(bytes.NewReader(testkit.Must(os.ReadFile("scenarios/scenarios.json"))(t)))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&list); err != nil {
		t.Fatal(err)
	}
	for _, s := range list {
		t.Run(s.Name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, s, r)
			for i, st := range s.Steps {
				w.step(i, st)
			}
		})
	}
}

// world is the service of one scenario, and the copies that runs with the same state make.
type world struct {
	t       *testing.T
	service *readapitest.Service
	runner  runner
	name    string
	dir     string
	keys    map[string]string
	plainID string
	coming  []domain.Draft
	head    int // of the log

	mu        sync.Mutex
	copies    map[string]copyOf
	lastPages map[string]resultPage
}

func newWorld(t *testing.T, s sharedScenario, r runner) *world {
	t.Helper()
	w := &world{t: t, runner: r, name: s.Name, dir: t.TempDir(), copies: map[string]copyOf{}, lastPages: map[string]resultPage{}}
	w.open(3, s.History, cmp.Or(s.Begin, -1))
	return w
}

// open starts a service with the beginning of a history, and the keys of scenarios.
func (w *world) open(seed uint64, entries, begin int) {
	w.t.Helper()
	w.service, w.head = readapitest.New(w.t), 0
	w.coming = []domain.Draft{readapitest.Line(w.t, `"type":"client.recorded","data":{"client_id":"cl_first","name":"The First Ltd"}`)} // makes the workspace
	if entries > 0 {
		w.coming = readapitest.History(w.t, seed, entries)
	}
	w.grow(begin)
	w.keys = map[string]string{"nobody": "sk_nobody"}
	_, w.keys["all"] = w.service.Key(access.AllPermissions()...)
	_, w.keys["events"] = w.service.Key(access.EventsRead)
	w.plainID, w.keys["plain"] = w.service.Key(readapitest.WithoutPay()...)
}

// grow appends the next entries of the history, or all of them if n is below 0.
func (w *world) grow(n int, more ...domain.Draft) {
	w.t.Helper()
	if n < 0 {
		n = len(w.coming)
	}
	drafts := append(slices.Clone(w.coming[:n]), more...)
	w.coming = w.coming[n:]
	w.head += len(drafts)
	for part := range slices.Chunk(drafts, 150) {
		w.service.Grow(part...)
	}
}

// change does what a step does to the service.
func (w *world) change(s step) {
	w.t.Helper()
	if s.Restore {
		w.open(4, w.head, -1)
	}
	if s.Rotate != "" {
		w.keys["old"] = w.keys[s.Rotate]
		_, secret, err := w.service.Keys.Rotate(w.t.Context(), "acme", w.plainID, 0)
		if err != nil {
			w.t.Fatal(err)
		}
		w.keys[s.Rotate] = secret.Reveal()
	}
	w.service.Clock.Advance(s.Advance.Duration)
	var more []domain.Draft
	for _, e := range s.Append {
		more = append(more, readapitest.Line(w.t, `"type":%q,"data":%s`, e.Type, e.Data))
	}
	w.grow(s.Grow, more...)
}

func (w *world) step(number int, s step) {
	w.t.Helper()
	coming := len(s.Append)
	if s.Grow < 0 {
		coming += len(w.coming)
	}
	head := int64(w.head + coming)
	if !s.While {
		w.change(s)
		head = int64(w.head)
	}
	var running errgroup.Group
	if !s.While {
		running.SetLimit(2) // the service limits how many whole lists a key reads at once
	}
	var first sync.WaitGroup // of the first request of each run
	for i, r := range s.Runs {
		r.Name = fmt.Sprintf("%s, step %d, run %d (%s %s)", w.name, number+1, i+1, r.Do, r.List)
		first.Add(1)
		running.Go(func() error { return w.run(r, head, sync.OnceFunc(first.Done)) })
	}
	if s.While {
		first.Wait()
		w.change(s)
	}
	if err := running.Wait(); err != nil {
		w.t.Fatal(err)
	}
}

// run runs a task through a proxy of its own, and checks its result.
func (w *world) run(r run, head int64, begun func()) error {
	defer begun()
	r.Key = cmp.Or(r.Key, "all")
	if r.Until == "head" {
		r.UntilPosition = head
	}
	if r.AtLeast == "head" {
		r.Position = head
	}
	state := r.State
	if state != "" {
		r.State = filepath.Join(w.dir, state)
	}
	if state == "nonsense" {
		if err := os.WriteFile(r.State, []byte("nonsense\n"), 0o600); err != nil {
			return err
		}
	}
	proxy := newFaultProxy(w.t, w.service.Address, r.Faults, begun)
	got, err := w.runner(w.t.Context(), input{URL: proxy.url, Keys: w.keys, Scenario: r.task})
	if err != nil {
		return fmt.Errorf("%s: %w", r.Name, err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	last := w.lastPages[state]
	w.take(state, got)
	for _, fault := range w.check(r, got, proxy, last, w.copies[state]) {
		w.t.Errorf("%s: %s", r.Name, fault)
	}
	if state == "" {
		delete(w.copies, "")
	}
	return nil
}

// take takes the pages of a result over into the copy with a name.
func (w *world) take(state string, got *result) {
	c := w.copies[state]
	if c == nil {
		c = copyOf{}
		w.copies[state] = c
	}
	for _, p := range got.Pages {
		if p.Restarted != "" {
			clear(c)
		}
		for _, row := range p.Rows {
			c[rowID(row)] = canonical(row)
		}
		for _, id := range p.Removed {
			delete(c, id)
		}
		w.lastPages[state] = p
	}
}

// check compares a result with what is wanted.
func (w *world) check(r run, got *result, proxy *faultProxy, last resultPage, have copyOf) (faults []string) {
	fault := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	wanted := r.Want
	key := w.keys[r.Key]
	if wanted.Rows != "" {
		faults = append(faults, differences(got.Rows, w.read(wanted.Rows, key))...)
	}
	if wanted.One != "" {
		one := w.read(wanted.One, key)
		faults = append(faults, differences(got.Rows, slices.Repeat(one, max(1, r.Times)))...)
	}
	if wanted.Copy != "" {
		list := copyOf{}
		for _, row := range w.read(wanted.Copy, key) {
			list[rowID(row)] = canonical(row)
		}
		if len(list) == 0 || !maps.Equal(have, list) {
			fault("the copy has %d rows and is not the list, which has %d", len(have), len(list))
		}
	}
	if wanted.Sums != "" {
		faults = append(faults, wrongSums(got.Sums, w.read(wanted.Sums, key), r.Field)...)
	}
	if wanted.Pages != 0 && len(got.Pages) != wanted.Pages {
		fault("%d pages, want %d", len(got.Pages), wanted.Pages)
	}
	if wanted.Removes && len(got.Removed) == 0 && !slices.ContainsFunc(got.Pages, func(p resultPage) bool { return len(p.Removed) > 0 }) {
		fault("there is no removed row")
	}
	if wanted.BeginsWithLast && (len(got.Pages) == 0 || fmt.Sprint(pageIDs(got.Pages[0])) != fmt.Sprint(pageIDs(last))) {
		fault("the page that was not taken over does not come again")
	}
	if wanted.Restarted != nil {
		var codes []string
		for _, p := range got.Pages {
			if p.Restarted != "" {
				codes = append(codes, p.Restarted)
			}
		}
		if strings.Join(codes, " ") != *wanted.Restarted {
			fault("begins again because of %q, want %q", codes, *wanted.Restarted)
		}
	}
	if asked := proxy.statuses(); wanted.Asked != nil && !slices.Equal(asked, wanted.Asked) {
		fault("the answers had the statuses %v, want %v", asked, wanted.Asked)
	}
	if wanted.Waits != nil && !slices.Equal(got.Waits, wanted.Waits) {
		fault("waited %v, want %v", got.Waits, wanted.Waits)
	}
	if wanted.Plain != nil {
		faults = append(faults, differentMembers(got, wanted.Plain)...)
	}
	return append(faults, wrongFailure(got.Error, wanted.Error, proxy.lastRequestID())...)
}

func wrongFailure(got, wanted *failure, requestID string) []string {
	switch {
	case got == nil && wanted == nil:
		return nil
	case got == nil || wanted == nil || got.Kind != wanted.Kind || got.Status != wanted.Status || got.Code != wanted.Code:
		return []string{fmt.Sprintf("the error is %+v, want %+v", got, wanted)}
	case got.RequestID != requestID && got.Kind == "api":
		return []string{fmt.Sprintf("the request is %q, want %q", got.RequestID, requestID)}
	}
	return nil
}

// differentMembers compares members of a result with plain JSON.
func differentMembers(got *result, plain json.RawMessage) (faults []string) {
	var wanted, members map[string]any
	text, err := json.Marshal(got)
	if err = errors.Join(err, json.Unmarshal(text, &members), json.Unmarshal(plain, &wanted)); err != nil {
		return []string{err.Error()}
	}
	for name, value := range wanted {
		if !reflect.DeepEqual(members[name], value) {
			faults = append(faults, fmt.Sprintf("%s is\n%v, want\n%v", name, members[name], value))
		}
	}
	return faults
}

// differences compares rows, in their order.
func differences(got, wanted []json.RawMessage) []string {
	if len(wanted) == 0 || len(got) != len(wanted) {
		return []string{fmt.Sprintf("%d rows, want %d and not none", len(got), len(wanted))}
	}
	for i := range wanted {
		if g, w := canonical(got[i]), canonical(wanted[i]); g != w {
			return []string{fmt.Sprintf("row %d is\n%s, want\n%s", i, g, w)}
		}
	}
	return nil
}

// wrongSums adds up a field by currency and compares by value.
func wrongSums(got map[string]string, rows []json.RawMessage, field string) (faults []string) {
	wanted := map[string]*big.Rat{}
	for _, row := range rows {
		var members map[string]any
		decoder := json.NewDecoder(bytes.NewReader(row))
		decoder.UseNumber()
		if err := decoder.Decode(&members); err != nil {
			return []string{err.Error()}
		}
		amount, _ := new(big.Rat).SetString(fmt.Sprint(members[field]))
		currency := fmt.Sprint(members["currency"])
		if wanted[currency] == nil {
			wanted[currency] = new(big.Rat)
		}
		wanted[currency].Add(wanted[currency], amount)
	}
	for currency, sum := range wanted {
		if g, ok := new(big.Rat).SetString(got[currency]); !ok || g.Cmp(sum) != 0 || strings.ContainsAny(got[currency], "eE/") {
			faults = append(faults, fmt.Sprintf("the sum in %s is %q, want %s", currency, got[currency], sum.FloatString(4)))
		}
	}
	if len(wanted) == 0 || len(got) != len(wanted) {
		faults = append(faults, fmt.Sprintf("%d sums, want %d and not none", len(got), len(wanted)))
	}
	return faults
}

// read reads a list, totals or an object without any client.
func (w *world) read(address, key string) (rows []json.RawMessage) {
	for cursor := ""; ; {
		target := w.service.Address + address
		if cursor != "" {
			target += map[bool]string{true: "&", false: "?"}[strings.Contains(target, "?")] + "cursor=" + url.QueryEscape(cursor)
		}
		req, err := http.NewRequestWithContext(w.t.Context(), http.MethodGet, target, http.NoBody)
		if err != nil {
			w.t.Error(err)
			return nil
		}
		req.Header.Set("Authorization", "Bearer "+key)
		resp, err := http.DefaultTransport.RoundTrip(req)
		if err != nil {
			w.t.Error(err)
			return nil
		}
		body, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		var page struct {
			Data       []json.RawMessage `json:"data"`
			HasMore    bool              `json:"has_more"`
			NextCursor string            `json:"next_cursor"`
		}
		if err = cmp.Or(err, json.Unmarshal(body, &page)); err != nil || resp.StatusCode != http.StatusOK {
			w.t.Errorf("%s: %v %s", address, err, body)
			return nil
		}
		if page.Data == nil {
			return append(rows, body)
		}
		if rows = append(rows, page.Data...); !page.HasMore {
			return rows
		}
		cursor = page.NextCursor
	}
}

// rowID is the id of a row: its own, or that of its client.
func rowID(row json.RawMessage) string {
	var ids struct {
		ID     string              `json:"id"`
		Client struct{ ID string } `json:"client"`
	}
	_ = json.Unmarshal(row, &ids) // canonical shows what is not JSON
	return cmp.Or(ids.ID, ids.Client.ID)
}

func pageIDs(p resultPage) (ids []string) {
	for _, row := range p.Rows {
		ids = append(ids, rowID(row))
	}
	return append(ids, p.Removed...)
}

// canonical is a row in a form that all languages can give: without nulls, numbers as text with
// their digits, and times in one form.
func canonical(row json.RawMessage) string {
	decoder := json.NewDecoder(bytes.NewReader(row))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		return err.Error()
	}
	text, err := json.Marshal(simplified(value))
	if err != nil {
		return err.Error()
	}
	return string(text)
}

func simplified(value any) any {
	switch v := value.(type) {
	case map[string]any:
		for name, member := range v {
			if v[name] = simplified(member); member == nil {
				delete(v, name)
			}
		}
	case []any:
		for i := range v {
			v[i] = simplified(v[i])
		}
	case json.Number:
		return v.String()
	case string:
		if at, err := time.Parse(time.RFC3339Nano, v); err == nil {
			return at.UTC().Format(time.RFC3339Nano)
		}
	}
	return value
}

// faultProxy is a reverse proxy that has a fault at each request, in turn and from the start again.
type faultProxy struct {
	url     string
	faults  []string
	forward *httputil.ReverseProxy
	begun   func() // called at the first request

	mu        sync.Mutex
	answered  []int // statuses; 0: none
	requestID string
}

func newFaultProxy(t testing.TB, upstream string, faults []string, begun func()) *faultProxy {
	t.Helper()
	to := testkit.Must(url.Parse(upstream))(t)
	p := &faultProxy{faults: faults, begun: begun}
	quiet := slog.NewLogLogger(slog.DiscardHandler, slog.LevelInfo)
	p.forward = &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to) }, FlushInterval: -1, ErrorLog: quiet,
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}
	server := httptest.NewUnstartedServer(p)
	server.Config.ErrorLog = quiet
	server.Config.SetKeepAlivesEnabled(false) // some clients try again by themselves after a kept connection breaks
	server.Start()
	t.Cleanup(server.Close)
	p.url = server.URL
	return p
}

func (p *faultProxy) statuses() []int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.answered)
}

func (p *faultProxy) lastRequestID() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.requestID
}

// fault returns the fault of the next request, and where its status will stand.
func (p *faultProxy) fault() (name string, number int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	number = len(p.answered)
	p.answered = append(p.answered, 0)
	if len(p.faults) == 0 {
		return "ok", number
	}
	return p.faults[number%len(p.faults)], number
}

func (p *faultProxy) ServeHTTP(writer http.ResponseWriter, r *http.Request) {
	fault, number := p.fault()
	p.begun()
	w := &notingWriter{ResponseWriter: writer, note: func(status int) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.answered[number], p.requestID = status, writer.Header().Get("X-Request-Id")
	}}
	name, after, _ := strings.Cut(fault, " after ")
	switch status, err := strconv.Atoi(name); {
	case err == nil:
		if after != "" {
			w.Header().Set("Retry-After", after)
		}
		if status == http.StatusFound {
			w.Header().Set("Location", "/v1/me")
		}
		http.Error(w, "not now", status)
	case fault == "cut":
		panic(http.ErrAbortHandler)
	case fault == "cut within":
		p.forward.ServeHTTP(&cutWriter{ResponseWriter: w, left: 100}, r)
	case fault == "no last line":
		r.Header.Set("Accept-Encoding", "identity")
		p.forward.ServeHTTP(&shortWriter{ResponseWriter: w}, r)
	case fault == "another cursor":
		query := r.URL.Query()
		query.Set("cursor", "nonsense")
		r.URL.RawQuery = query.Encode()
		p.forward.ServeHTTP(w, r)
	case fault == "slow":
		testkit.TakeTime(r, 50*time.Millisecond)
		p.forward.ServeHTTP(w, r)
	default:
		p.forward.ServeHTTP(w, r)
	}
}

// notingWriter notes the status of an answer.
type notingWriter struct {
	http.ResponseWriter

	note func(status int)
}

func (w *notingWriter) WriteHeader(status int) {
	w.note(status)
	w.ResponseWriter.WriteHeader(status)
}

func (w *notingWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// shortWriter leaves out the last line of a whole list, and ends the answer as if it were whole.
type shortWriter struct {
	http.ResponseWriter

	kept []byte
}

func (w *shortWriter) Write(b []byte) (int, error) {
	w.kept = append(w.kept, b...)
	if end := bytes.LastIndex(w.kept, []byte("\n{\"has_more\"")); end >= 0 {
		_, _ = w.ResponseWriter.Write(w.kept[:end+1])
		w.kept = nil
	}
	return len(b), nil
}

// TestScenarios runs the scenarios with the client of this package.
func TestScenarios(t *testing.T) {
	t.Parallel()
	runScenarios(t, runTask)
}
