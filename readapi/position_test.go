package readapi_test

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
	"github.com/ledgerfeed/ledgerfeed/readapi"
)

// visible is the visible position of a workspace.
func (s *stand) visible(workspaceID string) (position int64) {
	s.t.Helper()
	if err := s.pool.QueryRow(s.t.Context(), `SELECT position FROM log_checkpoint WHERE workspace_id = $1 AND consumer = $2`,
		workspaceID, eventlog.ReadModels).Scan(&position); err != nil {
		s.t.Fatal(err)
	}
	return position
}

// TestAnswersSayTheirPosition: every 200 and 304 about a workspace's data, from the cache
// or not, has the visible position that it is of, HEAD included; nothing else has one.
func TestAnswersSayTheirPosition(t *testing.T) {
	t.Parallel()
	s := newStand(t)
	s.workspace("bare")
	s.append(objects("acme")...)
	s.project("acme", 0)
	key := s.key("acme", allPermissions()...)
	check := func(what string, r reply, want string) {
		t.Helper()
		if got := r.header.Get("Log-Position"); got != want {
			t.Errorf("%s: %d with Log-Position %q, want %q", what, r.status, got, want)
		}
	}
	for pass := range 2 {
		if pass == 1 { // entries that are not visible yet do not count
			s.clock.Set(s.clock.Now().Add(48 * time.Hour))
			s.append(history(t, "acme", 3, s.clock.Now(), 24*time.Hour, 50)...)
			s.project("acme", s.visible("acme")+20)
			s.append(objects("acme")[0])
		}
		at := strconv.FormatInt(s.visible("acme"), 10)
		for path, permission := range endpoints() {
			want := at
			if permission == "" {
				want = ""
			}
			var tag string
			for range 3 { // cached the second time
				r := s.get(path, key)
				check(path, r, want)
				tag = r.header.Get("Etag")
			}
			check("HEAD "+path, s.do(http.MethodHead, path, key), want)
			unchanged := s.get(path, key, "If-None-Match", tag)
			check(path+" unchanged", unchanged, want)
			if unchanged.status != 304 {
				t.Errorf("%s: %d", path, unchanged.status)
			}
			check("OPTIONS "+path, s.do(http.MethodOptions, path, key), "")
			check(path+" without a key", s.get(path, ""), "")
			check(path+" with a wrong parameter", s.get(path+"?x=1", key), "")
		}
	}
	check("a workspace without entries", s.get("/v1/invoices", s.key("bare", allPermissions()...)), "0")
	check("an unknown id", s.get("/v1/invoices/none", key), "")
}

// TestAtLeastHasAForm: a wrong Log-Position-At-Least is a 400 that names it, where
// answers have a position.
func TestAtLeastHasAForm(t *testing.T) {
	t.Parallel()
	s := newStand(t)
	s.append(objects("acme")...)
	s.project("acme", 0)
	key := s.key("acme", allPermissions()...)
	for path, permission := range endpoints() {
		for _, wrong := range [][]string{{""}, {"-1"}, {"+1"}, {"1.5"}, {"x"}, {"01"}, {"9223372036854775808"}, {"99999999999999999999"}, {"1, 2"}, {"1", "1"}} {
			var headers []string
			for _, value := range wrong {
				headers = append(headers, "Log-Position-At-Least", value)
			}
			r := s.get(path, key, headers...)
			if permission == "" {
				if r.status != 200 {
					t.Errorf("%s with %q: %d", path, wrong, r.status)
				}
				continue
			}
			if r.status != 400 || !strings.Contains(string(r.body), `"errors":[{"field":"Log-Position-At-Least","message":"must be one position of the log`) {
				t.Errorf("%s with %q: %d %s", path, wrong, r.status, r.body)
			}
		}
		for _, right := range []string{"0", "1", strconv.FormatInt(s.visible("acme"), 10)} {
			if r := s.get(path, key, "Log-Position-At-Least", right); r.status != 200 {
				t.Errorf("%s with %s: %d %s", path, right, r.status, r.body)
			}
		}
	}
	r := s.get("/v1/invoices?limit=0&x=1", key, "Log-Position-At-Least", "x")
	for _, field := range []string{"limit", "x", "Log-Position-At-Least"} {
		if r.status != 400 || !strings.Contains(string(r.body), `{"field":"`+field+`"`) {
			t.Errorf("several faults: %s", r.body)
		}
	}
	if wrong := s.requests.last().Problem.Errors; wrong[2].Field != "Log-Position-At-Least" {
		t.Errorf("the request log names %v", wrong)
	}
}

// TestAnAnswerReachesItsPosition: every endpoint waits for the position that a request
// demands, cached answers and the 404 of what was not there yet included.
func TestAnAnswerReachesItsPosition(t *testing.T) {
	t.Parallel()
	s := newStand(t)
	s.append(objects("acme")[0], objects("acme")[1])
	s.project("acme", 0)
	key := s.key("acme", allPermissions()...)
	for path := range endpoints() {
		for range 3 { // cached the second time
			s.get(path, key)
		}
	}
	s.append(objects("acme")[2:]...)
	whole := int64(len(objects("acme")))
	var waits []*pending
	var paths []string
	for path, permission := range endpoints() {
		if permission == "" {
			continue
		}
		tag := s.get(path, key).header.Get("Etag") // of an answer that is too old
		for _, method := range []string{http.MethodGet, http.MethodHead} {
			waits = append(waits, s.begin(method, path, key, "Log-Position-At-Least", strconv.FormatInt(whole, 10), "If-None-Match", `"x", `+tag))
			paths = append(paths, method+" "+path)
		}
	}
	s.waiting(0, len(waits))
	for upTo := int64(3); upTo <= whole; upTo++ { // not enough, but for the last
		s.project("acme", upTo)
	}
	for i, w := range waits {
		if r := w.answered(); r.status != 200 || r.header.Get("Log-Position") != strconv.FormatInt(whole, 10) {
			t.Errorf("%s: %d %v %s", paths[i], r.status, r.header, r.body)
		}
	}
	for path, permission := range endpoints() {
		if permission != "" {
			if r := s.get(path, key, "Log-Position-At-Least", strconv.FormatInt(whole, 10)); r.status != 200 {
				t.Errorf("%s: %d", path, r.status)
			}
		}
	}
}

// TestAPositionThatDoesNotCome: after five seconds the answer is a 503 that says when to
// try again, whatever is asked for. Others are answered meanwhile.
func TestAPositionThatDoesNotCome(t *testing.T) {
	t.Parallel()
	if readapi.PositionTimeout != 5*time.Second {
		t.Errorf("a position is waited for %v", readapi.PositionTimeout)
	}
	s := newStand(t)
	s.append(objects("acme")...)
	s.project("acme", 0)
	key := s.key("acme", allPermissions()...)
	hasty := s.config
	hasty.Wait(time.Minute, 10*time.Millisecond, 0)
	soonOver := serve(t, testkit.Must(readapi.New(hasty))(t), hasty.Logger)
	ctx, goAway := context.WithCancel(t.Context())
	n := 0
	ask := func(path, position string) {
		n++
		headers := []string{"Log-Position-At-Least", position, "Prefer", "wait=30"}
		s.beginAt(ctx, s.server, http.MethodGet, path, key, headers...)
		r := s.beginAt(t.Context(), soonOver, http.MethodGet, path, key, headers...).answered()
		checkHeaders(t, "a position that does not come", r)
		if r.status != 503 || r.header.Get("Retry-After") == "" || r.header.Get("Log-Position") != "" || r.header.Get("Preference-Applied") != "" {
			t.Errorf("%s: %d %v %s", path, r.status, r.header, r.body)
		}
	}
	for path, permission := range endpoints() {
		if permission != "" {
			ask(path, strconv.FormatInt(s.visible("acme")+1, 10))
		}
	}
	ask("/v1/invoices/none", "9223372036854775807")
	s.waiting(0, n)
	if r := s.get("/v1/invoices", key); r.status != 200 {
		t.Errorf("another request: %d %s", r.status, r.body)
	}
	s.waiting(0, n)
	goAway()
	s.waiting(0, 0)
}

// TestWaitsForPositionsAreBounded: beyond the bounds the answer is a 503 at once, although
// there is an hour to wait.
func TestWaitsForPositionsAreBounded(t *testing.T) {
	t.Parallel()
	s := newStand(t, func(c *readapi.Config) { c.MaxWaits, c.MaxWaitsHTTP1 = 8, 32 })
	s.append(objects("acme")...)
	s.project("acme", 0)
	s.workspace("other")
	key, other := s.key("acme", allPermissions()...), s.key("other", allPermissions()...)
	for i := range 10 { // of one workspace, as many as one key may have for changes
		s.begin(http.MethodGet, "/v1/invoices", key, "Log-Position-At-Least", "1000")
		s.waiting(0, min(i+1, 7))
	}
	s.begin(http.MethodGet, "/v1/invoices", other, "Log-Position-At-Least", "1000") // the last place is for those who have none
	s.waiting(0, 8)
	if r := s.get("/v1/invoices", other, "Log-Position-At-Least", "1000"); r.status != 503 || r.header.Get("Retry-After") == "" || codeOf(t, r) != "busy" {
		t.Errorf("%d %v %s", r.status, r.header, r.body)
	}
}

// TestAWorkspaceLeavesOthersPlacesToWait: one that takes all that it may over HTTP/1, for
// positions and for changes, leaves places to a neighbour; together they keep no more
// connections than may wait. A key leaves places to others of its workspace.
func TestAWorkspaceLeavesOthersPlacesToWait(t *testing.T) {
	t.Parallel()
	s := newStand(t, func(c *readapi.Config) { c.MaxWaits, c.MaxWaitsHTTP1 = 100, 16 })
	s.workspace("flood")
	s.workspace("quiet")
	s.workspace("third")
	flood, quiet, third := s.key("flood", allPermissions()...), s.key("quiet", allPermissions()...), s.key("third", allPermissions()...)
	for _, c := range []struct {
		header, value string
		refused       func(reply) bool
		waiting       func(n int)
	}{
		{"Prefer", "wait=30", func(r reply) bool { return r.status == 200 && r.header.Get("Preference-Applied") == "" }, func(n int) { s.waiting(n, 0) }},
		{"Log-Position-At-Least", "1000", func(r reply) bool { return r.status == 503 }, func(n int) { s.waiting(8, n) }},
	} {
		n := 0
		for _, w := range []struct {
			key    string
			places int
		}{{flood, 4}, {quiet, 3}, {third, 1}} { // the last place is for one that has none
			for range w.places {
				s.begin(http.MethodGet, "/v1/clients", w.key, c.header, c.value)
				n++
				c.waiting(n)
			}
			if r := s.get("/v1/clients", w.key, c.header, c.value); !c.refused(r) {
				t.Errorf("%s beside %d: %d %v", c.header, n, r.status, r.header)
			}
		}
	}
}

// TestAWholeListThatIsBehindIsNotRead: it waits for its position before it takes a place
// and a connection.
func TestAWholeListThatIsBehindIsNotRead(t *testing.T) {
	t.Parallel()
	s := newStand(t)
	s.append(objects("acme")...)
	s.project("acme", 0)
	key := s.key("acme", allPermissions()...)
	before := testkit.AsPool(s.config.WholeLists.Pool).Stat().AcquireCount()
	list := s.begin(http.MethodGet, "/v1/contractors", key, "Accept", ndjson, "Log-Position-At-Least", strconv.FormatInt(s.visible("acme")+1, 10))
	s.waiting(0, 1)
	if n := testkit.AsPool(s.config.WholeLists.Pool).Stat().AcquireCount() - before; n != 0 {
		t.Errorf("%d statements of whole lists have run", n)
	}
	s.append(objects("acme")[0])
	s.project("acme", 0)
	if r := list.answered(); r.status != 200 || r.header.Get("Log-Position") != strconv.FormatInt(s.visible("acme"), 10) {
		t.Errorf("%d %v %s", r.status, r.header, r.body)
	}
}

// TestAPositionAndAWait: a request can demand both.
func TestAPositionAndAWait(t *testing.T) {
	t.Parallel()
	s := newStand(t)
	s.append(objects("acme")...)
	s.project("acme", 0)
	key := s.key("acme", allPermissions()...)
	at := s.visible("acme")
	waits := s.begin(http.MethodGet, s.atEnd("/v1/events", "", key), key, "Log-Position-At-Least", strconv.FormatInt(at+1, 10), "Prefer", "wait=30")
	s.waiting(0, 1)
	s.append(objects("acme")[0]) // shows nothing there
	s.project("acme", 0)
	s.waiting(1, 0)
	s.append(waitable()["/v1/events"])
	s.project("acme", 0)
	if r := waits.answered(); r.status != 200 || len(r.envelope(t).Data) != 1 || r.header.Get("Log-Position") != strconv.FormatInt(at+2, 10) {
		t.Errorf("%d %v %s", r.status, r.header, r.body)
	}
}
