package dispatch

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgconn"
	"go.opentelemetry.io/otel/trace"

	"github.com/ledgerfeed/ledgerfeed/delivery/attempt"
	"github.com/ledgerfeed/ledgerfeed/delivery/dispatch/scheduler"
	"github.com/ledgerfeed/ledgerfeed/internal/flow"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
)

// work is what a message of the Router stands for: one attempt of one delivery.
type work struct {
	attempt *scheduler.Attempt
	result  attempt.Result // set by the handler
	err     error          // why the handler could not make the attempt
	span    trace.Span     // nil: none
}

// KeepError keeps the handler's error, which Nack cannot carry.
func (w *work) KeepError(err error) { w.err = err }

// subscriber gives the Watermill Router its messages.
type subscriber struct {
	dispatcher *Dispatcher
	stop       chan struct{} // closed by Close
	once       sync.Once
	done       sync.WaitGroup
}

// Subscribe takes the first lease and starts delivering. Delivering ends when ctx
// does or at Close.
func (s *subscriber) Subscribe(ctx context.Context, _ string) (<-chan *message.Message, error) {
	d := s.dispatcher
	if d.started.Swap(true) {
		return nil, errors.New("a dispatcher runs once")
	}
	lease, err := d.store.takeLease(ctx, d.clock())
	switch {
	case isClockError(err):
		// The other roles go on. Under a lease that the database does not have nothing is
		// claimed, and at its first renewal it is lost, which takes one when it can be had.
		d.logger.ErrorContext(ctx, "cannot deliver", "error", err)
		lease = uuid.NewString()
	case databaseIsAway(err): // likewise, as when it goes away a moment later
		d.outages.taking.Note(ctx, err)
		lease = uuid.NewString()
	case err != nil:
		return nil, err
	default:
		d.maintain(ctx) // before anything is recorded, so that the history has a partition for today
	}
	out := make(chan *message.Message)
	s.done.Go(func() {
		defer close(out)
		d.run(ctx, s.stop, lease, out)
	})
	return out, nil
}

// databaseIsAway reports whether an error is that of a server that ended the connection, is
// starting or stopping, or cannot be reached.
func databaseIsAway(err error) bool {
	if of, ok := errors.AsType[*pgconn.PgError](err); ok {
		return strings.HasPrefix(of.Code, "08") || strings.HasPrefix(of.Code, "57P")
	}
	_, network := errors.AsType[net.Error](err)
	return network || pg.CannotConnect(err) || pgconn.SafeToRetry(err) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}

// Close stops starting attempts, waits until those under way are recorded, and
// returns.
func (s *subscriber) Close() error {
	s.once.Do(func() { close(s.stop) })
	s.done.Wait()
	return nil
}

// await reports the result of an attempt when the Router is done with it.
func (d *Dispatcher) await(ctx context.Context, w *work, msg *message.Message) {
	select {
	case <-msg.Acked():
		if w.span != nil {
			ctx = trace.ContextWithSpan(ctx, w.span)
		}
		d.metrics.attempted(ctx, &w.result)
		d.logAttempt(ctx, w)
		d.post(scheduler.Attempted{Attempt: w.attempt, Result: w.result})
	case <-msg.Nacked():
		if w.err == nil {
			w.err = errors.New("the handler failed without an error")
		}
		d.post(scheduler.NotAttempted{Attempt: w.attempt, Err: w.err})
	}
}

// message is the work as the Router gets it.
func (w *work) message(ctx context.Context) *message.Message {
	return flow.Message(ctx, w.attempt.DeliveryID(), w.attempt.Body, w)
}
