package readapi

import (
	"log/slog"
	"net/http"
	"time"
)

// MaxHeaderBytes is how large the request line and headers of a request may be
// together. The server itself gives up reading at four times as much.
const MaxHeaderBytes = 16 << 10

// Times that bound what a slow caller can hold.
const (
	readHeaderTimeout = 5 * time.Second
	readTimeout       = 10 * time.Second
	writeTimeout      = 30 * time.Second
	idleTimeout       = 2 * time.Minute
)

// NewServer makes the server for an API: every time and size that a caller has
// influence on is bounded. Serve it on a listener that API.Guard wraps.
func NewServer(api *API, logger *slog.Logger) *http.Server {
	return &http.Server{
		Handler:           api,
		ReadHeaderTimeout: readHeaderTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    4 * MaxHeaderBytes,
		ErrorLog:          slog.NewLogLogger(logger.Handler(), slog.LevelDebug),
		// OPTIONS * is a path like any other.
		DisableGeneralOptionsHandler: true,
	}
}
