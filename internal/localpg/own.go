//go:build unix

package localpg

import (
	"context"
	"errors"
	"fmt"
	"os"
)

// owned is a hold on a server that this process runs.
type owned struct {
	setup   *setup
	lock    *lock
	process *postmaster
}

// own starts the server under lock l. If that fails, it releases l.
func (s *setup) own(ctx context.Context, l *lock) (hold, error) {
	process, err := s.startPostgres(ctx, l)
	if err != nil {
		return nil, errors.Join(err, l.release())
	}
	return &owned{setup: s, lock: l, process: process}, nil
}

func (o *owned) wait(ctx context.Context) error {
	select {
	case <-o.process.exited:
		return fmt.Errorf("the local PostgreSQL in %s ended unexpectedly: %w", o.setup.place.dir, o.process.failure())
	case <-ctx.Done():
		return nil
	}
}

// release waits for joined programs (awaitJoined) and then stops the server. If ctx is done first,
// the server continues to stop and keeps the lock until it has.
func (o *owned) release(ctx context.Context) error {
	conn := o.setup.awaitJoined(ctx)
	err := o.process.stop(ctx)
	if conn != nil {
		_ = conn.Close(ctx)
	}
	if p := o.setup.place; p.sockets() != p.dir {
		_ = os.RemoveAll(p.sockets())
	}
	return errors.Join(err, o.lock.release())
}
