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
	server := &http.Server{
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
	server.RegisterOnShutdown(api.Drain)
	return server
}

// connectionKey finds a request's connection in its context.
type connectionKey struct{}

// prover is a connection that may be idle for longer once a valid key came over it.
type prover interface{ Prove() }

// proveConnection says that the key of the request is valid. The connection that wants
// to know may lie below others, such as one of TLS.
func (q *request) proveConnection() {
	conn, _ := q.Value(connectionKey{}).(net.Conn)
	for conn != nil {
		if c, ok := conn.(prover); ok {
			c.Prove()
			return
		}
		above, ok := conn.(interface{ NetConn() net.Conn })
		if !ok {
			return
		}
		conn = above.NetConn()
	}
}
