package readapi_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
	"github.com/ledgerfeed/ledgerfeed/readapi"
	"github.com/ledgerfeed/ledgerfeed/readapi/access"
	"github.com/ledgerfeed/ledgerfeed/readapi/answer"
)

// TestServerIsBounded: a caller has influence on no time or size without a bound. The times
// are those of a connection while it sends a request, gets an answer and does nothing.
func TestServerIsBounded(t *testing.T) {
	t.Parallel()
	var keys askedKeys
	s := newStand(t, func(c *readapi.Config) { keys.Authenticator, c.Keys = c.Keys, &keys })
	conns := &timedConns{}
	s.impatient(func(h *http.Server) {
		if n := h.MaxHeaderBytes; n <= answer.MaxHeaderBytes || n > 1<<20 {
			t.Errorf("the server reads %d bytes of headers", n)
		}
	}, conns.of)
	s.workspace("acme")
	key := s.key("acme", access.PayRead)
	most := func() time.Time { return time.Now().Add(2 * time.Minute) }
	conn := testkit.Must((&net.Dialer{}).DialContext(t.Context(), "tcp", s.server.Listener.Addr().String()))(t)
	defer conn.Close()
	s.until(func() bool { // the headers
		if conns.last() == nil {
			return false
		}
		read, _ := conns.last().times()
		return !read.IsZero() && read.Before(most())
	})
	before, _ := conns.last().times()
	keys.from(func(int64) error {
		if _, write := conns.last().times(); write.IsZero() || write.After(most()) {
			t.Errorf("an answer may be taken until %v", write)
		}
		return nil
	})
	testkit.Must(io.WriteString(conn, "GET /v1/me HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer "+key+"\r\n\r\n"))(t)
	s.until(func() bool { // the next request
		read, _ := conns.last().times()
		return keys.n.Load() == 1 && len(s.requests.all()) == 1 && read.After(before) && read.Before(most())
	})
	bounded := readapi.NewServer(nil, testkit.Discard())
	for name, d := range map[string]time.Duration{
		"headers": bounded.ReadHeaderTimeout, "a request": bounded.ReadTimeout, "an answer": bounded.WriteTimeout, "the next request": bounded.IdleTimeout,
	} {
		if d <= 0 || d > 2*time.Minute {
			t.Errorf("a caller may take %v for %s", d, name)
		}
	}
}

// soon is what the times of impatient are cut to.
const soon = 50 * time.Millisecond

// impatient serves the stand's API as the program does, but for the times.
func (s *stand) impatient(change func(*http.Server), wrap func(net.Listener) net.Listener) {
	s.t.Helper()
	server := readapi.NewServer(s.api, s.config.Logger)
	change(server)
	listener := testkit.Must((&net.ListenConfig{}).Listen(s.t.Context(), "tcp", "127.0.0.1:0"))(s.t)
	s.server = &httptest.Server{Listener: s.api.RewriteErrors(wrap(listener)), Config: server}
	s.server.Start()
	s.t.Cleanup(s.server.Close)
}

func asItIs(l net.Listener) net.Listener { return l }

// TestSlowCallers: who does not finish a request, or does not begin the next, is
// let go.
func TestSlowCallers(t *testing.T) {
	t.Parallel()
	s := newStand(t)
	s.workspace("acme")
	key := s.key("acme", access.PayRead)
	head := "GET /v1/me HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + key + "\r\n"
	for name, c := range map[string]struct {
		change  func(*http.Server)
		request string
		want    string // what the answer begins with; empty: none, or a problem
	}{
		"headers that do not end":    {func(h *http.Server) { h.ReadHeaderTimeout = soon }, head + "X-Slow: ", ""},
		"nothing at all":             {func(h *http.Server) { h.ReadHeaderTimeout = soon }, "", ""},
		"a body that does not come":  {func(h *http.Server) { h.ReadTimeout = 20 * soon }, head + "Content-Length: 1000\r\n\r\nx", "HTTP/1.1 200 OK"},
		"chunks that do not end":     {func(h *http.Server) { h.ReadTimeout = 20 * soon }, head + "Transfer-Encoding: chunked\r\n\r\n1\r\nx\r\n", "HTTP/1.1 200 OK"},
		"no request after the first": {func(h *http.Server) { h.IdleTimeout = soon }, head + "\r\n", "HTTP/1.1 200 OK"},
	} {
		s.impatient(c.change, asItIs)
		got := s.raw(c.request)
		if c.want == "" && got != "" && !strings.Contains(got, "application/problem+json") || !strings.HasPrefix(got, c.want) {
			t.Errorf("%s: %.300s", name, got)
		}
	}
}

// narrow makes connections with a send buffer of a few kilobytes.
type narrow struct{ net.Listener }

func (n narrow) Accept() (net.Conn, error) {
	conn, err := n.Listener.Accept()
	if tcp, ok := conn.(*net.TCPConn); ok {
		err = tcp.SetWriteBuffer(4 << 10)
	}
	return conn, err
}

// narrowWindow does the same on the caller's side, before the server learns how much it
// may send.
func narrowWindow(_, _ string, raw syscall.RawConn) error {
	var set error
	err := raw.Control(func(fd uintptr) { set = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, 4<<10) })
	return errors.Join(err, set)
}

// TestWhatIsSentHoldsNoConnection: to the database, because its caller may read as slowly as
// it likes.
func TestWhatIsSentHoldsNoConnection(t *testing.T) {
	t.Parallel()
	s := newStand(t)
	s.append(history(t, "acme", 3, s.clock.Now(), 20*24*time.Hour, 400)...)
	s.project("acme", 0)
	key := s.key("acme", allPermissions()...)
	for path := range endpoints() {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, http.NoBody)
		r.Header.Set("Authorization", "Bearer "+key)
		s.api.ServeHTTP(&watching{ResponseRecorder: httptest.NewRecorder(), written: func() {
			// A statement that several requests share gives its connection back after its answer.
			testkit.Eventually(t, func() error {
				if n := s.pool.Stat().AcquiredConns(); n > 0 {
					return fmt.Errorf("%s holds %d connections while it is sent", path, n)
				}
				return nil
			})
		}}, r)
	}
}

// watching tells when an answer is being sent.
type watching struct {
	*httptest.ResponseRecorder

	written func()
}

func (w *watching) Write(p []byte) (int, error) {
	w.written()
	return w.ResponseRecorder.Write(p)
}

// gate is a directory that lets a key pass when it is told to.
type gate struct {
	readapi.Authenticator

	entered chan struct{}
	open    chan struct{}
}

func (g *gate) Authenticate(ctx context.Context, text string) (*access.Key, error) {
	close(g.entered)
	<-g.open
	return g.Authenticator.Authenticate(ctx, text)
}

// TestDrain: a server that stops accepts no more callers, finishes requests under way, and
// does not wait for idle or slow connections.
func TestDrain(t *testing.T) {
	t.Parallel()
	g := &gate{entered: make(chan struct{}), open: make(chan struct{})}
	s := newStand(t, func(c *readapi.Config) { c.Keys, g.Authenticator = g, c.Keys })
	s.workspace("acme")
	key := s.key("acme", access.PayRead)
	s.impatient(unchanged, asItIs)
	address := s.server.Listener.Addr().String()
	dialer := &net.Dialer{}
	for _, begun := range []string{"", "GET /v1/me HTTP/1.1\r\nHost: x\r\nX-Slow: "} {
		conn := testkit.Must(dialer.DialContext(t.Context(), "tcp", address))(t)
		t.Cleanup(func() { _ = conn.Close() })
		testkit.Must(io.WriteString(conn, begun))(t)
	}
	replies := make(chan reply, 1)
	go func() {
		r, err := ask(t.Context(), s.server, http.MethodGet, "/v1/me", key)
		if err != nil {
			t.Error(err)
		}
		replies <- r
	}()
	<-g.entered
	closed, drained := make(chan struct{}), make(chan error, 1)
	s.server.Config.RegisterOnShutdown(func() { close(closed) })
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	go func() { drained <- s.server.Config.Shutdown(ctx) }()
	<-closed
	if conn, err := s.server.Listener.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("a server that stops accepts another caller: %v, %v", conn, err)
	}
	close(g.open)
	if r := <-replies; r.status != 200 || len(r.body) == 0 {
		t.Errorf("what was under way is answered with %d %s", r.status, r.body)
	}
	if err := <-drained; err != nil {
		t.Errorf("slow callers delay a server that stops: %v", err)
	}
}
