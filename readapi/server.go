package readapi

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/ledgerfeed/ledgerfeed/readapi/answer"
)

// Times that bound what a slow caller can hold.
const (
	readHeaderTimeout = 5 * time.Second
	readTimeout       = 10 * time.Second
	writeTimeout      = 30 * time.Second
	idleTimeout       = 2 * time.Minute
)

// Bounds on what one connection over HTTP/2 can hold.
const (
	maxStreams   = 128      // requests under way
	readFrame    = 16 << 10 // bytes of one frame, the least that there is
	receiveSpace = 64 << 10 // bytes of requests' bodies, which nobody reads
)

// protocols are what a server of an API speaks: HTTP/2 also without TLS, by prior
// knowledge alone, so that one connection of a proxy carries many requests that wait.
func protocols() *http.Protocols {
	p := new(http.Protocols)
	p.SetHTTP1(true)
	p.SetHTTP2(true)
	p.SetUnencryptedHTTP2(true)
	return p
}

// NewServer makes the server of an API, with a bound on every time and size that a
// caller has influence on. It must be served on a listener that API.RewriteErrors
// wraps. It reads headers of up to four times answer.MaxHeaderBytes, so that the API
// itself can refuse most that are too large.
func NewServer(api *API, logger *slog.Logger) *http.Server {
	server := &http.Server{
		Handler:           api,
		ReadHeaderTimeout: readHeaderTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    4 * answer.MaxHeaderBytes,
		ErrorLog:          slog.NewLogLogger(logger.Handler(), slog.LevelDebug),
		ConnContext:       withConnection,
		// OPTIONS * is an unknown path like any other.
		DisableGeneralOptionsHandler: true,
		Protocols:                    protocols(),
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams: maxStreams, MaxReadFrameSize: readFrame,
			MaxReceiveBufferPerConnection: receiveSpace, MaxReceiveBufferPerStream: receiveSpace,
			WriteByteTimeout: max(writeTimeout, stallOf(api)),
		},
	}
	server.RegisterOnShutdown(api.Drain)
	return server
}

// stallOf is how long a connection of several answers may take nothing: what a whole list may.
func stallOf(api *API) time.Duration {
	if api == nil {
		return 0
	}
	return api.cfg.WholeLists.Stall
}

// connectionKey finds a request's connection in its context.
type connectionKey struct{}

// ServeFiles prepares a server whose handler calls File, so that a file ends as a whole list does
// when nothing of it is taken. The server's WriteTimeout must be set.
func (r *Reader) ServeFiles(server *http.Server) {
	server.ConnContext = withConnection
	server.HTTP2 = &http.HTTP2Config{WriteByteTimeout: max(server.WriteTimeout, stallOf(r.api))}
}

// withConnection is an http.Server.ConnContext.
func withConnection(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connectionKey{}, c)
}

// prover is a connection that may be idle for longer once a valid key came over it.
type prover interface{ Prove() }

// proveConnection says that the key of the request is valid.
func (q *request) proveConnection() {
	if c, ok := connectionOf[prover](q); ok {
		c.Prove()
	}
}

// endWithReset makes the end of a request's connection a reset, or an ordinary end
// again. In HTTP/1.0 the end of the connection is that of the answer, so an answer that is
// broken off would be taken for a whole one.
func endWithReset(q *request, reset bool) {
	const ordinary = -1
	if q.http.ProtoAtLeast(1, 1) {
		return
	}
	if c, ok := connectionOf[interface{ SetLinger(sec int) error }](q); ok {
		linger := ordinary
		if reset {
			linger = 0
		}
		_ = c.SetLinger(linger) // of a connection that has gone, perhaps
	}
}

// connectionOf finds the request's connection of a kind, which may lie below others, such
// as one of TLS.
func connectionOf[T any](ctx context.Context) (found T, ok bool) {
	conn, _ := ctx.Value(connectionKey{}).(net.Conn)
	for conn != nil {
		if found, ok = conn.(T); ok {
			return found, true
		}
		above, ok := conn.(interface{ NetConn() net.Conn })
		if !ok {
			break
		}
		conn = above.NetConn()
	}
	return found, false
}

// placer is a connection that bounds the requests under way on it whose caller is not
// known yet; *connlimit.Conn is one.
type placer interface {
	TakePlace() (release func(), ok bool)
}

// takePlace bounds what callers can have under way before their keys are checked. Over
// HTTP/1 the bound on connections does that; over HTTP/2 each request counts as one.
func takePlace(r *http.Request) (release func(), ok bool) {
	if r.ProtoMajor < 2 {
		return func() {}, true
	}
	if c, found := connectionOf[placer](r.Context()); found {
		return c.TakePlace()
	}
	return func() {}, true
}
