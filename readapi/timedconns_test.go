package readapi_test

import (
	"net"
	"sync"
	"time"
)

// timedConns are a server's connections, whose deadlines tests can look at instead of
// letting them pass.
type timedConns struct {
	net.Listener

	mu   sync.Mutex
	list []*timedConn
}

// of wraps a listener.
func (l *timedConns) of(of net.Listener) net.Listener {
	l.Listener = of
	return l
}

func (l *timedConns) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := &timedConn{TCPConn: conn.(*net.TCPConn)}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.list = append(l.list, c)
	return c, nil
}

// last is the connection that was accepted last; nil: none was.
func (l *timedConns) last() *timedConn {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.list) == 0 {
		return nil
	}
	return l.list[len(l.list)-1]
}

type timedConn struct {
	*net.TCPConn

	mu          sync.Mutex
	read, write time.Time
}

func (c *timedConn) SetDeadline(t time.Time) error {
	c.set(&c.read, t)
	c.set(&c.write, t)
	return c.TCPConn.SetDeadline(t)
}

func (c *timedConn) SetReadDeadline(t time.Time) error {
	c.set(&c.read, t)
	return c.TCPConn.SetReadDeadline(t)
}

func (c *timedConn) SetWriteDeadline(t time.Time) error {
	c.set(&c.write, t)
	return c.TCPConn.SetWriteDeadline(t)
}

func (c *timedConn) set(which *time.Time, t time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	*which = t
}

// times are the deadlines as they are now; zero: there is none.
func (c *timedConn) times() (read, write time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.read, c.write
}
