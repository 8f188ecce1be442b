package badnetwork

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"
)

// Proxy passes connections on to an upstream address. It is safe for concurrent
// use.
type Proxy struct {
	listener net.Listener
	done     sync.WaitGroup

	mu       sync.Mutex
	sleep    func(time.Duration)
	upstream string
	latency  time.Duration
	silent   bool // connections made now are silent from the start
	answers  int  // pieces that servers have sent
	silentAt int  // the piece with which all connections go silent; 0: none
	refusing bool
	closed   bool
	links    map[*link]struct{}
}

// Listen starts a proxy at a free port of this machine. The upstream is HOST:PORT, or the path
// of a socket.
func Listen(ctx context.Context, upstream string) (*Proxy, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("cannot listen for a proxy: %w", err)
	}
	p := &Proxy{listener: listener, upstream: upstream, sleep: sleep, links: map[*link]struct{}{}}
	p.done.Go(p.accept)
	return p, nil
}

func sleep(d time.Duration) { <-time.After(d) }

// Address returns the address that clients connect to.
func (p *Proxy) Address() string { return p.listener.Addr().String() }

// Point sends new connections to another upstream address.
func (p *Proxy) Point(upstream string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.upstream = upstream
}

// Delay delays every piece of data by latency, in each direction; 0 ends it.
func (p *Proxy) Delay(latency time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.latency = latency
}

// Refuse resets new connections until it is called with false. Existing connections continue.
func (p *Proxy) Refuse(refusing bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refusing = refusing
}

// Cut resets all connections.
func (p *Proxy) Cut() {
	for _, l := range p.all() {
		l.reset()
	}
}

// CutAfter resets each existing connection once it has passed on this many more bytes to the
// client, so that an answer is cut in the middle.
func (p *Proxy) CutAfter(bytes int64) {
	for _, l := range p.all() {
		l.limit(bytes)
	}
}

// Silence makes all existing connections silent. They stay silent until Restore resets them.
func (p *Proxy) Silence() {
	for _, l := range p.all() {
		l.silent.Store(true)
	}
}

// Partition makes connections silent: existing ones, and new ones until Restore.
func (p *Proxy) Partition() {
	p.mu.Lock()
	p.silent = true
	p.mu.Unlock()
	p.Silence()
}

// PartitionAt is Partition at the n-th piece of data from a server, which is lost; 0: never.
func (p *Proxy) PartitionAt(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.silentAt = n
}

// Answers returns how many pieces of data servers have sent.
func (p *Proxy) Answers() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.answers
}

// Restore ends everything that Delay, Refuse, Partition and PartitionAt began. It resets silent
// connections, as a host does with a connection that it does not know.
func (p *Proxy) Restore() {
	p.mu.Lock()
	p.latency, p.refusing, p.silent, p.silentAt = 0, false, false, 0
	p.mu.Unlock()
	for _, l := range p.all() {
		if l.silent.Load() {
			l.reset()
		}
	}
}

// Close ends the proxy and its connections.
func (p *Proxy) Close() error {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	err := p.listener.Close()
	p.Cut()
	p.done.Wait()
	if err != nil && !errors.Is(err, net.ErrClosed) {
		return fmt.Errorf("cannot close a proxy: %w", err)
	}
	return nil
}

func (p *Proxy) all() []*link {
	p.mu.Lock()
	defer p.mu.Unlock()
	list := make([]*link, 0, len(p.links))
	for l := range p.links {
		list = append(list, l)
	}
	return list
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return // closed
		}
		p.done.Go(func() { p.serve(client) })
	}
}

// serve passes one connection on until it ends.
func (p *Proxy) serve(client net.Conn) {
	p.mu.Lock()
	upstream, refusing, sleep := p.upstream, p.refusing || p.closed, p.sleep
	p.mu.Unlock()
	if refusing {
		hardClose(client)
		return
	}
	var dialer net.Dialer
	dialing, cancel := context.WithTimeout(context.Background(), dialTimeout)
	kind := "tcp"
	if strings.HasPrefix(upstream, "/") {
		kind = "unix"
	}
	server, err := dialer.DialContext(dialing, kind, upstream)
	cancel()
	if err != nil {
		hardClose(client)
		return
	}
	l := &link{client: client, server: server, delay: p.delay, sleep: sleep, answered: p.count}
	l.left.Store(unlimited)
	p.mu.Lock()
	l.silent.Store(p.silent)
	p.links[l] = struct{}{}
	closed := p.closed
	p.mu.Unlock()
	if closed {
		l.reset()
	}
	l.pass()
	p.mu.Lock()
	delete(p.links, l)
	p.mu.Unlock()
}

const dialTimeout = 5 * time.Second

func (p *Proxy) delay() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.latency
}

// count counts a piece from a server.
func (p *Proxy) count() {
	p.mu.Lock()
	p.answers++
	last := p.answers == p.silentAt
	p.mu.Unlock()
	if last {
		p.Partition()
	}
}
