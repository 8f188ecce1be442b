package attempt

import (
	"context"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// pipes is a listener of connections that stay inside the process, so that they can be used in a
// bubble of testing/synctest.
type pipes struct {
	dials    atomic.Int64
	accepted chan net.Conn
	closed   chan struct{}
	close    func()
	ends     sync.WaitGroup // of connections that are not over
}

func newPipes() *pipes {
	l := &pipes{accepted: make(chan net.Conn), closed: make(chan struct{})}
	l.close = sync.OnceFunc(func() { close(l.closed) })
	return l
}

// dial connects, as a net.Dialer does.
func (l *pipes) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	l.dials.Add(1)
	client, server := net.Pipe()
	at := l.buffered(server)
	select {
	case l.accepted <- at:
		return l.buffered(client), nil
	case <-l.closed:
		_ = at.Close()
		return nil, net.ErrClosed
	case <-ctx.Done():
		_ = at.Close()
		return nil, ctx.Err()
	}
}

// Accept implements net.Listener.
func (l *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-l.accepted:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (l *pipes) Close() error { l.close(); return nil }

// Addr implements net.Listener.
func (l *pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1} }

// end is one end of a pipe, which keeps a few writes for the other end as the kernel does. Both
// ends may write before they read.
type end struct {
	net.Conn
	queue    chan []byte
	closed   chan struct{}
	close    func()
	deadline atomic.Pointer[time.Time]
}

func (l *pipes) buffered(c net.Conn) *end {
	e := &end{Conn: c, queue: make(chan []byte, 16), closed: make(chan struct{})}
	e.close = sync.OnceFunc(func() { close(e.closed) })
	l.ends.Go(func() {
		defer c.Close()
		for {
			select {
			case b := <-e.queue:
				if _, err := c.Write(b); err != nil {
					e.close()
					return
				}
			case <-e.closed:
				for { // what was written before
					select {
					case b := <-e.queue:
						if _, err := c.Write(b); err != nil {
							return
						}
					default:
						return
					}
				}
			}
		}
	})
	return e
}

// Write implements net.Conn.
func (e *end) Write(b []byte) (int, error) {
	ctx, cancel := context.Background(), context.CancelFunc(func() {})
	if at := e.deadline.Load(); at != nil && !at.IsZero() {
		ctx, cancel = context.WithDeadline(ctx, *at)
	}
	defer cancel()
	select {
	case <-e.closed:
		return 0, net.ErrClosed
	default:
	}
	select {
	case e.queue <- append([]byte(nil), b...):
		return len(b), nil
	case <-e.closed:
		return 0, net.ErrClosed
	case <-ctx.Done():
		return 0, os.ErrDeadlineExceeded
	}
}

// SetDeadline implements net.Conn.
func (e *end) SetDeadline(at time.Time) error {
	_ = e.SetWriteDeadline(at)
	return e.SetReadDeadline(at)
}

// SetWriteDeadline implements net.Conn.
func (e *end) SetWriteDeadline(at time.Time) error { e.deadline.Store(&at); return nil }

// Close implements net.Conn. What was written before still arrives, unless the other end does
// not read it within a moment.
func (e *end) Close() error {
	e.close()
	_ = e.SetReadDeadline(time.Unix(1, 0))
	return e.Conn.SetWriteDeadline(time.Now().Add(time.Second))
}
