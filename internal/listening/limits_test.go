package listening_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ledgerfeed/ledgerfeed/internal/listening"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

// stand is a server behind a LimitedListener. A request for /prove proves its connection,
// one for /wait is answered when release is closed.
type stand struct {
	t                *testing.T
	listener         *listening.LimitedListener
	address          string
	waiting          atomic.Int64
	release          chan struct{}
	refused, evicted atomic.Int64

	accepted, idled atomic.Int64 // how often a connection was accepted, and became idle after a request
}

type connKey struct{}

func newStand(t *testing.T, cfg listening.LimitConfig) *stand {
	t.Helper()
	s := &stand{t: t, release: make(chan struct{})}
	bound := testkit.Must((&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0"))(t)
	cfg.Refusal = func(string) []byte {
		return []byte("HTTP/1.1 503 Full\r\nConnection: close\r\nContent-Length: 4\r\n\r\nfull")
	}
	cfg.Refused, cfg.Evicted = func() { s.refused.Add(1) }, func() { s.evicted.Add(1) }
	s.listener, s.address = listening.WithLimits(bound, cfg), bound.Addr().String()
	server := &http.Server{
		ConnState: s.connState, ReadHeaderTimeout: time.Minute, IdleTimeout: time.Minute,
		ConnContext: func(ctx context.Context, c net.Conn) context.Context { return context.WithValue(ctx, connKey{}, c) },
		Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			switch r.URL.Path {
			case "/prove":
				r.Context().Value(connKey{}).(*listening.Conn).Prove()
			case "/wait":
				s.waiting.Add(1)
				<-s.release
			}
		}),
	}
	go func() { _ = server.Serve(s.listener) }()
	t.Cleanup(func() { _ = server.Close() })
	return s
}

// connState counts what the listener has been told.
func (s *stand) connState(c net.Conn, state http.ConnState) {
	s.listener.ConnState(c, state)
	switch state {
	case http.StateNew:
		s.accepted.Add(1)
	case http.StateIdle:
		s.idled.Add(1)
	default:
	}
}

// caller is a connection from an address of this machine.
type caller struct {
	*stand
	net.Conn
	reader *bufio.Reader
}

// dial connects, and waits until the listener has accepted or refused it: what a
// new connection takes the place of depends on the order in which they came.
func (s *stand) dial(from string) *caller {
	s.t.Helper()
	before := s.accepted.Load() + s.refused.Load()
	d := net.Dialer{LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(from), 0))}
	conn := testkit.Must(d.DialContext(s.t.Context(), "tcp", s.address))(s.t)
	s.t.Cleanup(func() { _ = conn.Close() })
	testkit.Eventually(s.t, func() error {
		if s.accepted.Load()+s.refused.Load() == before {
			return errors.New("the connection is neither accepted nor refused")
		}
		return nil
	})
	return &caller{s, conn, bufio.NewReader(conn)}
}

func (c *caller) send(path string) {
	c.t.Helper()
	if _, err := io.WriteString(c.Conn, "GET "+path+" HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		c.t.Error(err)
	}
}

// status is that of the next answer; 0: the connection was closed.
func (c *caller) status() int {
	c.t.Helper()
	r, err := http.ReadResponse(c.reader, nil)
	if err != nil {
		return 0
	}
	_, _ = io.Copy(io.Discard, r.Body)
	_ = r.Body.Close()
	return r.StatusCode
}

// get sends a request, and waits until the listener knows that its connection is
// idle again.
func (c *caller) get(path string) int {
	c.t.Helper()
	before := c.idled.Load()
	c.send(path)
	status := c.status()
	if status == http.StatusOK {
		testkit.Eventually(c.t, func() error {
			if c.idled.Load() == before {
				return errors.New("the connection is not idle")
			}
			return nil
		})
	}
	return status
}

// open waits until the listener has so many connections.
func (s *stand) open(n int) {
	s.t.Helper()
	testkit.Eventually(s.t, func() error {
		if got := s.listener.Open(); got != n {
			return fmt.Errorf("%d connections, want %d", got, n)
		}
		return nil
	})
}

// TestIdleConnectionsMakeRoom: a new connection takes the place of the one that has been
// idle for longest, and of one that has proven itself only if there is no other.
func TestIdleConnectionsMakeRoom(t *testing.T) {
	t.Parallel()
	s := newStand(t, listening.LimitConfig{Max: 3, MaxPerAddress: 3})
	proven, second, silent := s.dial("127.0.0.1"), s.dial("127.0.0.1"), s.dial("127.0.0.1")
	if proven.get("/prove") != 200 || second.get("/") != 200 {
		t.Fatal("the first connections are not answered")
	}
	s.open(3)
	if got := s.dial("127.0.0.1").get("/"); got != 200 {
		t.Errorf("beyond the bound, beside one that has sent nothing: %d", got)
	}
	if got := silent.status(); got != 0 {
		t.Errorf("the one that has sent nothing is answered %d", got)
	}
	if got := s.dial("127.0.0.1").get("/"); got != 200 || second.status() != 0 {
		t.Errorf("beyond the bound, beside an idle one: %d", got)
	}
	if got := proven.get("/"); got != 200 {
		t.Errorf("the one that has proven itself: %d", got)
	}
	s.open(3)
	if refused, evicted := s.refused.Load(), s.evicted.Load(); refused != 0 || evicted != 2 {
		t.Errorf("%d are refused, %d evicted, want 0 and 2", refused, evicted)
	}
}

// TestBusyConnectionsStay: where no connection is idle, new ones are refused in words; a
// place that becomes free is given again.
func TestBusyConnectionsStay(t *testing.T) {
	t.Parallel()
	s := newStand(t, listening.LimitConfig{Max: 4, MaxPerAddress: 2, Proxies: []netip.Prefix{netip.MustParsePrefix("127.0.0.9/32")}})
	busy := []*caller{s.dial("127.0.0.1"), s.dial("127.0.0.1"), s.dial("127.0.0.2")}
	for i, c := range busy {
		c.send("/wait")
		testkit.Eventually(t, func() error {
			if s.waiting.Load() != int64(i)+1 {
				return fmt.Errorf("%d requests are under way", s.waiting.Load())
			}
			return nil
		})
	}
	for range 50 { // more than are closed side by side
		if got := s.dial("127.0.0.1").get("/"); got != 503 && got != 0 {
			t.Errorf("a third connection of an address: %d", got)
		}
	}
	if got := s.dial("127.0.0.1").get("/"); got != 503 {
		t.Errorf("a third connection of an address: %d", got)
	}
	if got := s.dial("127.0.0.3").get("/"); got != 200 {
		t.Errorf("another address: %d", got)
	}
	last := s.dial("127.0.0.9")
	last.send("/wait")
	testkit.Eventually(t, func() error {
		if s.waiting.Load() != 4 {
			return fmt.Errorf("%d requests are under way", s.waiting.Load())
		}
		return nil
	})
	if got := s.dial("127.0.0.4").get("/"); got != 503 {
		t.Errorf("beyond the bound of all: %d", got)
	}
	close(s.release)
	for _, c := range append(busy, last) {
		if got := c.status(); got != 200 {
			t.Errorf("a request that was under way: %d", got)
		}
		_ = c.Close()
	}
	s.open(0)
	for range 3 {
		if got := s.dial("127.0.0.9").get("/"); got != 200 {
			t.Errorf("a proxy: %d", got)
		}
	}
}

// TestARequestTakesThePlaceOfAnIdleConnection: requests beside others on one connection
// find places where a new connection would, and are refused where it would be.
func TestARequestTakesThePlaceOfAnIdleConnection(t *testing.T) {
	t.Parallel()
	bound := testkit.Must((&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0"))(t)
	l := listening.WithLimits(bound, listening.LimitConfig{Max: 3, MaxPerAddress: 3, Refusal: func(string) []byte { return nil }})
	defer l.Close()
	var conns []net.Conn
	for range 3 {
		dialed := testkit.Must((&net.Dialer{}).DialContext(t.Context(), "tcp", bound.Addr().String()))(t)
		t.Cleanup(func() { _ = dialed.Close() })
		conns = append(conns, testkit.Must(l.Accept())(t))
	}
	l.ConnState(conns[0], http.StateActive)
	c := conns[0].(*listening.Conn)
	for i, want := range []bool{true, true, true, false} { // the first counts nothing
		if _, ok := c.TakePlace(); ok != want {
			t.Errorf("request %d has a place: %v", i+1, ok)
		}
	}
	if _, err := conns[1].Write([]byte("x")); err == nil || l.Open() != 3 {
		t.Errorf("the idle connection is open: %v; %d places are taken", err == nil, l.Open())
	}
}

// TestUnprovenConnectionsAreLetGoSooner: one that has proven itself stays. A clock that is
// behind by as much as a connection may be idle leaves it no time.
func TestUnprovenConnectionsAreLetGoSooner(t *testing.T) {
	t.Parallel()
	clock := testkit.RunningClock()
	s := newStand(t, listening.LimitConfig{Max: 10, MaxPerAddress: 10, UnprovenIdle: time.Hour, Clock: clock.Now})
	proven, other := s.dial("127.0.0.1"), s.dial("127.0.0.1")
	if proven.get("/prove") != 200 || other.get("/") != 200 {
		t.Fatal("they are not answered")
	}
	if proven.get("/") != 200 || other.get("/") != 200 {
		t.Error("they are not answered again")
	}
	clock.Advance(-time.Hour)
	if got := proven.get("/"); got != 200 {
		t.Errorf("the proven one: %d", got)
	}
	other.send("/") // after it the server sets a time for the next request
	s.open(1)
	if got := proven.get("/"); got != 200 {
		t.Errorf("the proven one: %d", got)
	}
}

// TestDescriptors: a limit is known.
func TestDescriptors(t *testing.T) {
	t.Parallel()
	if n := listening.Descriptors(); n < 64 {
		t.Errorf("%d descriptors", n)
	}
	if strings.Contains(fmt.Sprint(listening.Descriptors()), "-") {
		t.Error("a limit below 0")
	}
}

// TestWhatIsTaken: what the other side takes is seen while the same write waits.
func TestWhatIsTaken(t *testing.T) {
	t.Parallel()
	bound := testkit.Must((&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0"))(t)
	l := listening.WithLimits(bound, listening.LimitConfig{Max: 1, MaxPerAddress: 1})
	defer l.Close()
	reader := testkit.Must((&net.Dialer{}).DialContext(t.Context(), "tcp", bound.Addr().String()))(t)
	defer reader.Close()
	c := testkit.Must(l.Accept())(t).(*listening.Conn)
	t.Cleanup(func() { _ = c.Close() })
	written := make(chan error, 1)
	const all = 64 << 20 // more than all buffers
	go func() {
		_, err := c.Write(make([]byte, all))
		written <- err
	}()
	before, writes := c.Taken()
	if writes != 0 {
		t.Fatalf("%d writes have ended before any did", writes)
	}
	for read := 0; read < all/2; {
		n, err := reader.Read(make([]byte, 1<<20))
		if err != nil {
			t.Fatal(err)
		}
		read += n
	}
	taken, writes := c.Taken()
	if writes != 0 {
		t.Error("the write has ended before all was taken")
	}
	if knowsWhatIsTaken := runtime.GOOS == "linux"; knowsWhatIsTaken && taken-before < all/2-1<<20 {
		t.Errorf("%d bytes were taken, want about %d", taken-before, all/2)
	}
	testkit.Must(io.CopyN(io.Discard, reader, 16<<20))(t)
	go func() { _, _ = io.Copy(io.Discard, reader) }()
	if err := <-written; err != nil {
		t.Fatal(err)
	}
	if _, writes := c.Taken(); writes != 1 {
		t.Errorf("%d writes have ended, want 1", writes)
	}
}

// TestAddressesLeaveOthersAConnection: two addresses with a request under way on each connection do
// not have all connections.
func TestAddressesLeaveOthersAConnection(t *testing.T) {
	t.Parallel()
	s := newStand(t, listening.LimitConfig{Max: 16, MaxPerAddress: 8})
	ask := func(from string) net.Conn {
		dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
		c := testkit.Must(dialer.DialContext(t.Context(), "tcp", s.address))(t)
		t.Cleanup(func() { _ = c.Close() })
		testkit.Must(io.WriteString(c, "GET /wait HTTP/1.1\r\nHost: x\r\n\r\n"))(t)
		return c
	}
	defer close(s.release)
	for i := range 8 {
		ask("127.0.0.1")
		if i < 6 {
			ask("127.0.0.2")
		}
		testkit.Eventually(t, func() error {
			if n := s.waiting.Load(); n != int64(min(2*(i+1), i+7)) {
				return fmt.Errorf("%d requests wait", n)
			}
			return nil
		})
	}
	refused := ask("127.0.0.2") // it has 6 connections, and 2 are left
	_ = refused.SetReadDeadline(time.Now().Add(time.Minute))
	if line, err := bufio.NewReader(refused).ReadString('\n'); err != nil || !strings.Contains(line, "503") {
		t.Errorf("an address with connections takes the last ones: %q %v", line, err)
	}
	ask("127.0.0.3")
	testkit.Eventually(t, func() error {
		if n := s.waiting.Load(); n != 15 {
			return fmt.Errorf("%d requests wait, want that of the address without any, too", n)
		}
		return nil
	})
}
