package listening

import (
	"context"
	"crypto/tls"
	"net"
	"sync"
	"time"
)

// handshakeTimeout bounds a handshake.
const handshakeTimeout = 10 * time.Second

// TLSListener accepts connections whose handshake is done, so that their protocol is known. HTTP/2
// connections come as *tls.Conn, by which net/http recognizes them. HTTP/1.1 connections come as
// another type, which net/http and wrappers treat like any connection.
type TLSListener struct {
	net.Listener

	config   *tls.Config
	accepted chan net.Conn
	failed   chan error // of Accept of the wrapped listener

	ctx   context.Context // of handshakes
	stop  context.CancelFunc
	ended sync.WaitGroup
}

// http1Conn hides from net/http that a connection uses TLS.
type http1Conn struct{ *tls.Conn }

// WithTLS adds TLS to a listener. Handshakes run concurrently, so that a slow caller delays nobody.
// The wrapped listener limits how many there are.
func WithTLS(l net.Listener, c *Certificate) *TLSListener {
	wrapped := &TLSListener{Listener: l, config: c.config(), accepted: make(chan net.Conn), failed: make(chan error)}
	wrapped.ctx, wrapped.stop = context.WithCancel(context.Background())
	wrapped.ended.Go(wrapped.run)
	return wrapped
}

// run accepts connections until the listener is closed. It passes errors on to Accept: net/http ends
// for good, or waits before it calls Accept again, and meanwhile nothing more is accepted here.
func (l *TLSListener) run() {
	for {
		conn, err := l.Listener.Accept()
		if err == nil {
			l.ended.Go(func() { l.handshake(conn) })
			continue
		}
		select {
		case l.failed <- err:
		case <-l.ctx.Done():
			return
		}
	}
}

func (l *TLSListener) handshake(below net.Conn) {
	conn := tls.Server(below, l.config)
	ctx, cancel := context.WithTimeout(l.ctx, handshakeTimeout)
	defer cancel()
	if err := conn.HandshakeContext(ctx); err != nil {
		_ = below.Close() // a caller that speaks no TLS, or has gone away
		return
	}
	var ready net.Conn = &http1Conn{conn}
	if conn.ConnectionState().NegotiatedProtocol == "h2" {
		ready = conn
	}
	select {
	case l.accepted <- ready:
	case <-l.ctx.Done():
		_ = conn.Close()
	}
}

// Accept waits for the next connection that has completed its handshake.
func (l *TLSListener) Accept() (net.Conn, error) {
	select {
	case conn := <-l.accepted:
		return conn, nil
	case err := <-l.failed:
		return nil, err
	case <-l.ctx.Done():
		return nil, net.ErrClosed
	}
}

// Close closes the listener and ends the handshakes in flight.
func (l *TLSListener) Close() error {
	l.stop()
	err := l.Listener.Close()
	l.ended.Wait()
	return err
}

// TLSRefusal returns what a refused caller gets before any handshake: the alert internal_error (RFC
// 8446, section 6.2). Clients can name it, while they could not read text.
func TLSRefusal(string) []byte { return []byte{21, 3, 1, 0, 2, 2, 80} }
