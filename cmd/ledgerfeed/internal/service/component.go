package service

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"
)

// component is something that runs until its context ends.
type component struct {
	name string
	run  func(context.Context) error
}

// group is components that run together.
type group struct {
	ctx    context.Context // ends with stop, or when a component has failed, which is then its cause
	cancel context.CancelCauseFunc
	wait   sync.WaitGroup
}

// start starts components. They run until stop, or until one of them fails; the
// end of ctx does not stop them.
func start(ctx context.Context, components []component) *group {
	working, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	g := &group{ctx: working, cancel: cancel}
	for _, c := range components {
		g.add(c)
	}
	return g
}

// add starts one more component. The group must not be stopping.
func (g *group) add(c component) {
	g.wait.Go(func() {
		err := c.run(g.ctx)
		if err == nil && g.ctx.Err() == nil {
			err = errors.New("stopped unexpectedly")
		}
		if err != nil {
			g.cancel(fmt.Errorf("%s: %w", c.name, err)) // only the first error becomes the cause
		}
	})
}

// errStopped is the cause when no component has failed.
var errStopped = errors.New("stopped")

// stop ends the components, waits for them, and returns the first failure.
func (g *group) stop() error {
	g.cancel(errStopped)
	g.wait.Wait()
	if err := context.Cause(g.ctx); !errors.Is(err, errStopped) {
		return err
	}
	return nil
}

// shutdownTimeout bounds the wait for requests under way at the end.
const shutdownTimeout = 15 * time.Second

// serve serves a listener until ctx ends.
func serve(ctx context.Context, name string, bound net.Listener, server *http.Server, logger *slog.Logger) error {
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(bound) }()
	select {
	case err := <-ended:
		return fmt.Errorf("serve: %w", err)
	case <-ctx.Done():
	}
	shutdown, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
	defer cancel()
	if err := server.Shutdown(shutdown); err != nil {
		logger.WarnContext(ctx, "requests were cut off", "listener", name, "error", err)
		_ = server.Close()
	}
	if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve: %w", err)
	}
	return nil
}
