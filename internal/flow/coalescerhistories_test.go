package flow_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/ledgerfeed/ledgerfeed/internal/flow"
)

// history is a random run of a Coalescer in virtual time, in milliseconds.
type history struct {
	concurrent, max int // 0 of max: no bound
	detached        bool
	callers         []*caller
	works           []work // of the first, second, … batch; then from the start

	mu      sync.Mutex
	began   time.Time
	batches []*ran
}

type caller struct {
	arrives int
	leaves  int // 0: never

	batches []*ran // that took its item
	err     error
	ended   int
}

type work struct {
	takes  int
	panics bool
}

// ran is a batch that has run.
type ran struct {
	items        []*caller
	begins, ends int
	panics       bool
}

func drawHistory(t *rapid.T) *history {
	h := &history{
		concurrent: rapid.IntRange(1, 3).Draw(t, "concurrent"),
		max:        rapid.IntRange(0, 4).Draw(t, "max"),
		detached:   rapid.Bool().Draw(t, "detached"),
	}
	at := 0
	for range rapid.IntRange(1, 20).Draw(t, "callers") {
		at += rapid.IntRange(1, 6).Draw(t, "pause")
		c := &caller{arrives: at}
		if rapid.Bool().Draw(t, "leaves") {
			c.leaves = at + rapid.IntRange(1, 20).Draw(t, "stay")
		}
		h.callers = append(h.callers, c)
	}
	h.works = rapid.SliceOfN(rapid.Custom(func(t *rapid.T) work {
		return work{takes: rapid.IntRange(1, 15).Draw(t, "takes"), panics: rapid.IntRange(0, 3).Draw(t, "panics") == 0}
	}), 1, 8).Draw(t, "works")
	return h
}

func (h *history) now() int { return int(time.Since(h.began) / time.Millisecond) }

func millis(n int) time.Duration { return time.Duration(n) * time.Millisecond }

func (h *history) work(_ context.Context, items []*caller) {
	h.mu.Lock()
	w := h.works[len(h.batches)%len(h.works)]
	r := &ran{items: slices.Clone(items), begins: h.now(), panics: w.panics}
	h.batches = append(h.batches, r)
	for _, c := range items {
		c.batches = append(c.batches, r)
	}
	h.mu.Unlock()
	<-time.After(millis(w.takes))
	r.ends = h.now()
	if w.panics {
		panic(errBug)
	}
}

func (h *history) run(t *testing.T) {
	h.began = time.Now()
	coalescer := flow.NewCoalescer(flow.CoalescerConfig[*caller]{
		Run: h.work, Timeout: time.Hour, Concurrent: h.concurrent, Max: h.max, Detached: h.detached,
	})
	var group sync.WaitGroup
	for _, c := range h.callers {
		group.Go(func() {
			<-time.After(millis(c.arrives))
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			if c.leaves > 0 {
				defer time.AfterFunc(millis(c.leaves-c.arrives), func() { cancel(errGone) }).Stop()
			}
			c.err = coalescer.Do(ctx, c)
			c.ended = h.now()
		})
	}
	group.Wait()
	synctest.Wait()
	<-time.After(time.Minute) // detached batches end
}

// TestRandomHistories: whatever comes when, leaves, takes long and panics, every
// caller learns what became of its item, and no item waits without a reason.
func TestRandomHistories(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		h := drawHistory(rt)
		synctest.Test(t, h.run)
		for _, c := range h.callers {
			h.checkCaller(rt, c)
		}
		for _, r := range h.batches {
			h.checkBatch(rt, r)
		}
	})
}

func (h *history) checkCaller(t *rapid.T, c *caller) {
	if len(c.batches) > 1 {
		t.Fatalf("the item of %d is taken %d times", c.arrives, len(c.batches))
	}
	if len(c.batches) == 0 {
		if errors.Is(c.err, flow.ErrOutcomeUnknown) || !errors.Is(c.err, errGone) || c.ended != c.leaves {
			t.Fatalf("the item of %d, which no batch took, ended at %d with %v", c.arrives, c.ended, c.err)
		}
		return
	}
	r := c.batches[0]
	panicked, _ := errors.AsType[*flow.PanicError](c.err)
	switch {
	case errors.Is(c.err, flow.ErrOutcomeUnknown):
		if c.ended != c.leaves || c.ended > r.ends {
			t.Fatalf("the caller of %d left at %d, not at %d", c.arrives, c.ended, c.leaves)
		}
		if !h.detached && r.items[0] == c {
			t.Fatalf("the leader of %d left a batch that is not detached", c.arrives)
		}
	case c.ended != r.ends || r.panics != (panicked != nil) || !r.panics && c.err != nil:
		t.Fatalf("the caller of %d got %v at %d from a batch that ended at %d (panic: %v)", c.arrives, c.err, c.ended, r.ends, r.panics)
	}
	// It waits only while as many batches are under way as may be.
	for at := c.arrives; at < r.begins; at++ {
		if under := h.under(at); under != h.concurrent {
			t.Fatalf("the caller of %d waits at %d, when %d batches are under way", c.arrives, at, under)
		}
	}
}

// under counts the batches under way after a point in time.
func (h *history) under(at int) (n int) {
	for _, r := range h.batches {
		if r.begins <= at && at < r.ends {
			n++
		}
	}
	return n
}

func (h *history) checkBatch(t *rapid.T, r *ran) {
	if h.max > 0 && len(r.items) > h.max {
		t.Fatalf("a batch of %d", len(r.items))
	}
	if n := h.under(r.begins); n > h.concurrent {
		t.Fatalf("%d batches are under way at %d", n, r.begins)
	}
	for i, c := range r.items {
		if r.begins < c.arrives || i > 0 && c.arrives < r.items[i-1].arrives {
			t.Fatalf("the batch of %d took the item of %d out of order", r.begins, c.arrives)
		}
	}
	// A batch takes the oldest, and all that fit.
	last := r.items[len(r.items)-1].arrives
	for _, c := range h.callers {
		waits := c.arrives < r.begins && c.ended > r.begins && (len(c.batches) == 0 || c.batches[0].begins > r.begins)
		if waits && (c.arrives < last || h.max == 0 || len(r.items) < h.max) {
			t.Fatalf("the batch of %d, with %d items up to %d, left out the item of %d", r.begins, len(r.items), last, c.arrives)
		}
	}
}
