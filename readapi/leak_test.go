package readapi_test

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/ledgerfeed/ledgerfeed/internal/pg"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
	"github.com/ledgerfeed/ledgerfeed/readapi"
	"github.com/ledgerfeed/ledgerfeed/readapi/access"
	"github.com/ledgerfeed/ledgerfeed/readapi/answer"
)

// leakSets are permission sets: those of all endpoints, of all but one, of one alone, and of
// none, each with every visibility of pay and margin. The first four find most: three see
// everything, with more and more of it hidden, and the fourth may not see invoices, of which
// most other objects tell something.
func leakSets() [][]access.Permission {
	endpoints := allPermissions()[:7]
	groups := [][]access.Permission{endpoints}
	for i, p := range endpoints {
		groups = append(groups, slices.Delete(slices.Clone(endpoints), i, i+1), []access.Permission{p})
	}
	var sets [][]access.Permission
	for _, group := range append(groups, nil) {
		for _, fields := range [][]access.Permission{{access.PayRead, access.MarginRead}, {access.PayRead}, nil} {
			if set := slices.Concat(group, fields); len(set) > 0 {
				sets = append(sets, set)
			}
		}
	}
	return sets
}

// leakRequest is a request of the oracle, which makes each once with a key.
type leakRequest struct {
	api    string // which API answers: "", or one of brokenAPIs
	method string
	target string
	accept string // Accept-Encoding
	form   string // Accept
	noneOf string // If-None-Match
}

// plain tells whether the request reads in one of the forms, with nothing about its transport.
func (q *leakRequest) plain() bool {
	return q.api == "" && q.method == http.MethodGet && (q.accept == "" || q.accept == "identity") && q.noneOf != "*"
}

// leakRequests are the requests of every key: each target with the methods, encodings
// and conditions that change the answer, and with a broken service. The tags are those of
// a key that sees everything.
func leakRequests(targets []string, tags map[string]string) []leakRequest {
	var list []leakRequest
	for _, target := range targets {
		for _, accept := range []string{"identity", "gzip", "zstd"} {
			list = append(list, leakRequest{method: http.MethodGet, target: target, accept: accept})
		}
		list = append(list,
			leakRequest{method: http.MethodGet, target: target, noneOf: "*"},
			leakRequest{method: http.MethodGet, target: target, noneOf: tags[target] + `, "x"`},
			leakRequest{method: http.MethodHead, target: target},
			leakRequest{method: http.MethodHead, target: target, accept: "gzip"},
			leakRequest{method: http.MethodHead, target: target, noneOf: tags[target] + `, "x"`},
			leakRequest{method: http.MethodOptions, target: target},
			leakRequest{method: http.MethodPost, target: target},
		)
		for api := range brokenAPIs() {
			list = append(list, leakRequest{api: api, method: http.MethodGet, target: target}, leakRequest{api: api, method: http.MethodGet, target: target, form: ndjson})
		}
		for _, form := range []string{ndjson, csvForm} {
			list = append(list, leakRequest{method: http.MethodGet, target: target, form: form}, leakRequest{method: http.MethodHead, target: target, form: form})
		}
	}
	return list
}

// brokenAPIs are ways in which the service fails while it answers.
func brokenAPIs() map[string]func(*testing.T, *stand, *readapi.Config) {
	return map[string]func(*testing.T, *stand, *readapi.Config){
		"without time": func(_ *testing.T, _ *stand, c *readapi.Config) { c.Timeout = time.Nanosecond },
		"without tables": func(t *testing.T, s *stand, c *readapi.Config) {
			by(c, s.poolWith(t, map[string]string{"search_path": "pg_catalog"}))
			c.WholeLists.Pool = c.Pool
		},
	}
}

// poolWith is a pool to the stand's database with other settings.
func (s *stand) poolWith(t testing.TB, settings map[string]string) testkit.DB {
	t.Helper()
	pool := testkit.Must(pg.Open(t.Context(), s.url, pg.Options{MaxConns: 4, Settings: settings}))(t)
	t.Cleanup(pool.Close)
	return pool
}

// leakOracle makes requests and looks for canaries in the answers.
type leakOracle struct {
	apis     map[string]*readapi.API
	canaries []canary

	mu       sync.Mutex
	answers  int
	statuses map[int]int
	seen     map[string]bool // canaries that some answer showed
	faults   []string
}

// TestNothingLeaks makes requests of many kinds for everything, with keys of many
// permission sets, and looks for what each may not see in bodies, headers, ETags and the
// log. The landing has four sets of permissions, 92,000 answers. .ci/full has all of them: what a
// request's method and encoding change does not depend on the set, so the others get the plain
// requests alone.
func TestNothingLeaks(t *testing.T) {
	t.Parallel()
	s := leakWorld(t, leakTime(), 0)
	s.keepKeys(t)
	oracle := &leakOracle{apis: map[string]*readapi.API{"": s.api}, canaries: canaries(), statuses: map[int]int{}, seen: map[string]bool{}}
	for name, breakIt := range brokenAPIs() {
		cfg := s.config
		breakIt(t, s, &cfg)
		oracle.apis[name] = testkit.Must(readapi.New(cfg))(t)
	}
	everything := s.key("acme", allPermissions()...)
	targets := leakTargets(s, everything)
	requests := leakRequests(targets, s.tags(targets, everything))
	keys := s.keysThatSeeNothing(t)
	plain := slices.DeleteFunc(slices.Clone(requests), func(q leakRequest) bool { return !q.plain() })
	const whole = 4 // sets with all requests
	sets := leakSets()
	sets = sets[:testkit.Scale(whole, len(sets))]
	var group errgroup.Group
	group.SetLimit(4)
	for i, set := range sets {
		key := s.key("acme", set...)
		of := requests
		if i >= whole {
			of = plain
		}
		group.Go(func() error { return oracle.ask(t.Context(), key, access.PermissionsOf(set...), of) })
	}
	for key, permissions := range keys {
		group.Go(func() error { return oracle.ask(t.Context(), key, permissions, requests) })
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	oracle.judge(t, s)
	t.Logf("%d answers to %d or %d requests with %d keys: %v", oracle.answers, len(requests), len(plain), len(keys)+len(sets), oracle.statuses)
}

// ask makes all requests with one key.
func (o *leakOracle) ask(ctx context.Context, key string, has access.Permissions, requests []leakRequest) error {
	unpack, err := newUnpacker()
	if err != nil {
		return err
	}
	defer unpack.close()
	asked := make(map[leakRequest]bool, len(requests))
	seen, statuses := map[string]bool{}, map[int]int{}
	var faults []string
	for _, q := range requests {
		if asked[q] {
			return fmt.Errorf("asked twice: %+v", q)
		}
		asked[q] = true
		r, err := q.request(ctx, key)
		if err != nil {
			return err
		}
		w := httptest.NewRecorder()
		o.apis[q.api].ServeHTTP(w, r)
		body := w.Body.Bytes()
		if len(body) > 0 { // HEAD has the headers of a body that is not there
			if body, err = unpack.unpack(w.Header().Get("Content-Encoding"), body); err != nil {
				return fmt.Errorf("%+v: %w", q, err)
			}
		}
		statuses[w.Code]++
		said := fmt.Sprint(w.Header()) + string(body)
		for _, c := range o.canaries {
			if !strings.Contains(said, c.text) {
				continue
			}
			seen[c.text] = true
			if !c.mayBeSeenBy(has) {
				faults = append(faults, fmt.Sprintf("%+v with %s shows %s: %.300s", q, has, c.text, said))
			}
		}
		if w.Code >= 500 && q.api == "" {
			faults = append(faults, fmt.Sprintf("%+v with %s: %d %s", q, has, w.Code, body))
		}
	}
	o.add(len(asked), statuses, seen, faults)
	return nil
}

func (o *leakOracle) add(answers int, statuses map[int]int, seen map[string]bool, faults []string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.answers += answers
	o.faults = append(o.faults, faults...)
	for status, n := range statuses {
		o.statuses[status] += n
	}
	for text := range seen {
		o.seen[text] = true
	}
}

// judge reports what was found, and whether the test has tested anything.
func (o *leakOracle) judge(t *testing.T, s *stand) {
	t.Helper()
	for _, fault := range o.faults[:min(len(o.faults), 20)] {
		t.Error(fault)
	}
	log, records := s.output.String(), fmt.Sprint(s.requests.all())
	for _, c := range o.canaries {
		if c.readers != nil && !o.seen[c.text] {
			t.Errorf("%s was never shown to anyone: the test does not test it", c.text)
		}
		if strings.Contains(log, c.text) || strings.Contains(records, c.text) {
			t.Errorf("the log holds %s", c.text)
		}
	}
	slowed := 0 // one line a minute
	for _, r := range s.requests.all() {
		if r.Refusal == string(answer.RefusedSlowDown) {
			slowed++
		}
	}
	if lines := strings.Count(log, `"msg":"request"`); lines < o.answers-slowed {
		t.Errorf("%d lines of log for %d answers, of which %d of slowed addresses", lines, o.answers, slowed)
	}
	for _, status := range []int{200, 204, 304, 400, 401, 403, 404, 405, 429, 500, 503} {
		if o.statuses[status] == 0 {
			t.Errorf("no answer is a %d", status)
		}
	}
}

func (q *leakRequest) request(ctx context.Context, key string) (*http.Request, error) {
	u, err := url.ParseRequestURI(q.target)
	if err != nil {
		return nil, err
	}
	r := httptest.NewRequestWithContext(ctx, q.method, "/", http.NoBody)
	r.URL, r.RequestURI = u, q.target
	for name, value := range map[string]string{"Authorization": "Bearer " + key, "Accept-Encoding": q.accept, "Accept": q.form, "If-None-Match": q.noneOf} {
		if value != "" {
			r.Header.Set(name, value)
		}
	}
	return r, nil
}

// tags are the ETags that a key gets for targets.
func (s *stand) tags(targets []string, key string) map[string]string {
	s.t.Helper()
	tags := map[string]string{}
	for _, target := range targets {
		tags[target] = s.get(target, key).header.Get("Etag")
	}
	return tags
}

// keysThatSeeNothing are a revoked key, and one whose rate limit is reached.
func (s *stand) keysThatSeeNothing(t testing.TB) map[string]access.Permissions {
	t.Helper()
	exhausted := s.keyLimited("acme", 1, allPermissions()...)
	s.get("/v1/me", exhausted)
	record, revoked, err := s.store.Create(t.Context(), access.NewKey{
		WorkspaceID: "acme", Name: "canary-key-name", Permissions: access.PermissionsOf(allPermissions()...),
	})
	if err != nil {
		t.Fatal(err)
	}
	testkit.Must(s.store.Revoke(t.Context(), "acme", record.ID))(t)
	return map[string]access.Permissions{exhausted: 0, revoked.Reveal(): 0}
}

// TestHiddenValuesChangeNothing makes the same requests to two worlds that differ only in
// what a key may not see: every byte of every answer is the same, lengths and ETags
// included. Only the bytes of cursors differ, which are sealed and carry the log's chain;
// each world is followed by its own.
func TestHiddenValuesChangeNothing(t *testing.T) {
	t.Parallel()
	for _, set := range [][]access.Permission{
		without(access.PayRead, access.MarginRead), without(access.MarginRead), {access.EventsRead}, {access.InvoicesRead}, {access.PayRead},
	} {
		t.Run(access.PermissionsOf(set...).String(), func(t *testing.T) {
			t.Parallel()
			one, two := leakWorld(t, leakTime(), 0), leakWorld(t, leakTime(), access.PermissionsOf(set...))
			targets := leakTargets(one, one.key("acme", allPermissions()...))
			a, b := one.key("acme", set...), two.key("acme", set...)
			seeing, seeingToo := one.key("acme", allPermissions()...), two.key("acme", allPermissions()...)
			different := 0
			for _, target := range targets {
				if strings.HasPrefix(target, "/v1/me") || isContinued(target) { // shows the key itself; a cursor of the first world
					continue
				}
				for _, accept := range []string{"identity", "gzip", ndjson, csvForm} {
					for x, y := target, target; x != ""; {
						shown, next := one.shownTo(a, x, accept)
						other, nextOther := two.shownTo(b, y, accept)
						if shown != other {
							t.Errorf("%s in %s:\n%.900s\n%.900s", target, accept, shown, other)
							break
						}
						x, y = next, nextOther
					}
				}
				if !bytes.Equal(withoutCursor(one.get(target, seeing).body), withoutCursor(two.get(target, seeingToo).body)) {
					different++
				}
			}
			if different == 0 {
				t.Error("the two worlds are the same: the test tests nothing")
			}
		})
	}
}

// isContinued reports whether a target has a cursor that a list gave.
func isContinued(target string) bool {
	_, cursor, _ := strings.Cut(target, "cursor=")
	return len(cursor) > 10
}

var cursorInBody = regexp.MustCompile(`"next_cursor":"[^"]*"`)

// withoutCursor is a body with as many blanks for its cursor.
func withoutCursor(body []byte) []byte {
	return cursorInBody.ReplaceAllFunc(body, func(cursor []byte) []byte { return bytes.Repeat([]byte{' '}, len(cursor)) })
}

// shownTo is all that an answer shows to a key except the bytes of cursors and what is made
// of them, and the target of the next page if there is one.
func (s *stand) shownTo(key, target, accept string) (shown, next string) {
	s.t.Helper()
	header := "Accept-Encoding"
	if strings.Contains(accept, "/") {
		header = "Accept"
	}
	r := s.get(target, key, header, accept, "X-Request-Id", "same")
	r.header.Del("Date")
	if cursor := r.header.Get("Next-Cursor"); cursor != "" {
		r.header.Set("Next-Cursor", fmt.Sprint(len(cursor)))
	}
	if isContinued(target) {
		r.header.Del("Etag") // is of the address
	}
	if link := r.header.Get("Link"); link != "" {
		address, _, _ := strings.Cut(link, "cursor=")
		r.header.Set("Link", address)
	}
	body := unpack(s.t, r)
	if cursor := cursorInBody.Find(body); cursor != nil {
		if r.header.Get("Content-Encoding") != "" {
			r.header.Del("Content-Length")
		}
		if bytes.Contains(body, []byte(`"has_more":true`)) {
			target, _, _ = strings.Cut(target, "cursor=")
			separator := "?"
			if strings.Contains(target, "?") {
				separator = "&"
			}
			next = strings.TrimRight(target, "?&") + separator + "cursor=" + string(cursor[len(`"next_cursor":"`):len(cursor)-1])
		}
	}
	return fmt.Sprintf("%d %v %s", r.status, r.header, withoutCursor(body)), next
}
