package relay

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/ledgerfeed/ledgerfeed/eventlog"
)

// errEnded is why sending stops before the end of a segment although nothing is wrong.
var errEnded = errors.New("the claim ends")

// handle is the Router's handler: it sends a claim, all of its workspaces at the same
// time, and shortens it to what the broker has stored.
func (r *Relay) handle(msg *message.Message) error {
	claim, err := eventlog.ClaimOf(msg)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(msg.Context(), claimTimeout, errEnded)
	defer cancel()
	go func() {
		select {
		case <-claim.Stopping:
			cancel()
		case <-ctx.Done():
		}
	}()
	outcomes := make([]outcome, len(claim.Segments))
	var wait sync.WaitGroup
	for i := range claim.Segments {
		wait.Go(func() { outcomes[i] = r.send(ctx, &claim.Segments[i]) })
	}
	wait.Wait()
	return r.settle(msg.Context(), claim, outcomes)
}

// outcome is how the sending of a segment ended.
type outcome struct {
	workspaceID string
	next        int64 // the first position that was not sent
	moved       bool  // something was sent
	err         error // why not all of it was; nil: all was
}

// send sends the entries of a segment, one after the other.
func (r *Relay) send(ctx context.Context, s *eventlog.Segment) outcome {
	for i := range s.Entries {
		e := &s.Entries[i]
		var public string
		if s.Public != nil {
			public = s.Public[i]
		}
		if err := ctx.Err(); err != nil {
			return outcome{s.WorkspaceID, e.Position, i > 0, errEnded}
		}
		msg, err := r.format.message(e, public)
		if err == nil && msg != nil {
			began := time.Now() // not of the injected clock: it measures the broker
			err = r.publisher.Publish(s.WorkspaceID, msg)
			r.metrics.observe(time.Since(began), err)
		}
		if err != nil {
			return outcome{s.WorkspaceID, e.Position, i > 0, fmt.Errorf("send position %d: %w", e.Position, err)}
		}
	}
	return outcome{workspaceID: s.WorkspaceID}
}

// settle shortens a claim to what was sent. Where the broker is away, what was not sent is
// claimed again when it is back; otherwise the workspaces that could not be sent are left
// to the worker for failing ones. The error is the failure of the only workspace.
func (r *Relay) settle(ctx context.Context, claim *eventlog.Claim, outcomes []outcome) error {
	away, known := false, false
	for _, o := range outcomes {
		if o.err == nil {
			continue
		}
		ended := errors.Is(o.err, errEnded)
		if !ended && !known {
			away, known = !r.gate.check(ctx), true
		}
		switch {
		case ended || away:
			claim.Shorten(o.workspaceID, o.next)
		case claim.Solo && !o.moved:
			return o.err
		default:
			claim.LeaveFrom(o.workspaceID, o.next)
		}
	}
	return nil
}
