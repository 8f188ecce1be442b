package dispatch

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/ledgerfeed/ledgerfeed/delivery/dispatch/scheduler"
	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/internal/flow"
)

// loop owns the scheduler: it passes events to it and carries out its effects.
// Effects that wait for the database run in goroutines, which answer with an
// event. The scheduler bounds how many there are.
type loop struct {
	*Dispatcher
	scheduler *scheduler.Scheduler
	out       chan<- *message.Message
	starts    []*scheduler.Attempt // to be handed to the Router
	next      *work                // the first of them
	message   *message.Message     // the message of next

	lasting   context.Context // outlives the Router's context
	reading   context.Context // for work that has no use after the last attempt
	stopRead  context.CancelFunc
	recording context.Context // for work that must finish before the end
	draining  bool

	awaits, reads, writes sync.WaitGroup
}

// run delivers until stop closes or ctx ends, and then winds down: it starts no attempts, waits
// until those in flight are recorded, and gives up its webhooks and the lease.
func (d *Dispatcher) run(ctx context.Context, stop <-chan struct{}, lease string, out chan<- *message.Message) {
	lasting := context.WithoutCancel(ctx)
	reading, stopRead := context.WithCancel(lasting)
	defer stopRead()
	recording, stopRecord := context.WithCancel(lasting)
	defer stopRecord()
	keeping, stopKeep := context.WithCancel(lasting)
	defer stopKeep()

	l := &loop{
		Dispatcher: d, out: out, lasting: lasting, reading: reading, stopRead: stopRead, recording: recording,
		scheduler: scheduler.New(scheduler.Config{
			Retention: d.cfg.Settings.Retention,
			Policy:    d.cfg.Settings.Policy(), Bound: d.cfg.Bound, Limit: d.cfg.Limit, CostlyPerSecond: d.cfg.CostlyPerSecond,
			Idle: d.cfg.Idle, LeaseUse: d.store.leaseTime - d.cfg.Settings.Timeout, CoolDown: 2 * d.store.leaseTime / renewals,
		}),
	}
	keep(&d.lease, lease)
	var background, keeper sync.WaitGroup
	background.Go(func() { d.listen(reading) })
	background.Go(func() { d.sweep(reading) })
	background.Go(func() { d.maintainAlways(reading) })
	background.Go(func() { d.mailer.Run(reading) })
	keeper.Go(func() { lease = d.keepLease(keeping, lease) })

	l.step(scheduler.LeaseTaken{Lease: lease, At: d.clock()})
	l.deliver(ctx, stop)
	stopRead()
	timeout := time.AfterFunc(closeTimeout, stopRecord)
	defer timeout.Stop()
	l.finish()
	close(d.ended)
	background.Wait()
	l.reads.Wait()
	l.writes.Wait()
	l.awaits.Wait()
	stopKeep()
	keeper.Wait()
	releasing, cancel := context.WithTimeout(lasting, releaseTimeout)
	defer cancel()
	if err := d.store.dropLease(releasing, lease); err != nil {
		d.logger.WarnContext(ctx, "cannot give up the lease for delivering; other processes take over when it ends", "error", err)
	}
}

// deliver runs the loop until it is told to stop and no attempt is in flight.
func (l *loop) deliver(ctx context.Context, stop <-chan struct{}) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	ending := ctx.Done()
	for !l.draining || l.scheduler.InFlight() > 0 {
		var out chan<- *message.Message
		if l.next != nil {
			out = l.out
		}
		select {
		case e := <-l.events:
			l.step(l.received(e)...)
		case out <- l.message:
			l.accepted()
			continue // nothing that the scheduler needs to know
		case <-timer.C:
			l.step(scheduler.Tick{})
		case reply := <-l.stats:
			reply <- l.scheduler.Stats(l.clock())
			continue
		case <-ending:
			ending, stop = nil, nil
			l.drain()
		case <-stop:
			ending, stop = nil, nil
			l.drain()
		}
		now := l.clock()
		timer.Reset(max(l.scheduler.NextTick(now).Sub(now), 0))
	}
}

// finish runs the loop until everything is recorded and released.
func (l *loop) finish() {
	l.step(scheduler.Tick{})
	for !l.scheduler.Done() {
		select {
		case e := <-l.events:
			l.step(l.received(e)...)
		case reply := <-l.stats:
			reply <- l.scheduler.Stats(l.clock())
		}
	}
}

// received returns an event and the events that wait behind it, so that one step handles all of
// them.
func (l *loop) received(first scheduler.Event) []scheduler.Event {
	events := []scheduler.Event{first}
	for len(events) < cap(l.events) {
		select {
		case e := <-l.events:
			events = append(events, e)
		default:
			return events
		}
	}
	return events
}

// drain starts no more attempts, and returns those that the Router was not given yet.
func (l *loop) drain() {
	l.draining = true
	events := []scheduler.Event{scheduler.Drain{}}
	if l.next != nil {
		events = append(events, scheduler.Returned{Attempt: l.next.attempt})
	}
	for _, a := range l.starts {
		events = append(events, scheduler.Returned{Attempt: a})
	}
	l.next, l.message, l.starts = nil, nil, nil
	l.step(events...)
}

// accepted is called when the Router has taken the next message.
func (l *loop) accepted() {
	w, msg := l.next, l.message
	l.awaits.Go(func() { l.await(l.lasting, w, msg) })
	l.next, l.message = nil, nil
	l.prepareNext()
}

// prepareNext makes the message of the next attempt.
func (l *loop) prepareNext() {
	if l.next != nil || len(l.starts) == 0 {
		return
	}
	l.next = &work{attempt: l.starts[0]}
	l.message = l.next.message(l.lasting)
	l.starts[0] = nil
	l.starts = l.starts[1:]
}

func (l *loop) step(events ...scheduler.Event) {
	for _, effect := range l.scheduler.Step(l.clock(), events...) {
		l.carryOut(effect)
	}
	l.prepareNext()
}

func (l *loop) carryOut(effect scheduler.Effect) {
	switch e := effect.(type) {
	case scheduler.Start:
		l.starts = append(l.starts, e.Attempt)
	case *scheduler.Poll:
		l.reads.Go(func() { l.post(l.poll(l.reading, e)) })
	case *scheduler.Claim:
		l.reads.Go(func() { l.post(l.claim(l.reading, e)) })
	case scheduler.Reconcile:
		l.reads.Go(func() { l.post(l.reconcile(l.reading, e)) })
	case *scheduler.Record:
		l.writes.Go(func() { l.record(l.recording, e) })
	case scheduler.ChangeHealth:
		l.writes.Go(func() { l.post(l.changeHealth(l.recording, e.Change)) })
	case scheduler.TakeLease:
		l.takeLease <- e.Old // its buffer has room: a lease is lost only once
	case scheduler.Notify:
		l.notify(eventlog.TopicProjected, e.WorkspaceIDs...)
	case scheduler.Paused:
		k := e.Attempt.Key()
		l.logger.ErrorContext(l.lasting, "cannot attempt a delivery; pausing its webhook",
			"workspace", k.WorkspaceID, "webhook", k.WebhookID, "event", e.Attempt.EventID, "error", e.Err, "pause", e.Pause)
	}
}

// outages logs one line when work that a Dispatcher repeats begins to fail, and one when it works
// again.
type outages struct {
	searching, claiming, reading, renewing, taking flow.Outage
}

func newOutages(logger *slog.Logger) *outages {
	o := &outages{}
	for _, of := range []struct {
		outage           *flow.Outage
		failing, working string
	}{
		{&o.searching, "cannot search for webhooks with something to deliver; trying again until it works", "the search for webhooks with something to deliver works again"},
		{&o.claiming, "cannot claim webhooks; trying again until it works", "webhooks are claimed again"},
		{&o.reading, "cannot read what is to be delivered; trying again until it works", "what is to be delivered is read again"},
		{&o.renewing, "cannot renew the lease for delivering; trying again until it works", "the lease for delivering is renewed again"},
		{&o.taking, "cannot take a lease for delivering; trying again until it works", "there is a lease for delivering again"},
	} {
		of.outage.Logger, of.outage.Failing, of.outage.Working = logger, of.failing, of.working
	}
	return o
}
