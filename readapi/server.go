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

// NewServer makes the server of an API, with a bound on every time and size that a
// caller has influence on. It must be served on a listener that API.RewriteErrors
// wraps. It reads headers of up to four times answer.MaxHeaderBytes, so that the API
// itself can refuse most that are too large.
func NewServer(api *API, logger *slog.Logger) *http.Server {
	return &http.Server{
		Handler:           api,
		ReadHeaderTimeout: readHeaderTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    4 * answer.MaxHeaderBytes,
		ErrorLog:          slog.NewLogLogger(logger.Handler(), slog.LevelDebug),
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			return context.WithValue(ctx, connectionKey{}, c)
		},
		// OPTIONS * is an unknown path like any other.
		DisableGeneralOptionsHandler: true,
	}
}

// connectionKey finds a request's connection in its context.
type connectionKey struct{}

// prover is a connection that may be idle for longer once a valid key came over it.
type prover interface{ Prove() }

// proveConnection says that the key of the request is valid.
func (q *request) proveConnection() {
	if c, ok := connectionBelow[prover](q); ok {
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
	if c, ok := connectionBelow[interface{ SetLinger(sec int) error }](q); ok {
		linger := ordinary
		if reset {
			linger = 0
		}
		_ = c.SetLinger(linger) // of a connection that has gone, perhaps
	}
}

// connectionBelow is the request's connection as a T: it, or one that lies below it, such
// as that below one of TLS.
func connectionBelow[T any](q *request) (found T, ok bool) {
	conn, _ := q.Value(connectionKey{}).(net.Conn)
	for conn != nil {
		if c, ok := conn.(T); ok {
			return c, true
		}
		above, ok := conn.(interface{ NetConn() net.Conn })
		if !ok {
			break
		}
		conn = above.NetConn()
	}
	return found, false
}
