package readapi_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/ledgerfeed/ledgerfeed/internal/pg"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
	"github.com/ledgerfeed/ledgerfeed/readapi"
	"github.com/ledgerfeed/ledgerfeed/readapi/access"
	"github.com/ledgerfeed/ledgerfeed/readapi/requestlog"
)

// fat makes a workspace with rows of 8 KB each, more than all buffers between the database
// and a reader hold.
func (s *stand) fat(workspaceID string, rows int) {
	s.t.Helper()
	s.workspace(workspaceID)
	testkit.AsOwner(s.t, s.pool, fmt.Sprintf(`
		INSERT INTO contractor SELECT '%s', 'co_' || n, n, '{"id":"co_' || n || '","name":"' || repeat('x', 8000) || '"' FROM generate_series(1, %d) n; ANALYZE contractor`, workspaceID, rows))
}

// beginWhole begins a whole list, of which its caller reads nothing by itself: the windows of
// the connection are narrow.
func (s *stand) beginWhole(ctx context.Context, path, key string, headers ...string) (*begun, error) {
	r, err := written(ctx, s.server.Listener.Addr().String(), http.MethodGet, path, key, headers...)
	if err != nil {
		return nil, err
	}
	transport := &http.Transport{DialContext: (&net.Dialer{Control: narrowWindow}).DialContext, DisableKeepAlives: true}
	answer, err := transport.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	s.t.Cleanup(func() { answer.Body.Close() })
	return &begun{answer.StatusCode, answer.Header, answer.Body}, nil
}

// begun is an answer that is not read yet. It is closed when the test ends.
type begun struct {
	status int
	header http.Header
	body   io.ReadCloser
}

// reading begins a whole list and reads its first line, or fails the test.
func (s *stand) reading(path, key string, headers ...string) (*begun, *bufio.Reader) {
	s.t.Helper()
	r, err := s.beginWhole(s.t.Context(), path, key, append(headers, "Accept", ndjson)...)
	if err != nil {
		s.t.Fatal(err)
	}
	body := bufio.NewReader(r.body)
	if line, err := body.ReadString('\n'); r.status != http.StatusOK || err != nil {
		s.t.Fatalf("%s: %d %.300s %v", path, r.status, line, err)
	}
	return r, body
}

// narrowly serves the stand's API over narrow connections.
func (s *stand) narrowly(change func(*http.Server)) {
	s.t.Helper()
	s.impatient(change, func(l net.Listener) net.Listener { return narrow{l} })
}

func unchanged(*http.Server) {}

// endStatements ends the connections on which lists of contractors are read. Autovacuum of this large new
// table is an active session, too, and does not count.
func (s *stand) endStatements() {
	s.t.Helper()
	conn := testkit.OwnerConn(s.t, s.pool)
	testkit.Eventually(s.t, func() error { // a list has begun before its statement, or between two
		var ended int64
		err := conn.QueryRow(s.t.Context(), `
			SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
			 WHERE datname = current_database() AND state = 'active' AND pid <> pg_backend_pid()
			   AND backend_type = 'client backend' AND query LIKE '%FROM contractor%'`).Scan(&ended)
		if err == nil && ended == 0 {
			err = errors.New("no list is read")
		}
		return err
	})
}

// brokenOff reads the rest of a list, fails the test unless it was broken off, and returns
// what was recorded of it.
func (s *stand) brokenOff(what string, body io.Reader) requestlog.Record {
	s.t.Helper()
	rest, err := io.ReadAll(body)
	if err == nil || bytes.Contains(rest, []byte("next_cursor")) {
		s.t.Errorf("%s: the list ends as if it were whole, after %d bytes: %.100s", what, len(rest), rest[max(0, len(rest)-100):])
	}
	s.until(func() bool { return len(s.requests.all()) > 0 })
	r := s.requests.take()[0]
	if !r.Streamed || r.Problem == nil || r.Problem.Title != "The list was broken off" {
		s.t.Errorf("%s: recorded as %+v", what, r)
	}
	s.until(func() bool { return testkit.AsPool(s.config.WholeLists.Pool).Stat().AcquiredConns() == 0 })
	return r
}

// TestAWholeListThatIsBrokenOff: whatever ends a list before its end, its reader sees that.
func TestAWholeListThatIsBrokenOff(t *testing.T) {
	t.Parallel()
	s := newStand(t)
	s.fat("acme", 4000)
	s.narrowly(unchanged)
	key := s.key("acme", allPermissions()...)
	for _, c := range []struct {
		what   string
		status int
		end    func(key string)
	}{
		{"the database ends the statement", 503, func(string) {
			s.endStatements()
		}},
		{"the key is revoked", 401, func(key string) {
			record := testkit.Must(s.directory.Authenticate(t.Context(), key))(t)
			testkit.Must(s.store.Revoke(t.Context(), "acme", record.ID))(t)
		}},
	} {
		own := s.key("acme", access.ContractorsRead)
		_, body := s.reading("/v1/contractors", own)
		c.end(own)
		if r := s.brokenOff(c.what, body); r.Status != c.status || r.Rows == 0 || r.Bytes == 0 {
			t.Errorf("%s: recorded as %+v", c.what, r)
		}
	}
	// The end of a connection is the end of an answer in HTTP/1.0, so it is reset.
	conn := testkit.Must((&net.Dialer{Control: narrowWindow}).DialContext(t.Context(), "tcp", s.server.Listener.Addr().String()))(t)
	defer conn.Close()
	testkit.Must(io.WriteString(conn, "GET /v1/contractors HTTP/1.0\r\nAccept: text/csv\r\nAuthorization: Bearer "+key+"\r\n\r\n"))(t)
	testkit.Must(conn.Read(make([]byte, 1)))(t)
	s.endStatements()
	if n, err := io.Copy(io.Discard, conn); err == nil {
		t.Errorf("a list in HTTP/1.0 that is broken off ends as if it were whole, after %d bytes: %+v", n, s.requests.all())
	}
	s.workspace("small")
	if r := s.raw("GET /v1/contractors HTTP/1.0\r\nAccept: application/x-ndjson\r\nAuthorization: Bearer " + s.key("small", allPermissions()...) + "\r\n\r\n"); !strings.HasSuffix(r, "\"}\n") {
		t.Errorf("a whole list in HTTP/1.0: %s", r)
	}
}

// TestAWholeListWhoseTimeIsOver: its reader sees that it is not whole. The second chunk is
// only sent when the time is over.
func TestAWholeListWhoseTimeIsOver(t *testing.T) {
	t.Parallel()
	var keys askedKeys
	s := newStand(t, func(c *readapi.Config) {
		keys.Authenticator, c.Keys = c.Keys, &keys
		c.WholeLists.Timeout = 5 * time.Second // enough for the first row on any machine
	})
	s.fat("acme", 4000)
	s.narrowly(unchanged)
	keys.each(func(ctx context.Context, n int64) error {
		if n == 4 {
			<-ctx.Done()
		}
		return nil
	})
	_, body := s.reading("/v1/contractors", s.key("acme", access.ContractorsRead))
	if r := s.brokenOff("its time is over", body); r.Status != 503 || r.Rows == 0 || r.Bytes == 0 {
		t.Errorf("recorded as %+v", r)
	}
}

// TestAWholeListOverHTTP2: trailer and header are there, and a list that is broken off
// ends with an error.
func TestAWholeListOverHTTP2(t *testing.T) {
	t.Parallel()
	s := newStand(t)
	s.fat("acme", 20_000) // more than what the windows of HTTP/2 and TCP hold
	server := httptest.NewUnstartedServer(s.api)
	server.Config.WriteTimeout = 30 * time.Second // as in serve
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)
	key := s.key("acme", allPermissions()...)
	get := func(accept string) (r *begun, trailer func() string) {
		q := testkit.Must(http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+"/v1/contractors", http.NoBody))(t)
		q.Header.Set("Authorization", "Bearer "+key)
		q.Header.Set("Accept", accept)
		answer, err := server.Client().Do(q)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { answer.Body.Close() })
		if answer.ProtoMajor != 2 {
			t.Errorf("HTTP/%d", answer.ProtoMajor)
		}
		return &begun{answer.StatusCode, answer.Header, answer.Body}, func() string { return answer.Trailer.Get("Next-Cursor") }
	}
	r, trailer := get(csvForm)
	body, err := io.ReadAll(r.body)
	cursor := r.header.Get("Next-Cursor")
	if err != nil || cursor == "" || trailer() != cursor || len(body) < 8_000_000 {
		t.Errorf("%d bytes, cursor %q, trailer %q, %v", len(body), cursor, trailer(), err)
	}
	r, _ = get(ndjson)
	testkit.Must(bufio.NewReaderSize(r.body, 100).ReadByte())(t)
	s.endStatements()
	if rest, err := io.ReadAll(r.body); err == nil || bytes.Contains(rest, []byte("next_cursor")) {
		t.Errorf("a list that was broken off ends with %v after %d bytes", err, len(rest))
	}
}

// TestAReaderThatGoesAway holds nothing any more.
func TestAReaderThatGoesAway(t *testing.T) {
	t.Parallel()
	s := newStand(t)
	s.fat("acme", 4000)
	s.narrowly(unchanged)
	ctx, goAway := context.WithCancel(t.Context())
	r := testkit.Must(s.beginWhole(ctx, "/v1/contractors", s.key("acme", access.ContractorsRead), "Accept", csvForm))(t)
	goAway()
	if r := s.brokenOff("the reader goes", r.body); r.Status != 499 {
		t.Errorf("recorded as %+v", r)
	}
}

// TestPlacesOfWholeLists: a workspace reads no more lists at once than it may, others and
// pages are not held up by it, and beyond all places the answer says so.
func TestPlacesOfWholeLists(t *testing.T) {
	t.Parallel()
	s := newStand(t, func(c *readapi.Config) { c.WholeLists.Most = 3 })
	keys := map[string]string{}
	for _, w := range []string{"flood", "quiet", "third", "fourth"} {
		s.fat(w, 2000)
		keys[w] = s.key(w, allPermissions()...)
	}
	s.narrowly(unchanged)
	held, _ := s.reading("/v1/contractors", keys["flood"])
	r := s.get("/v1/contractors", keys["flood"], "Accept", csvForm)
	checkHeaders(t, "a second list", r)
	if r.status != http.StatusTooManyRequests || !strings.Contains(string(r.body), "whole lists") {
		t.Errorf("a second list of a workspace: %d %.300s", r.status, r.body)
	}
	s.contract = nil // of answers with rows that are none
	for _, c := range [][]string{{"flood", "/v1/contractors"}, {"quiet", "/v1/contractors"}, {"flood", "/v1/me"}} {
		if r := s.get(c[1], keys[c[0]]); r.status != http.StatusOK {
			t.Errorf("a page of %s beside its list: %d %s", c, r.status, r.body)
		}
	}
	if r := s.do(http.MethodHead, "/v1/contractors", keys["flood"], "Accept", csvForm); r.status != http.StatusOK {
		t.Errorf("HEAD needs a place: %d", r.status)
	}
	s.reading("/v1/contractors", keys["quiet"])
	s.reading("/v1/contractors", keys["third"])
	r = s.get("/v1/contractors", keys["fourth"], "Accept", csvForm)
	checkHeaders(t, "one list too many", r)
	if r.status != http.StatusServiceUnavailable || !strings.Contains(string(r.body), "whole lists") {
		t.Errorf("a fourth list: %d %.300s", r.status, r.body)
	}
	held.body.Close()
	s.until(func() bool {
		r := s.get("/v1/contractors", keys["fourth"], "Accept", csvForm)
		return r.status == http.StatusOK
	})
}

// TestTheCostOfAWholeList: one request, and one more for each 10,000 rows begun. Where the
// limit is reached on the way, the list goes on and the key's next request is refused.
func TestTheCostOfAWholeList(t *testing.T) {
	t.Parallel()
	s := newStand(t)
	s.fillTables("client", "payment", "charge", "removed_charge")
	s.contract = nil // the rows are none
	for _, c := range []struct {
		path, workspace string
		rows, left      int
	}{
		{"/v1/clients", "big", 20_000, 10 - 3}, {"/v1/clients", "small", 50, 10 - 2}, {"/v1/payments?client_id=none", "big", 0, 10 - 1},
		{"/v1/charges?include=removed", "big", 40_000, 10 - 5},
	} {
		key := s.keyLimited(c.workspace, 10, allPermissions()...)
		body := s.get(c.path, key, "Accept", ndjson).body
		if n := bytes.Count(body, []byte("\n")) - 1; n != c.rows || s.requests.last().Rows != c.rows {
			t.Errorf("%s of %s: %d rows, want %d; recorded: %d", c.path, c.workspace, n, c.rows, s.requests.last().Rows)
		}
		if left := s.get("/v1/me", key).header.Get("Ratelimit-Remaining"); left != fmt.Sprint(c.left-1) {
			t.Errorf("%s of %s leaves %s requests, want %d", c.path, c.workspace, left, c.left-1)
		}
	}
	key := s.keyLimited("big", 2, allPermissions()...)
	if rows, _, whole := parseNDJSON(s.get("/v1/clients", key, "Accept", ndjson).body); len(rows) != 20_000 || !whole {
		t.Errorf("beyond the limit: %d rows, whole %v", len(rows), whole)
	}
	if r := s.get("/v1/me", key); r.status != http.StatusTooManyRequests {
		t.Errorf("after it: %d", r.status)
	}
}

// TestConditionsOfWholeLists: HEAD, ETags and encodings are as on pages, each form has its
// own ETag, and a list that has not changed is not read.
func TestConditionsOfWholeLists(t *testing.T) {
	t.Parallel()
	s := newStand(t)
	s.append(history(t, "acme", 8, s.clock.Now(), 24*time.Hour, 120)...)
	s.project("acme", 0)
	key := s.key("acme", allPermissions()...)
	tags := map[string]string{}
	for path := range rowLists() {
		for _, accept := range []string{"application/json", ndjson, csvForm} {
			plain := s.get(path, key, "Accept", accept)
			for _, encoding := range []string{"identity", "gzip", "zstd"} {
				what := path + " as " + accept + " in " + encoding
				headers := []string{"Accept", accept, "Accept-Encoding", encoding, "X-Request-Id", "same"}
				get, head := s.get(path, key, headers...), s.do(http.MethodHead, path, key, headers...)
				checkWholeHeaders(t, what, get, accept)
				if !bytes.Equal(unpack(t, get), plain.body) || encoding != "identity" && accept != "application/json" && get.header.Get("Content-Encoding") != encoding {
					t.Errorf("%s: another list, or encoded as %q", what, get.header.Get("Content-Encoding"))
				}
				for _, h := range []http.Header{get.header, head.header} {
					for _, changing := range []string{"Ratelimit-Remaining", "Ratelimit", "Date", "Trailer"} {
						h.Del(changing)
					}
				}
				if get.status != head.status || fmt.Sprint(get.header) != fmt.Sprint(head.header) || len(head.body) > 0 {
					t.Errorf("%s: GET %d %v\nHEAD %d %v", what, get.status, get.header, head.status, head.header)
				}
				tag := get.header.Get("Etag")
				if before, taken := tags[tag]; tag == "" || taken && !strings.Contains(what, "application/json") {
					t.Errorf("%s has the ETag %q, as %s", what, tag, before)
				}
				tags[tag] = what
				for _, method := range []string{http.MethodGet, http.MethodHead} {
					r := s.do(method, path, key, append(headers, "If-None-Match", tag)...)
					if r.status != http.StatusNotModified || r.header.Get("Etag") != tag || r.header.Get("Vary") != get.header.Get("Vary") {
						t.Errorf("%s of %s with its ETag: %d %v", method, what, r.status, r.header)
					}
					if r := s.do(method, path, key, append(headers, "If-None-Match", "*")...); r.status != http.StatusNotModified {
						t.Errorf("%s of %s with *: %d", method, what, r.status)
					}
				}
			}
		}
	}
	lists := testkit.AsPool(s.config.WholeLists.Pool).Stat().AcquireCount()
	tag := s.get("/v1/clients", key, "Accept", csvForm).header.Get("Etag")
	if r := s.get("/v1/clients", key, "Accept", csvForm, "If-None-Match", tag); r.status != http.StatusNotModified || testkit.AsPool(s.config.WholeLists.Pool).Stat().AcquireCount() != lists+1 {
		t.Errorf("a list that has not changed: %d, and it was read", r.status)
	}
}

// checkWholeHeaders is checkHeaders for an answer in any form.
func checkWholeHeaders(t testing.TB, what string, r reply, accept string) {
	t.Helper()
	if got := r.header.Get("Content-Type"); !strings.HasPrefix(got, accept) {
		t.Errorf("%s: Content-Type is %q", what, got)
	}
	r.header = r.header.Clone()
	r.header.Set("Content-Type", "application/json")
	checkHeaders(t, what, r)
}

// TestAServerThatStopsBreaksListsOff: it does not wait for them for longer than for other
// requests, and their readers see it.
func TestAServerThatStopsBreaksListsOff(t *testing.T) {
	t.Parallel()
	s := newStand(t)
	s.fat("acme", 4000)
	s.narrowly(unchanged)
	_, body := s.reading("/v1/contractors", s.key("acme", access.ContractorsRead))
	ctx, cancel := context.WithTimeout(t.Context(), 4*soon)
	defer cancel()
	if err := s.server.Config.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the server has stopped with %v while a list was being read", err)
	}
	if err := s.server.Config.Close(); err != nil {
		t.Error(err)
	}
	s.brokenOff("the server stops", body)
}

// TestAWholeListWhileRowsChange: a list that is read while rows change is of the moment at
// which it began, and goes on by its cursor with everything that has changed since.
func TestAWholeListWhileRowsChange(t *testing.T) {
	t.Parallel()
	s := newStand(t)
	lines := history(t, "acme", 6, s.clock.Now(), 25*24*time.Hour, 1500)
	s.append(lines[:500]...)
	s.project("acme", 0)
	s.narrowly(unchanged)
	key := s.key("acme", allPermissions()...)
	held, next := map[string]map[string]string{}, 500
	cursors := map[string]string{}
	for round := 0; next < len(lines); round++ {
		for path := range rowLists() {
			target := path + "?" + everything(path)
			if cursors[path] != "" {
				target += "&cursor=" + cursors[path]
			}
			want := s.whole1(target, key)
			r := testkit.Must(s.beginWhole(t.Context(), target, key, "Accept", ndjson))(t)
			body := bufio.NewReader(r.body)
			var read bytes.Buffer
			if n := min(len(want), 1+len(want)/3); n > 0 {
				testkit.Must(io.CopyN(&read, body, int64(n)))(t)
			}
			step := min(37, len(lines)-next)
			s.append(lines[next : next+step]...)
			next += step
			s.project("acme", 0)
			testkit.Must(io.Copy(&read, body))(t)
			r.body.Close()
			if read.String() != want {
				t.Fatalf("%s changed while it was read", target)
			}
			rows, cursor, whole := parseNDJSON(read.Bytes())
			if !whole {
				t.Fatalf("%s is not whole", target)
			}
			cursors[path] = cursor
			held[path] = keep(t, held[path], rows)
		}
	}
	for path := range rowLists() {
		rows, _, _ := parseNDJSON([]byte(s.whole1(path+"?"+everything(path)+"&cursor="+cursors[path], key)))
		got := keep(t, held[path], rows)
		want := keep(t, nil, texts(s.expected("acme", path, nil, view{true, true})))
		if len(got) != len(want) {
			t.Errorf("%s: %d rows are held, want %d", path, len(got), len(want))
		}
		for id, row := range want {
			if followedRow(path, got[id]) != followedRow(path, row) {
				t.Errorf("%s: %s is held as\n%s\nwant\n%s", path, id, got[id], row)
			}
		}
	}
}

// whole1 is a whole list as it comes.
func (s *stand) whole1(target, key string) string {
	s.t.Helper()
	r := s.get(target, key, "Accept", ndjson)
	if r.status != http.StatusOK {
		s.t.Fatalf("%s: %d %s", target, r.status, r.body)
	}
	return string(r.body)
}

// keep takes rows over, and what has left out.
func keep(t testing.TB, held map[string]string, rows []string) map[string]string {
	t.Helper()
	if held == nil {
		held = map[string]string{}
	}
	for _, row := range rows {
		id := testkit.Must(decodeID([]byte(row)))(t)
		held[id] = row
		if strings.Contains(row, `"removed":true`) {
			delete(held, id)
		}
	}
	return held
}

// TestTheTrailerOfAWholeList: in HTTP/1.1 it follows the last chunk.
func TestTheTrailerOfAWholeList(t *testing.T) {
	t.Parallel()
	s := newStand(t)
	s.append(history(t, "acme", 8, s.clock.Now(), 24*time.Hour, 60)...)
	s.project("acme", 0)
	key := s.key("acme", allPermissions()...)
	cursor := s.get("/v1/clients", key, "Accept", csvForm).header.Get("Next-Cursor")
	for _, accept := range []string{ndjson, csvForm} {
		r := s.raw("GET /v1/clients HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAccept: " + accept + "\r\nAuthorization: Bearer " + key + "\r\n\r\n")
		head, _, _ := strings.Cut(r, "\r\n\r\n")
		if !strings.Contains(head, "\r\nTrailer: Next-Cursor") || !strings.Contains(head, "\r\nNext-Cursor: "+cursor) || !strings.HasSuffix(r, "\r\n0\r\nNext-Cursor: "+cursor+"\r\n\r\n") {
			t.Errorf("%s ends with %q after %q", accept, r[max(0, len(r)-100):], head)
		}
	}
}

// TestAListWithoutAConnectionIsRefused: a whole list whose share of the connections is taken by
// other long reads is refused within seconds, and not only when its own time is over.
func TestAListWithoutAConnectionIsRefused(t *testing.T) {
	t.Parallel()
	var lists *pg.Share
	s := newStand(t, func(c *readapi.Config) {
		pool := testkit.Must(pg.Open(t.Context(), c.WholeLists.Pool.(*pg.Pool).Config().ConnString(), pg.Options{MaxConns: 3}))(t)
		t.Cleanup(pool.Close)
		long := pool.NewShare(pg.ShareOptions{Most: 1, Long: true})
		lists = pool.NewShare(pg.ShareOptions{Most: 2, Long: true, Settings: readapi.WholeListPoolSettings(time.Minute)})
		held := testkit.Must(long.Acquire(t.Context()))(t)
		t.Cleanup(held.Release)
		c.WholeLists.Pool, c.Timeout = lists, 400*time.Millisecond
	})
	s.append(objects("acme")...)
	s.project("acme", 0)
	key := s.key("acme", allPermissions()...)
	r := s.get("/v1/clients", key, "Accept", csvForm)
	if r.status != http.StatusServiceUnavailable || r.header.Get("Retry-After") == "" {
		t.Errorf("%d %s", r.status, r.body)
	}
	if use := lists.Use(); use.Used != 0 || use.Waiting != 0 {
		t.Errorf("%+v", use)
	}
}
