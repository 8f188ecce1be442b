package eventlog

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/internal/flow"
)

// listen receives PostgreSQL's notifications until ctx ends. An interruption is logged once.
func (n *Notifier) listen(ctx context.Context, l *listener) {
	for told := false; ctx.Err() == nil; {
		heard, err := n.listenOnce(ctx, l)
		if ctx.Err() != nil {
			return
		}
		n.interrupted.Add(1)
		l.set(errNoListening) // the address of the database is for the log alone
		if heard || !told {
			n.logger.WarnContext(ctx, "cannot receive notifications of other processes; their changes are found by sweeps until it can",
				"by", WayListen, "error", err, "retried_every", retryPause)
		}
		told = true
		if !flow.Pause(ctx, retryPause) {
			return
		}
	}
}

var errNoListening = errors.New("the connection that listens is lost, or cannot be opened")

// closeTimeout bounds how long a connection that is no longer needed may take to
// close.
const closeTimeout = time.Second

// listenOnce receives notifications until the connection is lost, and reports whether there
// was one.
func (n *Notifier) listenOnce(ctx context.Context, l *listener) (heard bool, err error) {
	conn, err := pgx.ConnectConfig(ctx, l.cfg)
	if err != nil {
		return false, fmt.Errorf("connect: %w", err)
	}
	defer func() {
		closeCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
		defer cancel()
		_ = conn.Close(closeCtx)
	}()
	for _, topic := range topics() {
		if _, err := conn.Exec(ctx, "LISTEN "+string(topic)); err != nil {
			return false, fmt.Errorf("listen: %w", err)
		}
	}
	l.set(nil)
	n.notifyAll()
	for {
		received, err := conn.WaitForNotification(ctx)
		if err != nil {
			return true, fmt.Errorf("wait for a notification: %w", err)
		}
		n.take(Topic(received.Channel), received.Payload)
	}
}
