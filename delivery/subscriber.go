package delivery

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/ledgerfeed/ledgerfeed/internal/flow"
)

// closePatience bounds what is done after the last attempt has ended.
const closePatience = 15 * time.Second

// subscriber gives the Watermill Router its messages: one is one attempt of one
// delivery, see flow.Work. Ack means that the attempt was made, whatever came of
// it: it is judged and recorded. Nack means that it could not be made, for a
// reason that is not the receiver's: its webhook pauses, and it is made again.
type subscriber struct {
	engine *Engine
	stop   chan struct{} // closed by Close
	once   sync.Once
	done   sync.WaitGroup
}

// Subscribe starts delivering. It ends when ctx does or at Close.
func (s *subscriber) Subscribe(ctx context.Context, _ string) (<-chan *message.Message, error) {
	first := false
	s.engine.subscribe.Do(func() { first = true })
	if !first {
		return nil, errors.New("an engine runs once")
	}
	if err := s.engine.rows.enlist(ctx); err != nil {
		return nil, err
	}
	s.engine.keptLease()
	s.engine.upkeepOnce(ctx) // before anything is recorded, so that there is a day for it
	out := make(chan *message.Message)
	s.done.Go(func() {
		defer close(out)
		s.engine.deliver(ctx, s.stop, out)
	})
	return out, nil
}

// Close stops starting attempts, waits until those under way are over and
// recorded, and returns.
func (s *subscriber) Close() error {
	s.once.Do(func() { close(s.stop) })
	s.done.Wait()
	return nil
}

// deliver runs everything, and winds it down in order.
func (e *Engine) deliver(ctx context.Context, stop <-chan struct{}, out chan<- *message.Message) {
	starting, stopStarting := context.WithCancel(ctx)
	defer stopStarting()
	lasting := context.WithoutCancel(ctx) // outlives the Router's
	working, stopWorking := context.WithCancel(lasting)
	defer stopWorking()
	recording, stopRecording := context.WithCancel(lasting)
	defer stopRecording()

	var workers, watchers, recorder, keeper sync.WaitGroup
	drained := make(chan struct{})
	for range readers {
		workers.Go(func() { e.read(working) })
	}
	workers.Go(func() { e.claims(working) })
	workers.Go(func() { e.listen(working) })
	workers.Go(func() { e.sweep(working) })
	workers.Go(func() { e.tick(working) })
	workers.Go(func() { e.upkeep(working) })
	workers.Go(func() { e.mailer.run(working) })
	keeping, stopKeeping := context.WithCancel(lasting)
	defer stopKeeping()
	keeper.Go(func() { e.keepLease(keeping) })
	recorder.Go(func() { e.record(recording, drained) })
	workers.Go(func() {
		select {
		case <-stop:
			stopStarting()
		case <-starting.Done():
		}
	})

	e.start(starting, lasting, out, &watchers)

	watchers.Wait() // each attempt has its deadline
	stopWorking()
	workers.Wait()
	patience := time.AfterFunc(closePatience, stopRecording)
	defer patience.Stop()
	e.desk.close()
	close(drained)
	recorder.Wait()
	e.group.Wait()
	stopKeeping()
	keeper.Wait()
	retiring, cancel := context.WithTimeout(lasting, closePatience)
	defer cancel()
	if err := e.rows.retire(retiring); err != nil {
		e.logger.WarnContext(ctx, "the lease could not be given up; it ends by itself", "error", err)
	}
}

// start hands one attempt after the other to the Router until ctx ends.
func (e *Engine) start(ctx, lasting context.Context, out chan<- *message.Message, watchers *sync.WaitGroup) {
	for {
		j := e.desk.next(ctx)
		if j == nil {
			if ctx.Err() != nil {
				return
			}
			continue
		}
		for !e.mayStart() {
			if !flow.Pause(ctx, retryPause) {
				break
			}
		}
		msg := j.message(lasting)
		select {
		case out <- msg:
		case <-ctx.Done():
			e.desk.cancel(j)
			return
		}
		watchers.Go(func() { e.await(lasting, j, msg) })
	}
}

// await sees to a message when the Router is done with it.
func (e *Engine) await(ctx context.Context, j *job, msg *message.Message) {
	select {
	case <-msg.Acked():
		e.metrics.attempt(j)
		e.log(ctx, j)
		e.desk.finish(j)
	case <-msg.Nacked():
		err := j.err
		if err == nil {
			err = errors.New("the handler refused it without a reason")
		}
		wait := e.desk.giveBack(j)
		e.logger.ErrorContext(ctx, "a delivery could not be attempted; its webhook pauses",
			"workspace", j.lane.key.workspaceID, "webhook", j.lane.key.webhookID, "event", j.eventID, "error", err, "pause", wait)
	}
}

// cancel undoes next.
func (d *desk) cancel(j *job) {
	d.mu.Lock()
	defer d.mu.Unlock()
	j.lane.putBack(j)
	d.underWay--
}

// close lets everything go.
func (d *desk) close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
	d.turns = nil // nothing is started any more
	for _, l := range d.lanes {
		d.leave(l)
	}
	nudge(d.recording)
}
