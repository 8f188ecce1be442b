//go:build linux

package workload

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/internal/scenario"
)

// source makes the entries of a workspace: the stories of a living agency, now and
// then with another name for a party or the end of a period, whose effects reach
// many rows.
type source struct {
	workspace string

	mu      sync.Mutex
	living  *scenario.Living
	rng     *rand.Rand
	serial  int
	parties []party
	periods []string
}

// party is a client or contractor as last recorded.
type party struct {
	typ  string
	data []byte
}

func newSource(workspace string, seed uint64) *source {
	end := time.Now().UTC().Truncate(24 * time.Hour)
	return &source{
		workspace: workspace, rng: rand.New(rand.NewPCG(seed, 99)),
		living: scenario.NewLiving(scenario.Config{
			WorkspaceID: workspace, Seed: seed, Start: end.AddDate(0, -1, 0), End: end, Clients: 6, Contractors: 4,
		}, 0),
	}
}

// next returns the next drafts, each with an id.
func (s *source) next(n int) ([]domain.Draft, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	drafts := make([]domain.Draft, 0, n)
	for range n {
		d, err := s.draft()
		if err != nil {
			return nil, err
		}
		drafts = append(drafts, d)
	}
	return drafts, nil
}

func (s *source) draft() (domain.Draft, error) {
	s.serial++
	switch roll := s.rng.IntN(100); {
	case roll < 2 && len(s.parties) > 0:
		return s.rename()
	case roll == 2 && len(s.periods) > 0:
		return s.made("period.closed", fmt.Appendf(nil, `{"period":%q}`, s.periods[s.rng.IntN(len(s.periods))]))
	}
	line := s.living.Next(time.Now())
	switch line.Type {
	case "client.recorded", "contractor.recorded":
		s.parties = append(s.parties, party{line.Type, line.Data})
	case "invoice.recorded":
		var of struct{ Period string }
		if err := json.Unmarshal(line.Data, &of); err == nil && of.Period != "" {
			s.periods = append(s.periods, of.Period)
		}
	}
	d, err := domain.DecodeDraft(line.AppendNDJSON(nil))
	if err != nil {
		return d, fmt.Errorf("the scenario made an entry that is refused: %w", err)
	}
	return d, nil
}

// rename records a party again under another name.
func (s *source) rename() (domain.Draft, error) {
	p := s.parties[s.rng.IntN(len(s.parties))]
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(p.data, &fields); err != nil {
		return domain.Draft{}, fmt.Errorf("cannot read a party: %w", err)
	}
	fields["name"] = json.RawMessage(fmt.Sprintf(`"Renamed %d"`, s.serial))
	data, err := json.Marshal(fields)
	if err != nil {
		return domain.Draft{}, fmt.Errorf("cannot write a party: %w", err)
	}
	return s.made(p.typ, data)
}

func (s *source) made(typ string, data []byte) (domain.Draft, error) {
	d, err := domain.NewDraft(s.workspace, typ, data)
	if err != nil {
		return d, fmt.Errorf("the harness made an entry that is refused: %w", err)
	}
	d.ID = fmt.Sprintf("chaos_%d", s.serial)
	return d, nil
}
