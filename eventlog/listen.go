package eventlog

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/internal/flow"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
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
				"by", l.by(), "error", err, "retried_every", retryPause)
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
	f := forwarder{transport: n.transport, conn: conn}
	for {
		received, err := conn.WaitForNotification(ctx)
		if err != nil {
			return true, fmt.Errorf("wait for a notification: %w", err)
		}
		topic := Topic(received.Channel)
		if n.take(topic, received.Payload) && n.transport != nil {
			if err := f.forward(ctx, topic, received.Payload); err != nil {
				return true, err
			}
		}
	}
}

// forwarder passes on, by the transport, what is heard by NOTIFY: that is how producers
// notify which append in transactions of their own or in SQL and know no transport, and a
// process that could not reach it. Of all processes that listen to one server, one does
// that, so that what is sent does not grow with their number squared.
type forwarder struct {
	transport Transport
	conn      *pgx.Conn // holds the lock while it is chosen

	chosen  bool
	tried   time.Time // when it was not chosen last
	outside bool      // then, an account held the lock that passes nothing on
}

// forwardLock is the advisory lock of the session that passes notifications on.
const forwardLock = 0x6c66_666f_7277

// chooseInterval is how long a process that is not chosen does not try to be. When the one
// that is has died, what comes meanwhile is found by sweeps.
const chooseInterval = time.Second

// forward passes a payload on if this process is the one that does. An error is of the
// connection.
func (f *forwarder) forward(ctx context.Context, topic Topic, payload string) error {
	if !f.chosen {
		if time.Since(f.tried) < chooseInterval { // not of the injected clock: it spares the server
			f.sendOutside(ctx, topic, payload)
			return nil
		}
		f.tried, f.outside = time.Now(), false
		if err := f.conn.QueryRow(ctx, `SELECT pg_try_advisory_lock($1)`, forwardLock).Scan(&f.chosen); err != nil {
			return fmt.Errorf("choose who passes notifications on: %w", err)
		}
		if !f.chosen {
			// An account that only appends, or less, must not stop the others by the lock. Then every
			// process passes on what it hears, until that session ends.
			var outside bool
			if err := f.conn.QueryRow(ctx, `SELECT `+pg.OutsidersHold(`has_table_privilege(a.usesysid, 'log_checkpoint', 'UPDATE')`), forwardLock).Scan(&outside); err != nil {
				return fmt.Errorf("find out who passes notifications on: %w", err)
			}
			f.outside = outside
		}
	}
	if !f.chosen {
		f.sendOutside(ctx, topic, payload)
		return nil
	}
	if f.transport.Send(ctx, topic, payload) == nil {
		return nil
	}
	// Another process may reach it.
	f.chosen, f.tried = false, time.Now()
	if _, err := f.conn.Exec(ctx, `SELECT pg_advisory_unlock($1)`, forwardLock); err != nil {
		return fmt.Errorf("leave passing notifications on to others: %w", err)
	}
	return nil
}

// sendOutside passes a payload on where nobody can be chosen. What does not arrive is found by
// sweeps.
func (f *forwarder) sendOutside(ctx context.Context, topic Topic, payload string) {
	if f.outside {
		_ = f.transport.Send(ctx, topic, payload)
	}
}
