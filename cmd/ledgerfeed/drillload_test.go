//go:build outside && unix

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/internal/flow"
	"github.com/ledgerfeed/ledgerfeed/internal/scenario"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

// drillProducer appends the entries of one workspace until it is told to stop, or the
// database is gone, and keeps what it appended, with the ids.
type drillProducer struct {
	workspaceID string
	lines       [][]byte
	drafts      []domain.Draft

	mu           sync.Mutex
	begun, acked int // entries whose append has begun, and those that were acknowledged
}

// drillPace is the time between a producer's batches.
const drillPace = 15 * time.Millisecond

func newDrillProducer(t *testing.T, n int) *drillProducer {
	t.Helper()
	p := &drillProducer{workspaceID: fmt.Sprintf("agency-%d", n)}
	end := time.Date(2026, 2, 20, 0, 0, 0, 0, time.UTC)
	g := scenario.New(scenario.Config{
		WorkspaceID: p.workspaceID, Seed: uint64(n + 1), Start: end.AddDate(0, 0, -35), End: end, Entries: 15_000, Clients: 40, Contractors: 20,
	})
	for line, ok := g.Next(); ok; line, ok = g.Next() {
		// Appended now, so that it is an event of now.
		var entry map[string]json.RawMessage
		if err := json.Unmarshal(line.AppendNDJSON(nil), &entry); err != nil {
			t.Fatal(err)
		}
		delete(entry, "created_at")
		text := testkit.Must(json.Marshal(entry))(t)
		p.lines = append(p.lines, text)
		p.drafts = append(p.drafts, testkit.Must(domain.DecodeDraft(text))(t))
	}
	return p
}

// run appends batches of 1 to 12 entries.
func (p *drillProducer) run(ctx context.Context, log *eventlog.Log, stop <-chan struct{}) error {
	for size := 1; p.begun < len(p.drafts); size = size%12 + 1 {
		from, to := p.begun, min(p.begun+size, len(p.drafts))
		p.mu.Lock()
		p.begun = to
		p.mu.Unlock()
		receipts, err := log.Append(ctx, p.drafts[from:to]...)
		if err != nil {
			return err
		}
		if last := receipts[len(receipts)-1].Position; last != int64(to) {
			return fmt.Errorf("%s: entry %d is at position %d", p.workspaceID, to, last)
		}
		p.mu.Lock()
		p.acked = to
		p.mu.Unlock()
		select {
		case <-stop:
			return nil
		default:
			flow.Sleep(ctx, drillPace)
		}
	}
	return fmt.Errorf("%s has no more entries to append: the drill needs a longer history", p.workspaceID)
}

func (p *drillProducer) counts() (begun, acked int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.begun, p.acked
}

// offered is everything that the producer ever tried to append.
func (p *drillProducer) offered() []byte {
	begun, _ := p.counts()
	return append(bytes.Join(p.lines[:begun], []byte{'\n'}), '\n')
}

// drillMoment is a time, with what must be in the log that is restored to it and what
// cannot.
type drillMoment struct {
	at           string
	least, utter map[string]int // entries by workspace: acknowledged before, begun before
}

// note notes what has been done, lets time pass by do, and notes what has been begun.
func note(producers []*drillProducer, do func() string) drillMoment {
	m := drillMoment{least: map[string]int{}, utter: map[string]int{}}
	for _, p := range producers {
		_, m.least[p.workspaceID] = p.counts()
	}
	m.at = do()
	for _, p := range producers {
		m.utter[p.workspaceID], _ = p.counts()
	}
	return m
}

// appended waits until every producer has appended so many entries more.
func appendedMore(t *testing.T, producers []*drillProducer, n int) {
	t.Helper()
	for _, p := range producers {
		_, before := p.counts()
		testkit.Eventually(t, func() error {
			if _, now := p.counts(); now < before+n {
				return fmt.Errorf("%s has appended %d entries, want %d", p.workspaceID, now, before+n)
			}
			return nil
		})
	}
}
