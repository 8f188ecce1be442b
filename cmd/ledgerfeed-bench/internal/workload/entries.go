// Package workload fills logs with entries, projects them, and measures the same work in plain SQL,
// as the limit to compare with.
package workload

import (
	"context"
	"fmt"
	"time"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed-bench/internal/measure"
	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/internal/scenario"
)

// WorkspaceID is the id of the i-th workspace of a benchmark.
func WorkspaceID(i int) string { return fmt.Sprintf("workspace-%05d", i) }

// Reversed is a small entry that is published as an event.
func Reversed(workspaceID, id string) domain.Draft {
	d, err := domain.NewDraft(workspaceID, "invoice.reversed", []byte(`{"invoice_id":"in_1"}`))
	if err != nil {
		panic(err) // the data above is right
	}
	d.ID = id
	return d
}

// Samples are realistic drafts without id and publish time, to be appended in any
// workspace and order.
func Samples(n int) ([]domain.Draft, error) {
	drafts, err := newStream("w", 1, n).next(n)
	unpublished(drafts)
	return drafts, err
}

// Fill appends the history of many workspaces.
func Fill(ctx context.Context, db *measure.Database, workspaces, each int) error {
	db.Say("appending a backlog of %d workspaces with %d entries each", workspaces, each)
	const batch = 1000
	var drafts []domain.Draft
	for w := range workspaces {
		stream := newStream(WorkspaceID(w), w+1, each)
		for {
			more, err := stream.next(batch)
			if err != nil {
				return err
			}
			if drafts = append(drafts, more...); len(drafts) >= batch {
				if _, err := db.Log.Append(ctx, drafts...); err != nil {
					return err
				}
				drafts = drafts[:0]
			}
			if len(more) < batch {
				break
			}
		}
	}
	if _, err := db.Log.Append(ctx, drafts...); err != nil {
		return err
	}
	return db.Quiesce(ctx)
}

// unpublished removes the ids and publish times of drafts.
func unpublished(drafts []domain.Draft) {
	for i := range drafts {
		drafts[i].ID, drafts[i].CreatedAt = "", time.Time{}
	}
}

// stream gives realistic entries of one workspace.
type stream struct {
	generator *scenario.Generator
	line      []byte
}

func newStream(workspaceID string, seed, entries int) *stream {
	end := time.Now().UTC().Truncate(24 * time.Hour)
	return &stream{generator: scenario.New(scenario.Config{
		WorkspaceID: workspaceID, Seed: uint64(seed), Start: end.AddDate(-2, 0, 0), End: end, Entries: entries,
	})}
}

// next returns up to n further drafts.
func (s *stream) next(n int) ([]domain.Draft, error) {
	drafts := make([]domain.Draft, 0, n)
	for len(drafts) < n {
		l, ok := s.generator.Next()
		if !ok {
			break
		}
		s.line = l.AppendNDJSON(s.line[:0])
		d, err := domain.DecodeDraft(s.line)
		if err != nil {
			return nil, fmt.Errorf("cannot make entries to measure with: %w", err)
		}
		drafts = append(drafts, d)
	}
	return drafts, nil
}
