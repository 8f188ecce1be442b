package listening

import (
	"container/list"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

// LimitConfig configures a LimitedListener.
type LimitConfig struct {
	// Max is the most connections at the same time, MaxPerAddress the most from one address (for
	// IPv6, from one /64 network). Peers in Proxies have no limit of their own, because each stands
	// for many callers.
	Max, MaxPerAddress int
	Proxies            []netip.Prefix

	// UnprovenIdle is how long a connection may stay without a request in flight before Conn.Prove
	// is called, if the server would allow longer.
	UnprovenIdle time.Duration
	Clock        func() time.Time // for UnprovenIdle; nil: time.Now

	// Refusal returns what a refused connection gets, which must be short. peer is the remote
	// address as net.Conn formats it.
	Refusal func(peer string) []byte

	// Refused is called after each refusal, Evicted when an idle connection is closed to make room
	// for a new one; nil: no callback. Evicted must not call the LimitedListener.
	Refused, Evicted func()
}

// LimitedListener accepts connections up to its limits. A connection beyond them replaces one that
// has no request in flight, an unproven one first. If all have requests in flight, the new connection
// gets the refusal. The server must call ConnState.
type LimitedListener struct {
	net.Listener

	cfg     LimitConfig
	closing chan struct{} // holds one element for each refused connection that is closing

	mu        sync.Mutex
	total     int
	addresses map[netip.Addr]int
	idle      [2]*list.List // each *Conn without a request in flight, longest idle first: unproven, proven
}

// Indexes of LimitedListener.idle.
const (
	unproven = iota
	proven
)

// newcomers sets the share of connections, one in newcomers, that is reserved for addresses without
// a connection.
const newcomers = 8

// maxClosing is how many refused connections may stay open at the same time, so that their callers
// can read the refusal. Further ones are closed at once.
const maxClosing = 8

// WithLimits limits the connections of a TCP listener.
func WithLimits(l net.Listener, cfg LimitConfig) *LimitedListener {
	cfg.Max, cfg.MaxPerAddress = max(1, cfg.Max), max(1, cfg.MaxPerAddress)
	if cfg.Clock == nil {
		cfg.Clock = time.Now
	}
	if cfg.Refused == nil {
		cfg.Refused = func() {}
	}
	if cfg.Evicted == nil {
		cfg.Evicted = func() {}
	}
	return &LimitedListener{
		Listener: l, cfg: cfg, closing: make(chan struct{}, maxClosing),
		addresses: map[netip.Addr]int{}, idle: [2]*list.List{list.New(), list.New()},
	}
}

// Accept waits for the next connection within the limits and returns it as a *Conn.
func (l *LimitedListener) Accept() (net.Conn, error) {
	for {
		accepted, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		tcp, ok := accepted.(*net.TCPConn)
		if !ok {
			return accepted, nil
		}
		if c := l.admit(tcp); c != nil {
			return c, nil
		}
		l.refuse(tcp)
	}
}

// Open returns how many connections there are, including the places that TakePlace counts.
func (l *LimitedListener) Open() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.total
}

// ConnState is the hook for http.Server. conn comes from Accept, or has a method NetConn that leads
// to such a connection.
func (l *LimitedListener) ConnState(conn net.Conn, state http.ConnState) {
	c := unwrap(conn)
	if c == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch state {
	case http.StateActive:
		c.leaveIdle()
	case http.StateIdle:
		c.enterIdle()
	default: // new connections start idle; closed ones went through Close
	}
}

func unwrap(conn net.Conn) *Conn {
	for {
		switch c := conn.(type) {
		case *Conn:
			return c
		case interface{ NetConn() net.Conn }:
			conn = c.NetConn()
		default:
			return nil
		}
	}
}

// admit registers a connection; it returns nil if there is no room.
func (l *LimitedListener) admit(tcp *net.TCPConn) *Conn {
	c := &Conn{TCPConn: tcp, listener: l, address: l.addressOf(tcp)}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.makeRoom(c.address) {
		return nil
	}
	l.count(c.address)
	c.open = true
	c.enterIdle()
	return c
}

// makeRoom reports whether there is room for one more connection from address, and closes an idle
// one if necessary. The caller holds mu.
func (l *LimitedListener) makeRoom(address netip.Addr) bool {
	if address.IsValid() && l.addresses[address] >= l.cfg.MaxPerAddress && !l.evict(address) {
		return false
	}
	most := l.cfg.Max
	if address.IsValid() && l.addresses[address] > 0 {
		most -= most / newcomers
	}
	return l.total < most || l.evict(netip.Addr{})
}

// addressOf returns the address that a connection counts against; the zero Addr for a proxy.
func (l *LimitedListener) addressOf(conn net.Conn) netip.Addr {
	peer, err := netip.ParseAddrPort(conn.RemoteAddr().String())
	if err != nil {
		return netip.Addr{}
	}
	address := peer.Addr().Unmap().WithZone("")
	for _, p := range l.cfg.Proxies {
		if p.Contains(address) {
			return netip.Addr{}
		}
	}
	if address.Is6() {
		network, _ := address.Prefix(64) // fails only if the prefix is longer than the address
		return network.Addr()
	}
	return address
}

// evict closes an idle connection from address, or from any address if it is the zero Addr: an
// unproven one first, then the longest idle. It returns false if none is idle. The caller holds mu.
func (l *LimitedListener) evict(address netip.Addr) bool {
	for _, idle := range l.idle {
		for e := idle.Front(); e != nil; e = e.Next() {
			c := e.Value.(*Conn)
			if !address.IsValid() || c.address == address {
				c.leave()
				_ = c.TCPConn.Close() // the server notices
				l.cfg.Evicted()
				return true
			}
		}
	}
	return false
}

// refuse sends the refusal to a connection and closes it.
func (l *LimitedListener) refuse(tcp *net.TCPConn) {
	defer l.cfg.Refused()
	now := time.Now()
	_ = tcp.SetDeadline(now.Add(closeTimeout))
	_, _ = tcp.Write(l.cfg.Refusal(tcp.RemoteAddr().String())) // cannot block: it is short and first in the buffer
	select {
	case l.closing <- struct{}{}:
	default:
		_ = tcp.Close()
		return
	}
	go func() {
		defer func() { <-l.closing }()
		// If we closed before the request was read, the connection would be reset and the caller
		// might not see the refusal.
		_ = tcp.CloseWrite()
		var request [4 << 10]byte
		for {
			if _, err := tcp.Read(request[:]); err != nil {
				break
			}
		}
		_ = tcp.Close()
	}()
}

// closeTimeout bounds how long a refused connection may stay open.
const closeTimeout = 500 * time.Millisecond

// Conn is a connection that a LimitedListener has accepted.
type Conn struct {
	*net.TCPConn

	listener *LimitedListener
	address  netip.Addr // that it counts against; see addressOf
	proven   atomic.Bool

	unbounded atomic.Bool // the server has set no read deadline

	writes atomic.Uint64 // finished writes

	// The listener's mu protects these.
	underWay int // requests that have taken a place, including the first
	open     bool
	idle     *list.Element // in one of the listener's lists
	in       *list.List
}

// Prove records that the caller has authenticated. The connection may then stay idle for as long as
// the server allows.
func (c *Conn) Prove() {
	if !c.proven.Swap(true) && c.unbounded.Load() {
		_ = c.TCPConn.SetReadDeadline(time.Time{}) // fails only if the connection has ended
	}
}

// SetReadDeadline sets the read deadline, limited by UnprovenIdle until Prove is called.
func (c *Conn) SetReadDeadline(t time.Time) error {
	c.unbounded.Store(t.IsZero())
	if most := c.listener.cfg.UnprovenIdle; most > 0 && !c.proven.Load() {
		if soon := c.listener.cfg.Clock().Add(most); t.IsZero() || t.After(soon) {
			t = soon
		}
	}
	return c.TCPConn.SetReadDeadline(t) //nolint:wrapcheck // a connection's errors are those of net
}

// Read reads from the connection. Over HTTP/2 the server sets no read deadline, so each read starts
// UnprovenIdle again until Prove is called.
func (c *Conn) Read(p []byte) (n int, err error) {
	n, err = c.TCPConn.Read(p)
	if most := c.listener.cfg.UnprovenIdle; n > 0 && most > 0 && c.unbounded.Load() && !c.proven.Load() {
		_ = c.TCPConn.SetReadDeadline(c.listener.cfg.Clock().Add(most)) // the next Read returns the error
		if c.proven.Load() {                                            // Prove was called meanwhile
			_ = c.TCPConn.SetReadDeadline(time.Time{})
		}
	}
	return
}

// Write writes to the connection and counts the write.
func (c *Conn) Write(p []byte) (n int, err error) {
	n, err = c.TCPConn.Write(p)
	c.writes.Add(1)
	return
}

// Taken returns how many bytes the peer's system has acknowledged and how many writes have
// finished. An unfinished write may still make progress: the kernel lets it continue only when a
// third of its send buffer is free, which can be more than a megabyte. Where the system does not
// report it, acknowledged stays 0.
func (c *Conn) Taken() (acknowledged, writes uint64) { return c.acknowledged(), c.writes.Load() }

// TakePlace counts a further concurrent request on the connection, whose caller is not known yet,
// like a connection of its own. It may close an idle connection to make room; ok is false if there
// is none. The first request counts nothing. Call release when the caller is known or the request
// has ended; it may be called again.
func (c *Conn) TakePlace() (release func(), ok bool) {
	l := c.listener
	l.mu.Lock()
	defer l.mu.Unlock()
	if c.underWay++; c.underWay == 1 {
		return sync.OnceFunc(func() { c.releasePlace(false) }), true
	}
	if !l.makeRoom(c.address) {
		c.underWay--
		return nil, false
	}
	l.count(c.address)
	return sync.OnceFunc(func() { c.releasePlace(true) }), true
}

func (c *Conn) releasePlace(counted bool) {
	c.listener.mu.Lock()
	defer c.listener.mu.Unlock()
	c.underWay--
	if counted {
		c.listener.discount(c.address)
	}
}

// Close closes the connection and frees its place.
func (c *Conn) Close() error {
	c.listener.mu.Lock()
	c.leave()
	c.listener.mu.Unlock()
	return c.TCPConn.Close()
}

// leave frees the place. The caller holds mu.
func (c *Conn) leave() {
	c.leaveIdle()
	if !c.open {
		return
	}
	c.open = false
	c.listener.discount(c.address)
}

// count counts one connection from an address. The caller holds mu.
func (l *LimitedListener) count(address netip.Addr) {
	l.total++
	if address.IsValid() {
		l.addresses[address]++
	}
}

// discount undoes the count of one connection from an address. The caller holds mu.
func (l *LimitedListener) discount(address netip.Addr) {
	l.total--
	if !address.IsValid() {
		return
	}
	if l.addresses[address]--; l.addresses[address] == 0 {
		delete(l.addresses, address)
	}
}

// enterIdle adds an open connection to the idle list of its kind. The caller holds mu.
func (c *Conn) enterIdle() {
	if !c.open || c.idle != nil {
		return
	}
	c.in = c.listener.idle[unproven]
	if c.proven.Load() {
		c.in = c.listener.idle[proven]
	}
	c.idle = c.in.PushBack(c)
}

// leaveIdle removes the connection from its idle list. The caller holds mu.
func (c *Conn) leaveIdle() {
	if c.idle != nil {
		c.in.Remove(c.idle)
		c.idle, c.in = nil, nil
	}
}
