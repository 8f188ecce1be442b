package badnetwork

import (
	"math"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// link is one proxied connection: from a client to the proxy, and from the proxy to the server.
type link struct {
	client, server net.Conn
	delay          func() time.Duration
	sleep          func(time.Duration)
	answered       func() // is called before each piece to the client
	silent         atomic.Bool
	left           atomic.Int64 // bytes to the client before the link is reset
}

const unlimited = math.MaxInt64

// bufferSize is the largest piece of data, in bytes.
const bufferSize = 32 << 10

// pass passes data on in both directions until both have ended.
func (l *link) pass() {
	var both sync.WaitGroup
	both.Go(func() { l.copy(l.server, l.client, false) })
	both.Go(func() { l.copy(l.client, l.server, true) })
	both.Wait()
	_ = l.client.Close()
	_ = l.server.Close()
}

// copy passes data on in one direction.
func (l *link) copy(to, from net.Conn, toClient bool) {
	buffer := make([]byte, bufferSize)
	for {
		n, err := from.Read(buffer)
		if n > 0 && !l.forward(to, buffer[:n], toClient) {
			l.reset()
			return
		}
		if err == nil {
			continue
		}
		// When one side closes, close the other too, unless the link is silent.
		if !l.silent.Load() {
			closeWrite(to)
		}
		return
	}
}

// forward passes a piece on; false: the link must be reset.
func (l *link) forward(to net.Conn, piece []byte, toClient bool) bool {
	if d := l.delay(); d > 0 {
		l.sleep(d)
	}
	if toClient {
		l.answered()
	}
	if l.silent.Load() {
		return true // lost
	}
	if toClient {
		if left := l.left.Load(); left != unlimited {
			if int64(len(piece)) >= left {
				_, _ = to.Write(piece[:max(left, 0)])
				return false
			}
			l.left.Add(-int64(len(piece)))
		}
	}
	_, err := to.Write(piece)
	return err == nil
}

func (l *link) limit(bytes int64) { l.left.Store(bytes) }

func (l *link) reset() {
	hardClose(l.client)
	hardClose(l.server)
}

// hardClose closes a connection with a reset instead of an orderly end.
func hardClose(c net.Conn) {
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = c.Close()
}

// closeWrite tells the other side that nothing more will come.
func closeWrite(c net.Conn) {
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.CloseWrite()
	}
}
