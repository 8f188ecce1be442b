package readapi_test

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"github.com/ledgerfeed/ledgerfeed/internal/listening"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
	"github.com/ledgerfeed/ledgerfeed/readapi"
	"github.com/ledgerfeed/ledgerfeed/readapi/access"
)

// overHTTP2 serves the stand's API behind bounds on connections, as the program does, and
// makes its client speak HTTP/2 without TLS.
func (s *stand) overHTTP2(cfg listening.LimitConfig) *listening.LimitedListener {
	s.t.Helper()
	cfg.Refusal = s.api.RefuseConnection
	server := readapi.NewServer(s.api, s.config.Logger)
	bound := testkit.Must((&net.ListenConfig{}).Listen(s.t.Context(), "tcp", "127.0.0.1:0"))(s.t)
	limited := listening.WithLimits(bound, cfg)
	server.ConnState = limited.ConnState
	s.server = &httptest.Server{Listener: s.api.RewriteErrors(limited), Config: server}
	s.server.Start()
	s.t.Cleanup(s.server.Close)
	s.server.Client().Transport = http2Transport(s.t)
	return limited
}

// http2Transport speaks HTTP/2 without TLS.
func http2Transport(t testing.TB) *http.Transport {
	t.Helper()
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	transport := &http.Transport{Protocols: protocols, DisableCompression: true}
	t.Cleanup(transport.CloseIdleConnections)
	return transport
}

// TestAHundredWaitsOverOneConnection: one connection of HTTP/2 without TLS carries them,
// and goes on carrying other requests.
func TestAHundredWaitsOverOneConnection(t *testing.T) {
	t.Parallel()
	s := newStand(t, func(c *readapi.Config) { c.MaxWaitsHTTP1 = 1 })
	s.append(objects("acme")...)
	s.project("acme", 0)
	// Until their keys are checked, all of them can be under way at once.
	limited := s.overHTTP2(listening.LimitConfig{Max: 128, MaxPerAddress: 128, UnprovenIdle: time.Minute})
	key := s.key("acme", allPermissions()...)
	target := s.atEnd("/v1/events", "", key)
	var waits []*pending
	for range 10 {
		key := s.key("acme", allPermissions()...)
		for range 10 {
			waits = append(waits, s.begin(http.MethodGet, target, key, "Prefer", "wait=30"))
		}
	}
	s.waiting(100, 0)
	if n := limited.Open(); n != 1 {
		t.Errorf("%d connections", n)
	}
	if r := s.get("/v1/invoices", key); r.status != 200 {
		t.Errorf("a request beside them: %d", r.status)
	}
	s.append(waitable()["/v1/events"])
	s.project("acme", 0)
	for _, w := range waits {
		if r := w.answered(); r.status != 200 || r.header.Get("Preference-Applied") != "wait=30" || len(r.envelope(t).Data) != 1 {
			t.Errorf("%d %v %s", r.status, r.header, r.body)
		}
	}
}

// heldKeys lets no key be found until it is told to.
type heldKeys struct {
	readapi.Authenticator

	asked atomic.Int64
	open  chan struct{}
}

func (h *heldKeys) Authenticate(ctx context.Context, text string) (*access.Key, error) {
	h.asked.Add(1)
	<-h.open
	return h.Authenticator.Authenticate(ctx, text)
}

// TestRequestsOfUnknownCallersAreBounded: over HTTP/2, those whose key is not checked yet
// count like connections; a request beyond is refused, and those that wait with a valid
// key do not count.
func TestRequestsOfUnknownCallersAreBounded(t *testing.T) {
	t.Parallel()
	held := &heldKeys{open: make(chan struct{})}
	s := newStand(t, func(c *readapi.Config) { held.Authenticator, c.Keys = c.Keys, held })
	s.workspace("acme")
	key := s.key("acme", allPermissions()...)
	limited := s.overHTTP2(listening.LimitConfig{Max: 8, MaxPerAddress: 4})
	if r := s.get("/docs/errors/404", ""); r.status != 200 { // makes the one connection, and needs no key
		t.Errorf("%d", r.status)
	}
	var waits []*pending
	for range 4 {
		waits = append(waits, s.begin(http.MethodGet, "/v1/events", key, "Prefer", "wait=30"))
	}
	s.until(func() bool { return held.asked.Load() == 4 })
	if r := s.get("/v1/events", key); r.status != 503 || r.header.Get("Retry-After") == "" {
		t.Errorf("one more: %d %s", r.status, r.body)
	} else {
		checkHeaders(t, "one more", r)
	}
	if n := limited.Open(); n != 4 {
		t.Errorf("%d places are taken", n)
	}
	close(held.open)
	s.waiting(4, 0)
	if n := limited.Open(); n != 1 {
		t.Errorf("requests whose key is known take %d places", n)
	}
	s.append(objects("acme")[2:4]...)
	s.project("acme", 0)
	for _, w := range waits {
		if r := w.answered(); r.status != 200 {
			t.Errorf("%d %s", r.status, r.body)
		}
	}
}

// TestIdleHTTP2 lets go of a caller that has shown no valid key as soon as over HTTP/1,
// and of no other: what a caller sends is answered, and then the connection of one of them
// has no time left, because the clock is behind by as much as it may be idle.
func TestIdleHTTP2(t *testing.T) {
	t.Parallel()
	s := newStand(t)
	s.workspace("acme")
	key := s.key("acme", allPermissions()...)
	clock := testkit.RunningClock()
	limited := s.overHTTP2(listening.LimitConfig{Max: 8, MaxPerAddress: 8, UnprovenIdle: time.Hour, Clock: clock.Now})
	if r := s.get("/v1/me", key); r.status != 200 {
		t.Errorf("%d", r.status)
	}
	other := &http.Client{Transport: http2Transport(t)}
	unproven := func() error {
		r := testkit.Must(written(t.Context(), s.server.Listener.Addr().String(), http.MethodGet, "/v1/me", "nonsense"))(t)
		answer, err := other.Do(r)
		if err == nil {
			err = answer.Body.Close()
		}
		return err
	}
	if err := unproven(); err != nil || limited.Open() != 2 {
		t.Errorf("%d connections: %v", limited.Open(), err)
	}
	clock.Advance(-time.Hour)
	for range 2 {
		if r := s.get("/v1/me", key); r.status != 200 {
			t.Errorf("a caller with a valid key: %d", r.status)
		}
	}
	_ = unproven() // its connection is closed, perhaps before it has the answer
	s.until(func() bool { return limited.Open() == 1 })
	if r := s.get("/v1/me", key); r.status != 200 || limited.Open() != 1 { // a new connection would have no time
		t.Errorf("a caller with a valid key: %d over %d connections", r.status, limited.Open())
	}
}

// TestHTTP2IsBounded: the settings with which the server begins say what a connection can
// hold.
func TestHTTP2IsBounded(t *testing.T) {
	t.Parallel()
	s := newStand(t)
	s.overHTTP2(listening.LimitConfig{Max: 8, MaxPerAddress: 8})
	conn := testkit.Must((&net.Dialer{}).DialContext(t.Context(), "tcp", s.server.Listener.Addr().String()))(t)
	defer conn.Close()
	testkit.Must(io.WriteString(conn, http2.ClientPreface))(t)
	framer := http2.NewFramer(conn, conn)
	if err := framer.WriteSettings(); err != nil {
		t.Fatal(err)
	}
	settings, ok := testkit.Must(framer.ReadFrame())(t).(*http2.SettingsFrame)
	if !ok {
		t.Fatal("the server does not begin with its settings")
	}
	for id, most := range map[http2.SettingID]uint32{
		http2.SettingMaxConcurrentStreams: 128, http2.SettingMaxFrameSize: 16 << 10, http2.SettingMaxHeaderListSize: 128 << 10, http2.SettingInitialWindowSize: 64 << 10,
	} {
		if got, ok := settings.Value(id); !ok || got > most {
			t.Errorf("%v is %d, want %d at most", id, got, most)
		}
	}
}

// TestErrorsAreNotRewrittenInHTTP2: bytes of an answer that look like an error of the
// server over HTTP/1 are sent as they are.
func TestErrorsAreNotRewrittenInHTTP2(t *testing.T) {
	t.Parallel()
	s := newStand(t)
	near, far := net.Pipe()
	listener := &oneConn{Conn: pipeConn{near}}
	conn := testkit.Must(s.api.RewriteErrors(listener).Accept())(t)
	looks := []byte("HTTP/1.1 417 Expectation Failed\r\n\r\n")
	go func() {
		for _, part := range [][]byte{{0, 0, 0, 4, 0, 0, 0, 0, 0}, looks} {
			if _, err := conn.Write(part); err != nil {
				t.Error(err)
			}
		}
		_ = conn.Close()
	}()
	if got := testkit.Must(io.ReadAll(far))(t); !bytes.Equal(got[9:], looks) {
		t.Errorf("%q", got)
	}
}

// oneConn is a listener with one connection.
type oneConn struct {
	net.Listener
	net.Conn
}

func (l *oneConn) Accept() (net.Conn, error) { return l.Conn, nil }
func (l *oneConn) Close() error              { return nil }
func (l *oneConn) Addr() net.Addr            { return l.LocalAddr() }

type pipeConn struct{ net.Conn }

func (pipeConn) CloseWrite() error { return nil }
