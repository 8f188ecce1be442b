package projections

import (
	"context"
	"fmt"
	"time"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
)

// Status says how far the read models have come, over all workspaces.
type Status struct {
	Name        string            `json:"name"`
	Position    int64             `json:"position"`    // entries handled, over all workspaces
	Head        int64             `json:"head"`        // entries in the log, over all workspaces
	LagEntries  int64             `json:"lag_entries"` // entries not yet handled
	LagSeconds  float64           `json:"lag_seconds"` // since the oldest of them was appended; 0 when there is none
	Anomalies   int64             `json:"anomalies"`   // a lower bound if anomalies_more is true
	More        bool              `json:"anomalies_more"`
	Quarantined int64             `json:"quarantined"` // workspaces that stopped before an entry that fails
	Skipped     int64             `json:"skipped"`     // entries that an operator made the projector skip
	Rules       int               `json:"rules"`       // version of this program's rules
	OtherRules  int64             `json:"other_rules"` // workspaces with rows made by other rules, which need a rebuild
	Workspaces  []WorkspaceStatus `json:"workspaces"`
}

// WorkspaceStatus says how far the read models of one workspace have come.
type WorkspaceStatus struct {
	WorkspaceID string          `json:"workspace_id"`
	Position    int64           `json:"position"` // the visible position
	Head        int64           `json:"head"`
	LagEntries  int64           `json:"lag_entries"`
	LagSeconds  float64         `json:"lag_seconds"`
	Anomalies   []AnomalyStatus `json:"anomalies"` // the first mostListed of them
	More        bool            `json:"anomalies_more"`
	Quarantined bool            `json:"quarantined"`
	Skipped     int64           `json:"skipped"`
	Rules       int             `json:"rules"` // the oldest version that may have made any of the rows; 0: not known, or no rows yet
	Failures    int             `json:"failures"`
	Error       *string         `json:"error"`
	RetryAt     *time.Time      `json:"retry_at"`
}

// AnomalyStatus is one entry without its full effect.
type AnomalyStatus struct {
	Position int64  `json:"position"`
	EventID  string `json:"event_id"`
	Reason   string `json:"reason"`
}

// ReadStatus reads how far the read models have come, in one workspace or, if workspaceID is empty,
// in all. The error is a *domain.UnknownWorkspaceError if there is no such workspace.
func ReadStatus(ctx context.Context, pool pg.DB, workspaceID string) (*Status, error) {
	progress, err := eventlog.ReadProgress(ctx, pool, eventlog.ReadModels, workspaceID)
	if err != nil {
		return nil, err
	}
	if workspaceID != "" && len(progress) == 0 {
		return nil, &domain.UnknownWorkspaceError{WorkspaceID: workspaceID}
	}
	anomalies, err := readAnomalies(ctx, pool, workspaceID)
	if err != nil {
		return nil, err
	}
	versions, err := readVersions(ctx, pool, workspaceID)
	if err != nil {
		return nil, err
	}
	s := &Status{Name: eventlog.ReadModels, Workspaces: make([]WorkspaceStatus, 0, len(progress))}
	for i := range progress {
		p := &progress[i]
		w := WorkspaceStatus{
			WorkspaceID: p.WorkspaceID, Position: p.Position, Head: p.Head, LagEntries: p.Head - p.Position, LagSeconds: p.Waiting.Seconds(),
			Anomalies: anomalies[p.WorkspaceID], Quarantined: p.Quarantined, Failures: p.Failures,
			Rules: versions[p.WorkspaceID].rules, Skipped: versions[p.WorkspaceID].skipped,
		}
		if w.Anomalies == nil {
			w.Anomalies = []AnomalyStatus{}
		}
		if w.More = len(w.Anomalies) > mostListed; w.More {
			w.Anomalies = w.Anomalies[:mostListed]
		}
		if p.Error != "" {
			w.Error, w.RetryAt = &p.Error, &p.RetryAt
		}
		s.add(&w)
	}
	s.CompareRules(RulesVersion)
	return s, nil
}

// CompareRules sets Rules and OtherRules for a program whose rules have this version.
func (s *Status) CompareRules(version int) {
	s.Rules, s.OtherRules = version, 0
	for i := range s.Workspaces {
		if s.Workspaces[i].Waits(version) {
			s.OtherRules++
		}
	}
}

// Waits reports whether rows of the workspace were made by rules of another version. A workspace
// without rows does not wait.
func (w *WorkspaceStatus) Waits(version int) bool { return w.Position > 0 && w.Rules != version }

// rowsVersion is the version of the rules that made a workspace's rows, and how many entries were
// skipped.
type rowsVersion struct {
	rules   int
	skipped int64
}

func readVersions(ctx context.Context, pool pg.DB, workspaceID string) (map[string]rowsVersion, error) {
	var (
		list = map[string]rowsVersion{}
		w    string
		v    rowsVersion
	)
	if err := pg.ForEach(ctx, pool, `
		SELECT c.workspace_id, c.rules,
		       (SELECT count(*) FROM log_skip s WHERE s.workspace_id = c.workspace_id AND s.consumer = c.consumer)
		  FROM log_checkpoint c WHERE c.consumer = $1 AND ($2 = '' OR c.workspace_id = $2)`,
		[]any{eventlog.ReadModels, workspaceID}, []any{&w, &v.rules, &v.skipped}, func() error {
			list[w] = v
			return nil
		}); err != nil {
		return nil, fmt.Errorf("read by which rules rows were made: %w", err)
	}
	return list, nil
}

func (s *Status) add(w *WorkspaceStatus) {
	s.Position += w.Position
	s.Head += w.Head
	s.LagEntries += w.LagEntries
	s.LagSeconds = max(s.LagSeconds, w.LagSeconds)
	s.Anomalies += int64(len(w.Anomalies))
	s.More = s.More || w.More
	s.Skipped += w.Skipped
	if w.Quarantined {
		s.Quarantined++
	}
	s.Workspaces = append(s.Workspaces, *w)
}

// mostListed is the most anomalies listed per workspace; package anomaly returns all, page by page.
const mostListed = 1000

// readAnomalies returns anomalies by workspace, ordered by position and then by reason. It reads at
// most mostListed+1 per workspace: the last one shows that there are more.
func readAnomalies(ctx context.Context, pool pg.DB, workspaceID string) (map[string][]AnomalyStatus, error) {
	var (
		list = map[string][]AnomalyStatus{}
		w    string
		a    AnomalyStatus
	)
	if err := pg.ForEach(ctx, pool, `
		SELECT c.workspace_id, a.position, a.event_id, a.reason
		  FROM log_checkpoint c
		 CROSS JOIN LATERAL (SELECT * FROM anomaly WHERE workspace_id = c.workspace_id ORDER BY position LIMIT $4) a
		 WHERE c.consumer = $3 AND ($1 = '' OR c.workspace_id = $1)
		 ORDER BY c.workspace_id, a.position,
		       array_position($2::text[], a.reason::text)`,
		[]any{workspaceID, domain.Reasons(), eventlog.ReadModels, mostListed + 1}, []any{&w, &a.Position, &a.EventID, &a.Reason}, func() error {
			list[w] = append(list[w], a)
			return nil
		}); err != nil {
		return nil, fmt.Errorf("read anomalies: %w", err)
	}
	return list, nil
}
