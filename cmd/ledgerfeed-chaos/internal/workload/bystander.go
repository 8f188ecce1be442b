//go:build linux

package workload

import (
	"context"
	"sync"
	"time"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed-chaos/internal/check"
	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/internal/flow"
)

// Canary is the workspace of which small entries are appended all the time, singly,
// to see what others feel of a fault that is not theirs.
const Canary = "canary"

// Bystander appends to the canary's workspace, which no fault is about, and sees how
// long that takes, and how long until the receiver has the event.
type Bystander struct {
	*env

	log    *eventlog.Log // the one of producers
	source *source
	inbox  *check.Inbox

	mu      sync.Mutex
	samples []check.Sample
}

const bystandEvery = 400 * time.Millisecond

func (b *Bystander) run(ctx context.Context) {
	var waiting sync.WaitGroup
	defer waiting.Wait()
	for flow.Sleep(ctx, bystandEvery) {
		drafts, err := b.source.next(1)
		if err != nil {
			return
		}
		offers := b.history.Offer("canary", time.Now(), false, drafts)
		began := time.Now()
		err = b.gate.pass(context.WithoutCancel(ctx), tryTimeout, func(ctx context.Context) error {
			offers[0].Tries++
			receipts, err := b.log.Append(ctx, drafts...)
			if err == nil {
				b.history.Acknowledge(offers[0], time.Now(), receipts[0].Position)
			}
			return err
		})
		s := check.Sample{At: began, Acknowledged: time.Since(began), Failed: err != nil}
		if err != nil || drafts[0].PublicData() == "" {
			b.add(s)
			continue
		}
		waiting.Go(func() { b.await(ctx, drafts[0].ID, s) })
	}
}

// await waits until the receiver has the event.
func (b *Bystander) await(ctx context.Context, id string, s check.Sample) {
	for !b.inbox.Has(id) {
		if !flow.Sleep(ctx, 20*time.Millisecond) {
			return
		}
	}
	s.Delivered = time.Since(s.At)
	b.add(s)
}

func (b *Bystander) add(s check.Sample) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.samples = append(b.samples, s)
}

// Samples are what the bystander has seen.
func (b *Bystander) Samples() []check.Sample {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]check.Sample(nil), b.samples...)
}
