//go:build pace

// These tests let times of a server pass on real connections.

package readapi_test

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
	"github.com/ledgerfeed/ledgerfeed/readapi"
	"github.com/ledgerfeed/ledgerfeed/readapi/access"
)

// TestWhoDoesNotRead: a caller that does not read its answer, a page or a whole list, is
// disconnected.
func TestWhoDoesNotRead(t *testing.T) {
	s := newStand(t, func(c *readapi.Config) { c.WholeLists.Stall = 10 * soon })
	s.append(history(t, "acme", 3, s.clock.Now(), 20*24*time.Hour, 400)...)
	s.project("acme", 0)
	s.fat("large", 4000)
	s.impatient(func(h *http.Server) { h.WriteTimeout = 4 * soon }, func(l net.Listener) net.Listener { return narrow{l} })
	dialer := &net.Dialer{Control: narrowWindow}
	conn := testkit.Must(dialer.DialContext(t.Context(), "tcp", s.server.Listener.Addr().String()))(t)
	defer conn.Close()
	testkit.Must(io.WriteString(conn, "GET /v1/time-entries?limit=100 HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer "+s.key("acme", allPermissions()...)+"\r\n\r\n"))(t)
	s.until(func() bool { return len(s.requests.all()) == 1 }) // the handler has ended
	if r := s.requests.take()[0]; r.Status != 200 || r.Bytes >= 50_000 {
		t.Errorf("%d bytes were taken of an answer with %d", r.Bytes, r.Status)
	}
	_, body := s.reading("/v1/contractors", s.key("large", access.ContractorsRead))
	s.until(func() bool { return len(s.requests.all()) > 0 })
	if r := s.brokenOff("nobody reads", body); r.Status != 499 {
		t.Errorf("recorded as %+v", r)
	}
}

// TestAPatientReader: none of the bounds on a request is one on a list whose reader goes
// on reading.
func TestAPatientReader(t *testing.T) {
	s := newStand(t, func(c *readapi.Config) { c.Timeout = 10 * soon })
	s.fat("acme", 1000)
	s.narrowly(func(h *http.Server) { h.ReadTimeout, h.WriteTimeout = 10*soon, 10*soon })
	r, body := s.reading("/v1/contractors", s.key("acme", access.ContractorsRead))
	began, lines, last := time.Now(), 1, ""
	for pause := time.NewTicker(2 * soon); time.Since(began) < 40*soon; <-pause.C {
		for range 5 {
			last = testkit.Must(body.ReadString('\n'))(t)
			lines++
		}
	}
	rest, err := io.ReadAll(body)
	if lines += bytes.Count(rest, []byte("\n")); err != nil || lines != 1001 || !strings.Contains(string(rest), r.header.Get("Next-Cursor")) {
		t.Errorf("%d lines after %v, the last %.50s: %v", lines, time.Since(began), last, err)
	}
}

// TestAWholeListOverHTTP2WaitsForTheDatabase: the times of the server and of a reader that
// takes nothing are none for a database that is slow, before the first row or after it. A
// reader that takes nothing is let go all the same.
func TestAWholeListOverHTTP2WaitsForTheDatabase(t *testing.T) {
	var keys askedKeys
	s := newStand(t, func(c *readapi.Config) {
		keys.Authenticator, c.Keys = c.Keys, &keys
		c.WholeLists.Stall = 10 * soon
	})
	s.fat("acme", 2000)
	s.impatient(func(h *http.Server) { h.WriteTimeout = 10 * soon }, asItIs)
	key := s.key("acme", access.ContractorsRead)
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	transport := &http.Transport{Protocols: protocols, DisableCompression: true}
	t.Cleanup(transport.CloseIdleConnections)
	s.server.Client().Transport = transport
	pass := func() {
		began := time.Now()
		s.until(func() bool { return time.Since(began) > 20*soon })
	}
	slow := func(n int64) error { // before the second chunk
		if n == 4 {
			<-time.After(20 * soon)
		}
		return nil
	}
	keys.from(slow)
	tx := testkit.Must(s.pool.Begin(t.Context()))(t)
	testkit.Must(tx.Exec(t.Context(), `LOCK TABLE contractor IN ACCESS EXCLUSIVE MODE`))(t)
	list := s.begin(http.MethodGet, "/v1/contractors", key, "Accept", ndjson)
	s.until(func() bool { return testkit.AsPool(s.config.WholeLists.Pool).Stat().AcquiredConns() == 1 })
	pass()
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if r := list.answered(); r.status != http.StatusOK || bytes.Count(r.body, []byte("\n")) != 2001 {
		t.Errorf("%d with %d bytes, recorded as %+v", r.status, len(r.body), s.requests.all())
	}
	s.requests.take()
	r := testkit.Must(written(t.Context(), s.server.Listener.Addr().String(), http.MethodGet, "/v1/contractors", key, "Accept", ndjson))(t)
	held, err := transport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer held.Body.Close()
	s.until(func() bool { return len(s.requests.all()) > 0 })
	if r := s.requests.take()[0]; held.ProtoMajor != 2 || r.Status != 499 {
		t.Errorf("a reader that takes nothing over %s is recorded as %+v", held.Proto, r)
	}
}
