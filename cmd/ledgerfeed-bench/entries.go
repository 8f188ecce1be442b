package main

import (
	"fmt"
	"time"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/internal/scenario"
)

// stream gives realistic entries of one workspace, as many as are wanted.
type stream struct {
	generator *scenario.Generator
	line      []byte
}

func newStream(workspaceID string, seed, entries int) (*stream, error) {
	end := time.Now().UTC().Truncate(24 * time.Hour)
	g, err := scenario.New(scenario.Config{
		WorkspaceID: workspaceID, Seed: uint64(seed), Start: end.AddDate(-2, 0, 0), End: end, Entries: entries,
	})
	if err != nil {
		return nil, fmt.Errorf("make entries to measure with: %w", err)
	}
	return &stream{generator: g}, nil
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
			return nil, fmt.Errorf("make entries to measure with: %w", err)
		}
		drafts = append(drafts, d)
	}
	return drafts, nil
}

// samples are drafts without id and publish time, for appends whose place and
// order do not matter.
func samples(n int) ([]domain.Draft, error) {
	s, err := newStream("w", 1, n)
	if err != nil {
		return nil, err
	}
	drafts, err := s.next(n)
	for i := range drafts {
		drafts[i].ID, drafts[i].CreatedAt = "", time.Time{}
	}
	return drafts, err
}

func workspaceName(i int) string { return fmt.Sprintf("workspace-%05d", i) }
