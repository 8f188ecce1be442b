package readapi

import (
	"log/slog"
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
		// OPTIONS * is an unknown path like any other.
		DisableGeneralOptionsHandler: true,
	}
}
