package readapi_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
	"github.com/ledgerfeed/ledgerfeed/readapi"
	"github.com/ledgerfeed/ledgerfeed/readapi/access"
)

// waitable are the endpoints on which a request can wait, each with an entry that shows a
// new row there.
func waitable() map[string]string {
	entries := map[string]string{"/v1/clients/cl_1/credit": strings.Replace(topUp(1), `"c1"`, `"cl_1"`, 1)}
	for i, path := range []string{"/v1/clients", "/v1/contractors", "/v1/invoices", "/v1/events", "/v1/charges", "/v1/time-entries", "/v1/payments"} {
		entries[path] = objects("acme")[i]
	}
	entries["/v1/events"] = `{"workspace_id":"acme","type":"invoice.reversed","data":{"invoice_id":"in_1"}}`
	for _, path := range []string{"/v1/charges", "/v1/payments"} { // ids that are new
		entries[path] = strings.NewReplacer(`"ch_1"`, `"ch_2"`, `"pm_1"`, `"pm_2"`).Replace(entries[path])
	}
	return entries
}

// envelope is what an answer says of its list.
type envelope struct {
	Data       []json.RawMessage `json:"data"`
	History    []json.RawMessage `json:"history"`
	HasMore    bool              `json:"has_more"`
	NextCursor string            `json:"next_cursor"`
}

func (r reply) envelope(t testing.TB) envelope {
	t.Helper()
	var e envelope
	if err := json.Unmarshal(r.body, &e); err != nil {
		t.Fatalf("%d %s: %v", r.status, r.body, err)
	}
	e.Data = append(e.Data, e.History...)
	return e
}

// atEnd is the address of a list from where it ends now.
func (s *stand) atEnd(path, query, key string) string {
	s.t.Helper()
	target, sep := path, "?"
	if query != "" {
		target, sep = path+"?"+query, "&"
	}
	for from := target; ; {
		r := s.get(from, key)
		e := r.envelope(s.t)
		from = target + sep + "cursor=" + e.NextCursor
		if len(e.Data) == 0 && !e.HasMore {
			return from
		}
	}
}

// pending is a request whose answer is waited for.
type pending struct {
	t     testing.TB
	reply chan reply
}

// begin makes a request beside the test.
func (s *stand) begin(method, path, key string, headers ...string) *pending {
	s.t.Helper()
	return s.beginAt(s.t.Context(), s.server, method, path, key, headers...)
}

func (s *stand) beginAt(ctx context.Context, server *httptest.Server, method, path, key string, headers ...string) *pending {
	p := &pending{s.t, make(chan reply, 1)}
	go func() {
		r, err := ask(ctx, server, method, path, key, headers...)
		if err != nil && ctx.Err() == nil {
			s.t.Error(err)
		}
		p.reply <- r
	}()
	return p
}

// answered is the answer.
func (p *pending) answered() reply {
	p.t.Helper()
	patience, cancel := context.WithTimeout(p.t.Context(), 3*time.Minute)
	defer cancel()
	select {
	case r := <-p.reply:
		return r
	case <-patience.Done():
		p.t.Fatal("a request that waits is not answered")
		return reply{}
	}
}

// waiting waits until so many requests wait, for changes and for positions.
func (s *stand) waiting(changes, positions int) {
	s.t.Helper()
	testkit.Eventually(s.t, func() error {
		if c, p := s.api.Waits(); c != changes || p != positions {
			return fmt.Errorf("%d requests wait for changes and %d for positions, want %d and %d", c, p, changes, positions)
		}
		return nil
	})
}

// TestAListHoldsItsAnswer: on every list, a request that has nothing to be answered with
// waits until something is there, and gets what it would get then.
func TestAListHoldsItsAnswer(t *testing.T) {
	t.Parallel()
	s := newStand(t)
	s.append(objects("acme")...)
	s.project("acme", 0)
	key := s.key("acme", allPermissions()...)
	for path, entry := range waitable() {
		target := s.atEnd(path, "", key)
		before := s.get(target, key)
		get, head := s.begin(http.MethodGet, target, key, "Prefer", "wait=20"), s.begin(http.MethodHead, target, key, "Prefer", "wait=20")
		unchanged := s.begin(http.MethodGet, target, key, "Prefer", "wait=20", "If-None-Match", before.header.Get("Etag"))
		s.waiting(3, 0)
		s.append(entry)
		s.project("acme", 0)
		r := get.answered()
		checkHeaders(t, path, r)
		s.contract.judge(t, http.MethodGet, target, r)
		now := s.get(target, key)
		if r.status != 200 || len(r.envelope(t).Data) != 1 || !bytes.Equal(r.body, now.body) || r.header.Get("Etag") != now.header.Get("Etag") {
			t.Errorf("%s: %d %s\nwithout waiting: %s", path, r.status, r.body, now.body)
		}
		for _, r := range []reply{r, head.answered(), unchanged.answered()} {
			if r.status != 200 || r.header.Get("Preference-Applied") != "wait=20" || r.header.Get("Log-Position") != fmt.Sprint(s.visible("acme")) ||
				r.header.Get("Content-Length") != fmt.Sprint(len(now.body)) {
				t.Errorf("%s: %d %v", path, r.status, r.header)
			}
		}
		if now.header.Get("Preference-Applied") != "" {
			t.Errorf("%s: a preference that was not there is applied", path)
		}
		if r := s.get(target, key, "Prefer", "wait=20"); !bytes.Equal(r.body, now.body) || r.header.Get("Preference-Applied") != "wait=20" {
			t.Errorf("%s with something on it: %d %v", path, r.status, r.header)
		}
	}
}

// TestAWaitEndsWithItsTime: with the page that was there before, and a 304 for a caller who
// has it. The time counts from when the request came: of the half hour that they wait, all
// but a tenth of a second passes on the clock before their key is known.
func TestAWaitEndsWithItsTime(t *testing.T) {
	t.Parallel()
	var keys askedKeys
	s := newStand(t, func(c *readapi.Config) { keys.Authenticator, c.Keys = c.Keys, &keys })
	s.append(objects("acme")...)
	s.project("acme", 0)
	key := s.key("acme", allPermissions()...)
	for path := range waitable() {
		target := s.atEnd(path, "", key)
		before := s.get(target, key)
		ctx, goAway := context.WithCancel(t.Context())
		s.beginAt(ctx, s.server, http.MethodGet, target, key, "Prefer", "wait=30") // comes later on the clock, so it goes on
		s.waiting(1, 0)
		known := make(chan struct{})
		keys.from(func(n int64) error {
			if n <= 2 {
				<-known
			}
			return nil
		})
		unchanged := s.begin(http.MethodGet, target, key, "Prefer", "wait=30", "If-None-Match", before.header.Get("Etag"))
		same := s.begin(http.MethodGet, target, key, "Prefer", "respond-async, wait=30")
		s.until(func() bool { return keys.n.Load() == 2 })
		s.clock.Advance(30*time.Minute - 100*time.Millisecond)
		close(known)
		if r := same.answered(); r.status != 200 || !bytes.Equal(r.body, before.body) || r.header.Get("Preference-Applied") != "wait=30" || r.header.Get("Etag") != before.header.Get("Etag") {
			t.Errorf("%s: %d %v %s\nbefore: %s", path, r.status, r.header, r.body, before.body)
		}
		if u := unchanged.answered(); u.status != 304 || u.header.Get("Preference-Applied") != "wait=30" || u.header.Get("Log-Position") == "" {
			t.Errorf("%s with its ETag: %d %v", path, u.status, u.header)
		}
		s.waiting(1, 0)
		goAway()
		s.waiting(0, 0)
	}
}

// TestWaitingIsNoWork: the time in which a request waits is not recorded as its duration.
func TestWaitingIsNoWork(t *testing.T) {
	t.Parallel()
	var asked statements
	s := newStand(t, func(c *readapi.Config) { asked.counted(t, c) })
	s.append(objects("acme")...)
	s.project("acme", 0)
	key := s.key("acme", allPermissions()...)
	s.keepKeys(t)
	target := s.atEnd("/v1/events", "", key)
	for i, headers := range [][]string{{"Prefer", "wait=30"}, {"Log-Position-At-Least", fmt.Sprint(s.visible("acme") + 2)}} { // the second comes after another entry
		id := fmt.Sprintf("waits-%d", i)
		var later sync.Once
		passed := make(chan struct{})
		asked.watch(func(sql string) { // a request that positions are read for waits
			if c, p := s.api.Waits(); c+p == 1 && readsPositions(sql) {
				later.Do(func() {
					s.clock.Advance(20 * time.Millisecond)
					close(passed)
				})
			}
		})
		waits := s.begin(http.MethodGet, target, key, append(headers, "X-Request-Id", id)...)
		<-passed
		s.append(waitable()["/v1/events"])
		s.project("acme", 0)
		waits.answered()
		s.until(func() bool { return s.requests.has(id) })
		if r := s.requests.last(); r.RequestID != id || r.Duration != 0 {
			t.Errorf("%v: time in which the request waits is recorded as work: %+v", headers, r)
		}
		target = s.atEnd("/v1/events", "", key)
	}
}

// readsPositions reports whether a statement is one with which positions are read for
// requests that wait.
func readsPositions(sql string) bool {
	return strings.Contains(sql, "FROM log_checkpoint WHERE workspace_id = ANY ($1)")
}

// TestWhatShowsNothingEndsNoWait: what a request's filters and its key's permissions
// leave out does not answer it.
func TestWhatShowsNothingEndsNoWait(t *testing.T) {
	t.Parallel()
	s := newStand(t)
	s.append(objects("acme")...)
	s.project("acme", 0)
	full, poor := s.key("acme", allPermissions()...), s.key("acme", without(access.PayRead, access.MarginRead)...)
	payout := func(n int) string {
		return fmt.Sprintf(`{"workspace_id":"acme","type":"payout.paid","data":{"payment_id":"po_%d","contractor_id":"co_1","amount":"1.00","currency":"EUR","source":"a"}}`, n)
	}
	payment := strings.ReplaceAll(objects("acme")[6], "pm_1", "pm_2")
	reversed := `{"workspace_id":"acme","type":"invoice.reversed","data":{"invoice_id":"in_1"}}`
	for _, c := range []struct{ path, query, key, shows, id string }{
		{"/v1/events", "", poor, reversed, "invoice.reversed"},
		{"/v1/events", "type=period.closed", full, `{"workspace_id":"acme","type":"period.closed","data":{"period":"2026-10"}}`, "period.closed"},
		{"/v1/payments", "", poor, payment, "pm_2"},
		{"/v1/payments", "direction=received_from_client", full, strings.ReplaceAll(payment, "pm_2", "pm_3"), "pm_3"},
		{"/v1/contractors", "", full, strings.ReplaceAll(objects("acme")[1], "co_1", "co_2"), "co_2"},
	} {
		waits := s.begin(http.MethodGet, s.atEnd(c.path, c.query, c.key), c.key, "Prefer", "wait=30")
		s.waiting(1, 0)
		for range 3 { // hidden from the request
			at := int(s.visible("acme"))
			s.append(payout(at), event(fmt.Sprintf("unbilled_%d", at), "charge.created", s.clock.Now()))
			s.project("acme", 0)
		}
		s.append(payout(int(s.visible("acme"))), c.shows)
		s.project("acme", 0)
		r := waits.answered()
		if rows := r.envelope(t).Data; len(rows) != 1 || !bytes.Contains(rows[0], []byte(`"`+c.id+`"`)) {
			t.Errorf("%s?%s: %s", c.path, c.query, r.body)
		}
	}
}

// TestWaitsAreBounded: beyond the bounds of a key and of a workspace the answer comes at
// once, and its header says that it did not wait. Another workspace still may.
func TestWaitsAreBounded(t *testing.T) {
	t.Parallel()
	s := newStand(t, func(c *readapi.Config) { c.MaxWaits, c.MaxWaitsHTTP1 = 60, 96 })
	s.append(objects("acme")...)
	s.project("acme", 0)
	first, second := s.key("acme", allPermissions()...), s.key("acme", allPermissions()...)
	target := s.atEnd("/v1/events", "", first)
	ctx, cancel := context.WithCancel(t.Context())
	for i := range 10 {
		s.beginAt(ctx, s.server, http.MethodGet, target, first, "Prefer", "wait=30")
		s.waiting(i+1, 0)
	}
	refused := func(key string) {
		t.Helper()
		if r := s.get(target, key, "Prefer", "wait=30"); r.status != 200 || r.header.Get("Preference-Applied") != "" || len(r.envelope(t).Data) != 0 {
			t.Errorf("%d %v %s", r.status, r.header, r.body)
		}
	}
	refused(first)
	for i := range 2 {
		s.beginAt(ctx, s.server, http.MethodGet, target, second, "Prefer", "wait=30")
		s.waiting(11+i, 0)
	}
	refused(second) // as many of a workspace as may wait over HTTP/1
	s.workspace("quiet")
	quiet := s.key("quiet", allPermissions()...)
	s.beginAt(ctx, s.server, http.MethodGet, "/v1/events", quiet, "Prefer", "wait=30")
	s.waiting(13, 0)
	cancel()
	s.waiting(0, 0) // who hangs up does not count
	waits := s.begin(http.MethodGet, target, first, "Prefer", "wait=1")
	s.waiting(1, 0)
	s.append(waitable()["/v1/events"])
	s.project("acme", 0)
	if r := waits.answered(); r.header.Get("Preference-Applied") != "wait=1" {
		t.Errorf("%d %v", r.status, r.header)
	}
}

// TestAnAnswerKeepsNoPlaceToWait: a reader that is slow to take what it has waited for does
// not count as one that waits.
func TestAnAnswerKeepsNoPlaceToWait(t *testing.T) {
	t.Parallel()
	s := newStand(t)
	s.contract = nil // of answers with rows that are none
	s.append(objects("acme")...)
	s.project("acme", 0)
	s.narrowly(unchanged)
	key := s.key("acme", allPermissions()...)
	for _, c := range []struct {
		path, header, value string
		changes, positions  int
	}{
		{s.atEnd("/v1/contractors", "limit=100", key), "Prefer", "wait=30", 1, 0},
		{"/v1/contractors?limit=100", "Log-Position-At-Least", strconv.FormatInt(s.visible("acme")+2, 10), 0, 1},
	} {
		answered := make(chan error, 1)
		go func() {
			_, err := s.beginWhole(t.Context(), c.path, key, c.header, c.value)
			answered <- err
		}()
		s.waiting(c.changes, c.positions)
		if c.changes > 0 {
			testkit.AsOwner(t, s.pool, fmt.Sprintf(`
				INSERT INTO contractor SELECT 'acme', 'fat_' || n, %d, '{"id":"fat_' || n || '","name":"' || repeat('x', 8000) || '"' FROM generate_series(1, 200) n`, s.visible("acme")+1))
		}
		s.append(objects("acme")[0])
		s.project("acme", 0)
		if err := <-answered; err != nil {
			t.Fatal(err)
		}
		s.waiting(0, 0)
		if sent := s.requests.all(); len(sent) > 0 && sent[len(sent)-1].Rows > 90 {
			t.Errorf("%s was taken whole: %+v", c.path, sent[len(sent)-1])
		}
	}
}

// TestAWaitingKeyIsRevoked: what comes after a key was revoked, or has expired, is not
// shown to it.
func TestAWaitingKeyIsRevoked(t *testing.T) {
	t.Parallel()
	s := newStand(t)
	s.append(objects("acme")...)
	s.project("acme", 0)
	create := func(expires time.Time) (string, string) {
		record, secret, err := s.store.Create(t.Context(), access.NewKey{
			WorkspaceID: "acme", Name: "Reporting", Permissions: access.PermissionsOf(allPermissions()...), RateLimit: highLimit, ExpiresAt: expires,
		})
		if err != nil {
			t.Fatal(err)
		}
		return record.ID, secret.Reveal()
	}
	id, revoked := create(time.Time{})
	_, expired := create(s.clock.Now().Add(time.Hour))
	target := s.atEnd("/v1/events", "", revoked)
	waits := []*pending{
		s.begin(http.MethodGet, target, revoked, "Prefer", "wait=30"), s.begin(http.MethodGet, target, expired, "Prefer", "wait=30"),
		s.begin(http.MethodGet, target, revoked, "Prefer", "wait=30", "Log-Position-At-Least", fmt.Sprint(s.visible("acme")+1)),
	}
	s.waiting(2, 1)
	testkit.Must(s.store.Revoke(t.Context(), "acme", id))(t)
	s.clock.Advance(2 * time.Hour)
	s.append(waitable()["/v1/events"])
	s.project("acme", 0)
	for _, w := range waits {
		if r := w.answered(); r.status != 401 || bytes.Contains(r.body, []byte("invoice")) {
			t.Errorf("%d %s", r.status, r.body)
		}
	}
}

// countedLimiter counts how often requests that wait have looked again.
type countedLimiter struct {
	readapi.Limiter
	left atomic.Int64
}

func (l *countedLimiter) Left(key *access.Key) access.Allowance {
	l.left.Add(1)
	return l.Limiter.Left(key)
}

// TestAWaitCountsOnce: as one request of the limit, and its headers are of the minute in
// which it is answered.
func TestAWaitCountsOnce(t *testing.T) {
	t.Parallel()
	var looks *countedLimiter
	s := newStand(t, func(c *readapi.Config) {
		looks = &countedLimiter{Limiter: c.Limiter}
		c.Limiter = looks
	})
	s.append(objects("acme")...)
	s.project("acme", 0)
	key := s.keyLimited("acme", 50, allPermissions()...)
	target := s.atEnd("/v1/events", "", s.key("acme", allPermissions()...))
	waits := s.begin(http.MethodGet, target, key, "Prefer", "wait=30")
	s.waiting(1, 0)
	for range 3 {
		s.append(objects("acme")[0]) // shows nothing there
		s.project("acme", 0)
	}
	if r := s.get("/v1/me", key); r.header.Get("RateLimit-Remaining") != "48" {
		t.Errorf("%v", r.header)
	}
	s.clock.Advance(40 * time.Second) // into the next minute
	// The read that the last entry caused may have begun in the minute before. It must not be
	// the one that finds the event.
	before := looks.left.Load()
	testkit.Eventually(t, func() error {
		s.append(objects("acme")[0])
		s.project("acme", 0)
		if looks.left.Load() == before {
			return errors.New("the request has not looked again since the clock moved")
		}
		return nil
	})
	s.append(waitable()["/v1/events"])
	s.project("acme", 0)
	if r := waits.answered(); r.header.Get("RateLimit-Remaining") != "50" || r.header.Get("RateLimit-Reset") != "50" {
		t.Errorf("%v", r.header)
	}
}

// TestALostNotification does not end waiting: positions are read now and then.
func TestALostNotification(t *testing.T) {
	t.Parallel()
	s := newStand(t, func(c *readapi.Config) { c.Wait(time.Minute, time.Hour, 20*time.Millisecond) })
	s.append(objects("acme")...)
	s.project("acme", 0)
	key := s.key("acme", allPermissions()...)
	waits := s.begin(http.MethodGet, s.atEnd("/v1/events", "", key), key, "Prefer", "wait=30")
	reaches := s.begin(http.MethodGet, "/v1/invoices", key, "Log-Position-At-Least", fmt.Sprint(s.visible("acme")+1))
	s.waiting(1, 1)
	s.append(waitable()["/v1/events"])
	s.projectSilently("acme", 0)
	for _, w := range []*pending{reaches, waits} {
		if r := w.answered(); r.status != 200 || r.header.Get("Log-Position") != fmt.Sprint(s.visible("acme")) {
			t.Errorf("%d %v", r.status, r.header)
		}
	}
}

// TestWaitingCostsNoStatement: hundreds of requests that wait use no connection and send
// no statement but the one that reads positions for all of them, and what comes is read once
// for those that wait for the same.
func TestWaitingCostsNoStatement(t *testing.T) {
	t.Parallel()
	const keys, each = 30, 10
	var asked statements
	s := newStand(t, func(c *readapi.Config) {
		asked.counted(t, c)
		c.Wait(time.Minute, time.Hour, 10*time.Millisecond)
		c.MaxWaits, c.MaxWaitsHTTP1 = 4*keys*each, 8*keys*each
	})
	s.append(objects("acme")...)
	s.project("acme", 0)
	s.keepKeys(t)
	var waits []*pending
	target := s.atEnd("/v1/events", "", s.key("acme", allPermissions()...))
	for range keys {
		key := s.key("acme", allPermissions()...)
		for range each {
			waits = append(waits, s.begin(http.MethodGet, target, key, "Prefer", "wait=30"))
		}
	}
	s.waiting(keys*each, 0)
	s.until(func() bool { return testkit.AsPool(s.config.Pool).Stat().AcquiredConns() == 0 })
	var positions, others atomic.Int64
	asked.watch(func(sql string) {
		if readsPositions(sql) {
			positions.Add(1)
		} else {
			others.Add(1)
		}
	})
	s.until(func() bool { return positions.Load() >= 3 })
	if n := others.Load(); n > 0 {
		t.Errorf("%d statements while nothing happens", n)
	}
	var began atomic.Bool
	asked.watch(func(sql string) { // the first to read does so when all others wait for what it reads
		if !readsPositions(sql) && !began.Swap(true) {
			for s.api.SharingReads() < keys*each-1 && t.Context().Err() == nil {
				runtime.Gosched()
			}
		}
	})
	before := asked.n.Load()
	s.append(waitable()["/v1/events"])
	s.project("acme", 0)
	for _, w := range waits {
		if r := w.answered(); r.status != 200 || len(r.envelope(t).Data) != 1 {
			t.Errorf("%d %s", r.status, r.body)
		}
	}
	if n := asked.n.Load() - before - positions.Load(); n > 10 {
		t.Errorf("%d statements for %d requests that wait for the same", n, keys*each)
	}
}

// TestWaitsOutliveTheServersTimeouts: while a request waits, the server has no time for
// reading from its connection, and more for writing than the request waits.
func TestWaitsOutliveTheServersTimeouts(t *testing.T) {
	t.Parallel()
	s := newStand(t)
	conns := &timedConns{}
	s.impatient(func(h *http.Server) {
		h.ReadTimeout, h.WriteTimeout, h.IdleTimeout = time.Minute, time.Minute, time.Minute
	}, conns.of)
	s.append(objects("acme")...)
	s.project("acme", 0)
	key := s.key("acme", allPermissions()...)
	target := s.atEnd("/v1/events", "", key)
	for _, c := range []struct {
		header, value      string
		changes, positions int
		wait               time.Duration
	}{
		{"Prefer", "wait=2", 1, 0, 2 * time.Minute},
		{"Log-Position-At-Least", fmt.Sprint(s.visible("acme") + 2), 0, 1, time.Hour}, // after another entry
	} {
		asked := time.Now()
		waits := s.begin(http.MethodGet, target, key, c.header, c.value)
		s.waiting(c.changes, c.positions)
		conn := conns.last()
		s.until(func() bool { _, write := conn.times(); return write.After(asked.Add(c.wait)) })
		if read, write := conn.times(); !read.IsZero() {
			t.Errorf("%s: %s: nothing is read after %v, nothing written after %v", c.header, c.value, read, write)
		}
		s.append(waitable()["/v1/events"])
		s.project("acme", 0)
		if r := waits.answered(); r.status != 200 {
			t.Errorf("%s: %s: %d %v", c.header, c.value, r.status, r.header)
		}
		target = s.atEnd("/v1/events", "", key)
	}
}

// TestDrainEndsWaits: a server that stops answers requests that wait at once.
func TestDrainEndsWaits(t *testing.T) {
	t.Parallel()
	s := newStand(t)
	s.impatient(func(*http.Server) {}, asItIs)
	s.append(objects("acme")...)
	s.project("acme", 0)
	key := s.key("acme", allPermissions()...)
	target, at := s.atEnd("/v1/events", "", key), s.visible("acme")
	waits := s.begin(http.MethodGet, target, key, "Prefer", "wait=30")
	reaches := s.begin(http.MethodGet, "/v1/invoices", key, "Log-Position-At-Least", fmt.Sprint(at+1))
	s.waiting(1, 1)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute) // less than they would wait
	defer cancel()
	if err := s.server.Config.Shutdown(ctx); err != nil {
		t.Errorf("the server does not stop: %v", err)
	}
	if r := waits.answered(); r.status != 200 || len(r.envelope(t).Data) != 0 || r.header.Get("Preference-Applied") != "wait=30" {
		t.Errorf("%d %v %s", r.status, r.header, r.body)
	}
	if r := reaches.answered(); r.status != 503 || r.header.Get("Retry-After") == "" {
		t.Errorf("%d %v", r.status, r.header)
	}
	s.server = serve(t, s.api, s.config.Logger)
	if r := s.get(target, key, "Prefer", "wait=30"); r.status != 200 || r.header.Get("Preference-Applied") != "" {
		t.Errorf("a request after that: %d %v", r.status, r.header)
	}
}

// TestASharedReadIsEnough: a request is answered with what another one reads only if that
// has reached what it demands and is no older than what it has seen; a read that does not
// end in time ends no wait with an error.
func TestASharedReadIsEnough(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct {
		atLeast, seen, read int64
		ends, accepted      bool
	}{
		"as far as is demanded and seen": {atLeast: 7, seen: 7, read: 7, ends: true, accepted: true},
		"below what is demanded":         {atLeast: 8, seen: 6, read: 7, ends: true},
		"older than what is seen":        {seen: 8, read: 7, ends: true},
		"too slow":                       {seen: 6, read: 7},
	} {
		if accepted, err := readapi.Joined(c.atLeast, c.seen, c.read, c.ends); accepted != c.accepted || err != nil {
			t.Errorf("%s: accepted %v, %v", what, accepted, err)
		}
	}
}

// TestPrefer reads the forms of RFC 7240.
func TestPrefer(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int{
		"wait=1": 1, "wait=30": 30, "wait=31": 30, "wait=4000000000": 30, " WAIT = 7 ": 7, `wait="9"`: 9, "wait=5; x=1": 5, "respond-async, wait=6": 6,
		"return=minimal|wait=8": 8, "wait=2, wait=3": 2, "wait=2|wait=3": 2,
		"": 0, "wait": 0, "wait=": 0, "wait=0": 0, "wait=-1": 0, "wait=1.5": 0, "wait=x": 0, "wait=05": 0, "wait=x, wait=3": 0, "waits=3": 0, `wait="`: 0,
		"wait=99999999999999999999": 0,
	} {
		if got := readapi.PreferredWait(strings.Split(text, "|")); got != want {
			t.Errorf("%q: %d, want %d", text, got, want)
		}
	}
}
