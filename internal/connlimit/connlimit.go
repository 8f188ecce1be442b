// Package connlimit bounds the connections of a listener, so that callers cannot
// use up the descriptors that the process needs for its database.
package connlimit

import (
	"container/list"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

// Config of a Listener.
type Config struct {
	// Max is how many connections there may be at the same time, MaxPerAddress how
	// many of them from one address (of IPv6, from one network of 64 bits). Peers in
	// Proxies have no bound of their own, because they are many callers.
	Max, MaxPerAddress int
	Proxies            []netip.Prefix

	// UnprovenIdle is how long a connection may be without a request under way
	// before Conn.Prove was called, if the server would let it be for longer.
	UnprovenIdle time.Duration
	Clock        func() time.Time // that UnprovenIdle goes by; nil: time.Now

	// Refusal is what a connection gets that finds no place; it must be short. The peer
	// is as net.Conn names it.
	Refusal func(peer string) []byte

	// Refused is called after each refusal, Evicted when an idle connection loses its place
	// to a new one; nil: nothing is. Evicted must not call the Listener.
	Refused, Evicted func()
}

// Listener accepts connections up to its bounds. One beyond them takes the place
// of a connection that has no request under way, first of one that has not proven
// itself; where there is none, it gets the refusal. The server must call ConnState.
type Listener struct {
	net.Listener

	cfg     Config
	closing chan struct{} // holds one for each refused connection that is being closed

	mu        sync.Mutex
	total     int
	addresses map[netip.Addr]int
	idle      [2]*list.List // of *Conn without a request under way, the longest first: unproven ones, and others
}

// Which list of idle connections.
const (
	unproven = iota
	proven
)

// newcomers is which part of all connections, one in so many, is for addresses that have none.
const newcomers = 8

// maxClosing is how many refused connections may be open at the same time, so
// that their callers can read the refusal; more are closed at once.
const maxClosing = 8

// Wrap bounds the connections of a TCP listener.
func Wrap(l net.Listener, cfg Config) *Listener {
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
	return &Listener{
		Listener: l, cfg: cfg, closing: make(chan struct{}, maxClosing),
		addresses: map[netip.Addr]int{}, idle: [2]*list.List{list.New(), list.New()},
	}
}

// Accept waits for the next connection that finds a place; it is a *Conn.
func (l *Listener) Accept() (net.Conn, error) {
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

// Open is how many connections there are.
func (l *Listener) Open() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.total
}

// ConnState is for http.Server. The connection is one of Accept, or has a method
// NetConn that returns it.
func (l *Listener) ConnState(conn net.Conn, state http.ConnState) {
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
	default: // a new one is idle from the start, and Close has been called for others
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

// admit gives a connection a place; nil: there is none.
func (l *Listener) admit(tcp *net.TCPConn) *Conn {
	c := &Conn{TCPConn: tcp, listener: l, address: l.addressOf(tcp)}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.makeRoom(c.address) {
		return nil
	}
	l.total++
	if c.address.IsValid() {
		l.addresses[c.address]++
	}
	c.open = true
	c.enterIdle()
	return c
}

// makeRoom reports whether there is a place for one more of an address, if need be that of
// an idle connection. The caller holds mu.
func (l *Listener) makeRoom(address netip.Addr) bool {
	if address.IsValid() && l.addresses[address] >= l.cfg.MaxPerAddress && !l.evict(address) {
		return false
	}
	most := l.cfg.Max
	if address.IsValid() && l.addresses[address] > 0 {
		most -= most / newcomers
	}
	return l.total < most || l.evict(netip.Addr{})
}

// addressOf is the address that a connection counts for; invalid: a proxy's.
func (l *Listener) addressOf(conn net.Conn) netip.Addr {
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
		network, _ := address.Prefix(64) // fails for longer ones than the address only
		return network.Addr()
	}
	return address
}

// evict closes the connection of an address that has been idle for longest, or with
// the zero Addr that of any; false: none is idle. The caller holds mu.
func (l *Listener) evict(address netip.Addr) bool {
	for _, idle := range l.idle {
		for e := idle.Front(); e != nil; e = e.Next() {
			c := e.Value.(*Conn)
			if !address.IsValid() || c.address == address {
				c.leave()
				_ = c.TCPConn.Close() // the server finds it closed
				l.cfg.Evicted()
				return true
			}
		}
	}
	return false
}

// refuse answers a connection that has no place, and closes it.
func (l *Listener) refuse(tcp *net.TCPConn) {
	defer l.cfg.Refused()
	now := time.Now()
	_ = tcp.SetDeadline(now.Add(closeTimeout))
	_, _ = tcp.Write(l.cfg.Refusal(tcp.RemoteAddr().String())) // short and the first: there is room in the buffer
	select {
	case l.closing <- struct{}{}:
	default:
		_ = tcp.Close()
		return
	}
	go func() {
		defer func() { <-l.closing }()
		// What is closed before its request was read is reset, and the caller may
		// not see the refusal.
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

// closeTimeout bounds what a refused caller may take.
const closeTimeout = 500 * time.Millisecond

// Conn is a connection that a Listener has accepted.
type Conn struct {
	*net.TCPConn

	listener *Listener
	address  netip.Addr // that it counts for; see addressOf
	proven   atomic.Bool

	unbounded atomic.Bool // the server has set no time for reading

	writes atomic.Uint64 // that have ended

	// The listener's mu protects these.
	underWay int // places that are taken, the first included
	open     bool
	idle     *list.Element // in one of the listener's lists
	in       *list.List
}

// Prove says that the caller has shown who it is: it may be idle for as long as
// the server allows.
func (c *Conn) Prove() {
	if !c.proven.Swap(true) && c.unbounded.Load() {
		_ = c.TCPConn.SetReadDeadline(time.Time{}) // the connection has ended
	}
}

// SetReadDeadline bounds the time that a caller may be idle before it has proven
// itself.
func (c *Conn) SetReadDeadline(t time.Time) error {
	c.unbounded.Store(t.IsZero())
	if most := c.listener.cfg.UnprovenIdle; most > 0 && !c.proven.Load() {
		if soon := c.listener.cfg.Clock().Add(most); t.IsZero() || t.After(soon) {
			t = soon
		}
	}
	return c.TCPConn.SetReadDeadline(t) //nolint:wrapcheck // a connection's errors are those of net
}

// Read reads. Over HTTP/2 the server sets no time for reading, so what bounds a caller
// that has not proven itself begins again with everything that it sends.
func (c *Conn) Read(p []byte) (n int, err error) {
	n, err = c.TCPConn.Read(p)
	if most := c.listener.cfg.UnprovenIdle; n > 0 && most > 0 && c.unbounded.Load() && !c.proven.Load() {
		_ = c.TCPConn.SetReadDeadline(c.listener.cfg.Clock().Add(most)) // the next Read has the error
		if c.proven.Load() {                                            // meanwhile
			_ = c.TCPConn.SetReadDeadline(time.Time{})
		}
	}
	return
}

// Write writes.
func (c *Conn) Write(p []byte) (n int, err error) {
	n, err = c.TCPConn.Write(p)
	c.writes.Add(1)
	return
}

// Taken tells how many bytes the other side's system has acknowledged, and how many writes have
// ended. A write that has not ended may make progress all the same: this system lets it go on only
// when a third of its send buffer is free, which can be more than a megabyte. Where the system
// does not tell, acknowledged stays 0.
func (c *Conn) Taken() (acknowledged, writes uint64) { return c.acknowledged(), c.writes.Load() }

// TakePlace counts a request that is under way on the connection beside others, and whose
// caller is not known yet, like a connection of its own, which may take the place of an
// idle one; false: there is no place for it. The first one counts nothing. Release must be called when the caller is known or the
// request has ended, and may be called again.
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
	l.total++
	if c.address.IsValid() {
		l.addresses[c.address]++
	}
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

// discount takes back what was counted for an address. The caller holds mu.
func (l *Listener) discount(address netip.Addr) {
	l.total--
	if !address.IsValid() {
		return
	}
	if l.addresses[address]--; l.addresses[address] == 0 {
		delete(l.addresses, address)
	}
}

// enterIdle puts an open connection into the list of its kind. The caller holds mu.
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

// leaveIdle takes it out again. The caller holds mu.
func (c *Conn) leaveIdle() {
	if c.idle != nil {
		c.in.Remove(c.idle)
		c.idle, c.in = nil, nil
	}
}
