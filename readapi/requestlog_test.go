package readapi_test

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
	"github.com/ledgerfeed/ledgerfeed/readapi/access"
	"github.com/ledgerfeed/ledgerfeed/readapi/requestlog"
	"github.com/ledgerfeed/ledgerfeed/readapi/route"
)

func (s *stand) requestStore() *requestlog.Store {
	s.t.Helper()
	return testkit.Must(requestlog.New(requestlog.Config{Pool: s.pool, Clock: s.clock.Now, Logger: testkit.Discard()}))(s.t)
}

// run lets the store write what is queued, and end.
func run(t testing.TB, store *requestlog.Store) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := store.Run(ctx); err != nil {
		t.Fatal(err)
	}
}

func (s *stand) count(query string, args ...any) (n int64) {
	s.t.Helper()
	if err := s.pool.QueryRow(s.t.Context(), query, args...).Scan(&n); err != nil {
		s.t.Fatal(err)
	}
	return n
}

// TestRequestsAreKept: accepted ones one by one, refused ones as counts.
func TestRequestsAreKept(t *testing.T) {
	t.Parallel()
	s := newStand(t)
	s.append(objects("acme")...)
	s.project("acme", 0)
	key := s.keyLimited("acme", 6, access.InvoicesRead)
	store := s.requestStore()
	for _, target := range []string{"/v1/invoices?client_id=cl_1", "/v1/invoices/in_1", "/v1/invoices/in_2", "/v1/nowhere", "/v1/clients", "/v1/me?x=1", "/v1/me", "/v1/me"} {
		s.get(target, key)
		record := s.requests.last()
		store.Record(&record)
	}
	for range 3 {
		s.get("/v1/me?key="+key, "")
		record := s.requests.last()
		store.Record(&record)
		s.get("/v1/me", key+"x")
		record = s.requests.last()
		store.Record(&record)
	}
	run(t, store)
	rows := testkit.Must(s.pool.Query(t.Context(), `SELECT route || ' ' || status || ' ' || row_count FROM request_log WHERE workspace_id = 'acme' AND method = 'GET' AND key_prefix = $1 ORDER BY route, status`, key[:16]))(t)
	var got []string
	for rows.Next() {
		var line string
		if err := rows.Scan(&line); err != nil {
			t.Fatal(err)
		}
		got = append(got, line)
	}
	want := []string{" 404 0", "/v1/clients 403 0", "/v1/invoices 200 1", "/v1/invoices/{id} 200 1", "/v1/invoices/{id} 404 0", "/v1/me 400 0"}
	if len(got) != len(want) {
		t.Fatalf("%q, want %q", got, want)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("%q, want %q", got[i], want[i])
		}
	}
	for query, want := range map[string]int64{
		`SELECT refused FROM request_refused WHERE workspace_id = 'acme' AND reason = 'rate_limit' AND key_id LIKE 'key_%'`: 2,
		`SELECT refused FROM request_refused WHERE workspace_id = '*' AND reason = 'key_in_url' AND key_id = ''`:            3,
		`SELECT refused FROM request_refused WHERE workspace_id = '*' AND reason = 'malformed'`:                             3,
		`SELECT count(*) FROM request_refused`: 3,
	} {
		if n := s.count(query); n != want {
			t.Errorf("%s: %d, want %d", query, n, want)
		}
	}
	run(t, store) // nothing is queued
	if n := s.count(`SELECT count(*) FROM request_log`); n != 6 || store.Dropped() != 0 {
		t.Errorf("%d rows, %d dropped", n, store.Dropped())
	}
}

// keep lets a store write all requests that the API has answered since the last time.
func (s *stand) keep() {
	s.t.Helper()
	store := s.requestStore()
	for _, r := range s.requests.take() {
		store.Record(&r)
	}
	run(s.t, store)
	if store.Dropped() > 0 {
		s.t.Fatalf("%d requests were dropped", store.Dropped())
	}
}

// TestErrorsAreExplained: the request log keeps what an error said, the path with its
// ids, and where a request came from, each bounded.
func TestErrorsAreExplained(t *testing.T) {
	t.Parallel()
	s := newStand(t)
	s.append(objects("acme")...)
	s.project("acme", 0)
	key := s.key("acme", access.InvoicesRead)
	long := strings.Repeat("a", 300)
	for _, c := range []struct {
		target, agent   string
		path, keptAgent any    // nil: NULL
		problem         string // a part of it; empty: there is none
	}{
		{target: "/v1/invoices?limit=3", agent: "curl/8.5.0", keptAgent: "curl/8.5.0"},
		{target: "/v1/invoices/in_1", agent: long, path: "/v1/invoices/in_1", keptAgent: long[:197] + "…"},
		{
			target: "/v1/invoices/in_404", path: "/v1/invoices/in_404",
			problem: `{"title": "Not found", "detail": "There is no invoice with this id that this key may see."}`,
		},
		{target: "/v2/in%20voices?limit=3", path: "/v2/in%20voices", problem: `"detail": "There is nothing at this path.`},
		{target: "/v1/" + long, path: "/v1/" + long[:249] + "…", problem: `"Not found"`},
		{target: "/v1/invoices%3Fclient_id=Miller", path: "/v1/invoices…", problem: `"Not found"`},
		{target: "/v1/%69nvoices/%C3%A4", path: "/v1/%69nvoices/%C3%A4", problem: `"Not found"`},
		{
			target: "/v1/clients/cl_1", path: "/v1/clients/cl_1",
			problem: `{"title": "The key lacks a permission", "detail": "This key lacks the permission clients:read.", "permission": "clients:read"}`,
		},
		{
			target:  "/v1/invoices?limit=Miller&pageSize=5&Miller2=x",
			problem: `[{"field": "limit", "message": "must be a whole number from 1 to 100"}, {"field": "pageSize", "message": "is not a parameter`,
		},
		{target: "/v1/me?Miller2=x", agent: "a\tb\xff\xc3\xa4", keptAgent: "a b?ä", problem: `"field": "(unknown)"`},
	} {
		if c.agent == "" {
			c.agent, c.keptAgent = "test", "test"
		}
		s.get(c.target, key, "User-Agent", c.agent, "X-Forwarded-For", "192.0.2.7")
		id := s.requests.last().RequestID
		s.keep()
		var address string
		var path, agent, problem *string
		err := s.pool.QueryRow(t.Context(), `SELECT host(address), path, user_agent, problem::text FROM request_log WHERE request_id = $1`, id).
			Scan(&address, &path, &agent, &problem)
		if err != nil {
			t.Fatal(err)
		}
		kept := func(text *string) any {
			if text == nil {
				return nil
			}
			return *text
		}
		if address != "192.0.2.7" || kept(path) != c.path || kept(agent) != c.keptAgent {
			t.Errorf("%s: address %s, path %v, user agent %v", c.target, address, kept(path), kept(agent))
		}
		if (problem == nil) != (c.problem == "") || problem != nil && !strings.Contains(*problem, c.problem) {
			t.Errorf("%s: problem %v, want %q", c.target, kept(problem), c.problem)
		}
	}
	var query strings.Builder
	for i := range 100 {
		fmt.Fprintf(&query, "&%s=%d", strings.Repeat("x", i+1), i)
	}
	s.get("/v1/invoices?"+query.String()[1:], key)
	s.keep()
	if n := s.count(`SELECT max(jsonb_array_length(problem -> 'errors')) FROM request_log`); n != requestlog.MaxFaults {
		t.Errorf("%d faults are kept", n)
	}
}

// TestRequestsHoldNoSecrets: neither a key nor a value of a parameter is in the request
// log, wherever the caller put it.
func TestRequestsHoldNoSecrets(t *testing.T) {
	t.Parallel()
	s := newStand(t)
	s.append(objects("acme")...)
	s.project("acme", 0)
	key := s.key("acme", allPermissions()...)
	other := s.key("acme", access.InvoicesRead)
	percent := func(text string) string {
		var b strings.Builder
		for i := range len(text) {
			fmt.Fprintf(&b, "%%%02X", text[i])
		}
		return b.String()
	}
	spellings := []string{other, strings.ToUpper(other[:7]) + other[7:], percent(other), percent(percent(other)), strings.ReplaceAll(other, "_", "%5f"), other + other}
	for _, spelled := range spellings {
		for _, target := range []string{
			"/v1/invoices/" + spelled, "/v1/" + spelled, "/" + spelled + "/x", "/v1/invoices?client_id=" + spelled, "/v1/invoices?" + spelled + "=1", "/v1/me?key=" + spelled,
		} {
			s.get(target, key)
		}
		s.get("/v1/me", key, "User-Agent", spelled)
		s.get("/v1/me", key, "User-Agent", strings.Repeat("x", 180)+" "+spelled) // across the bound
		s.get("/v1/nowhere", key, "User-Agent", "curl/8 ("+spelled+")", "X-Request-Id", spelled, "Referer", "https://example.com/?"+spelled)
	}
	const value = "Miller-77"
	for _, r := range route.Table() {
		path := strings.ReplaceAll(r.Path, "{id}", "in_1")
		for _, p := range r.Params {
			s.get(path+"?"+p.Name+"="+value, key)
			s.get(path+"?"+p.Name+"="+value+"&"+p.Name+"=%zz"+value, key)
		}
		s.get(path+"?"+value+"=1&x="+value, key)
		for _, mark := range []string{"%3F", "%3f", "%253F", "%25253f", "&", ";", "%26", "="} { // in the path
			s.get(path+mark+"name"+mark+value, key)
		}
	}
	s.keep()
	if n := s.count(`SELECT count(*) FROM request_log WHERE user_agent = '[held an API key]'`); n != int64(3*len(spellings)) {
		t.Errorf("%d requests are known to have held a key in their user agent, want %d", n, 3*len(spellings))
	}
	var kept string
	if err := s.pool.QueryRow(t.Context(), `SELECT string_agg(r::text, E'\n') FROM request_log r`).Scan(&kept); err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{other[17:], other[17:30], percent(other[17:30]), percent(percent(other[17:30])), value} {
		if i := strings.Index(kept, secret); i >= 0 {
			t.Errorf("the request log holds %s: …%s…", secret, kept[max(0, i-200):min(len(kept), i+100)])
		}
	}
}

// TestRequestsHoldNothingOfTheirKey: the request log has no text with the key of the request itself, or
// a part of it that matters: without its brand, the secret alone, cut into pieces or encoded.
func TestRequestsHoldNothingOfTheirKey(t *testing.T) {
	t.Parallel()
	s := newStand(t)
	s.append(objects("acme")...)
	s.project("acme", 0)
	key := s.key("acme", allPermissions()...)
	parts := strings.Split(key, "_")
	secret := parts[2]
	encoded := func(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }
	spellings := []string{
		parts[1] + "_" + secret, secret, secret[:20], secret[10:], strings.ToUpper(secret), strings.ReplaceAll(key, "_", "-"), key[:len(key)-1], key[20:],
		key[:20] + "%00" + key[20:], key[:20] + "%E2%80%8B" + key[20:], key[:30] + "/" + key[30:], "x" + secret + "y",
		url.PathEscape(encoded(secret)), url.PathEscape(encoded("user:" + secret)), url.PathEscape(encoded(encoded(secret))), strings.TrimRight(encoded("ab"+secret), "="),
		base64.URLEncoding.EncodeToString([]byte("??" + secret)), hex.EncodeToString([]byte(secret)), url.PathEscape("Bearer " + secret),
	}
	for _, spelled := range spellings {
		s.get("/v1/clients/"+spelled, key)
		s.get("/nowhere/"+spelled+"/x", key)
		s.get("/v1/clients?"+spelled+"=1", key)
		s.get("/v1/events?type="+spelled, key)
		agent, err := url.PathUnescape(spelled)
		if err != nil {
			t.Fatal(err)
		}
		s.get("/v1/me", key, "User-Agent", "x/"+strings.NewReplacer("\x00", ".", "\u200b", ".").Replace(agent))
		if r := s.get("/v1/me", key, "X-Request-Id", spelled[:min(64, len(spelled))]); r.header.Get("X-Request-Id") == spelled {
			t.Errorf("%s is taken over as an id", spelled)
		}
	}
	// What has nothing of the key stays as it is.
	s.get("/v1/clients/cl_4821-and-"+strings.Repeat("0123456789", 4), key, "User-Agent", "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 "+encoded("nothing of a secret at all"))
	s.keep()
	if n := s.count(`SELECT count(*) FROM request_log WHERE user_agent = '[held an API key]'`); n != int64(len(spellings)) {
		t.Errorf("%d requests are known to have held the key in their user agent, want %d", n, len(spellings))
	}
	if n := s.count(`SELECT count(*) FROM request_log WHERE path = '[held an API key]'`); n != int64(2*len(spellings)) {
		t.Errorf("%d requests are known to have held the key in their path, want %d", n, 2*len(spellings))
	}
	if n := s.count(`SELECT count(*) FROM request_log WHERE user_agent LIKE 'Mozilla%' AND path LIKE '%cl_4821%'`); n != 1 {
		t.Errorf("%d requests have the texts of a good one", n)
	}
	var kept string
	if err := s.pool.QueryRow(t.Context(), `SELECT string_agg(lower(r::text), E'\n') FROM request_log r`).Scan(&kept); err != nil {
		t.Fatal(err)
	}
	for _, text := range append(spellings, secret[:16]) {
		if strings.Contains(kept, strings.ToLower(text)) {
			t.Errorf("the request log holds %s", text)
		}
	}
	if strings.Contains(s.output.String(), secret[:16]) {
		t.Error("the log holds the secret")
	}
}

// until waits for something that the database or another goroutine does.
func (s *stand) until(done func() bool) {
	s.t.Helper()
	testkit.Eventually(s.t, func() error {
		if !done() {
			return errors.New("the condition does not become true")
		}
		return nil
	})
}

// TestRunEnds: no goroutine outlives Run or the server.
func TestRunEnds(t *testing.T) {
	testkit.Unpooled(t, "what relays its connections to the server are goroutines of this process")
	s := newStand(t)
	s.append(objects("acme")...)
	s.project("acme", 0)
	before := goleak.IgnoreCurrent() // the test's own server, pool and listener
	store := s.requestStore()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 2)
	go func() { done <- store.Run(ctx) }()
	go func() { done <- s.limiter.Run(ctx) }()
	key := s.key("acme", allPermissions()...)
	tag := s.get("/v1/invoices", key).header.Get("Etag")
	for range 20 {
		s.get("/v1/invoices", key, "If-None-Match", tag)
	}
	cancel()
	for range 2 {
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
	s.server.Client().CloseIdleConnections()
	s.server.Close()
	goleak.VerifyNone(t, before)
}
