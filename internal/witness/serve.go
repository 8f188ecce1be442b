package witness

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"golang.org/x/net/netutil"
)

const (
	// maxConnections bounds the connections at a time; others wait.
	maxConnections = 256
	// requestTimeout bounds reading a request, and answering it.
	requestTimeout = 30 * time.Second
	headerTimeout  = 10 * time.Second
	idleTimeout    = 2 * time.Minute
	maxHeader      = 16 << 10 // bytes
	// shutdownTimeout bounds the wait for requests under way at the end.
	shutdownTimeout = 15 * time.Second
)

// Serve answers requests until ctx ends, and then those that are under way.
func (w *Witness) Serve(ctx context.Context, bound net.Listener) error {
	server := &http.Server{
		Handler: w.Handler(), ReadTimeout: requestTimeout, ReadHeaderTimeout: headerTimeout, WriteTimeout: 2 * requestTimeout,
		IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeader, ErrorLog: slog.NewLogLogger(w.logger.Handler(), slog.LevelDebug),
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(netutil.LimitListener(bound, maxConnections)) }()
	select {
	case err := <-ended:
		return fmt.Errorf("serve: %w", err)
	case <-ctx.Done():
	}
	shutdown, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
	defer cancel()
	if err := server.Shutdown(shutdown); err != nil {
		w.logger.WarnContext(ctx, "requests were cut off", "error", err)
		_ = server.Close()
	}
	if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve: %w", err)
	}
	return nil
}
