package projections

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/semaphore"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/eventlog"
)

// ReplaySettings are the run-time parameters for connections that replay:
// like PoolSettings, and pages are always read along their key.
func ReplaySettings() map[string]string {
	s := PoolSettings()
	s["enable_bitmapscan"] = "off"
	s["enable_sort"] = "off"
	return s
}

// DefaultReplayWorkers is how many workspaces a Replay has under way at once.
const DefaultReplayWorkers = 2

// ReplayConfig of a Replay.
type ReplayConfig struct {
	Pool  *pgxpool.Pool // opened with ReplaySettings; at least 2*Workers+1 connections. Fresh tables take one more each, of the same configuration
	Clock func() time.Time

	Notify  eventlog.NotifyFunc // told of workspaces whose rows a rebuild has changed; nil: nobody waits
	Rules   Rules               // default LiveRules
	Workers int                 // workspaces under way at once; default DefaultReplayWorkers
	Memory  int64               // bytes that the workspaces under way may hold, by estimate; default 256 MiB. A larger one is folded into fresh tables
	Meter   *Meter              // counts the work; nil: nobody looks

	// Pace is asked before n more entries or rows are taken, and waits as long
	// as it wants them to come slowly; nil: at full speed. Those of fresh tables
	// count freshCost times.
	Pace func(ctx context.Context, n int) error
}

// Replay folds the logs of workspaces beside the read tables, by the rules of
// the projector, to compare those with, to repair them, or to explain a row. It
// only ever reads the log.
type Replay struct {
	cfg    ReplayConfig
	sheets []*sheet
	memory *semaphore.Weighted
}

// NewReplay makes a Replay; it starts nothing and needs no closing.
func NewReplay(cfg ReplayConfig) (*Replay, error) {
	if cfg.Pool == nil || cfg.Clock == nil {
		return nil, errors.New("projections: ReplayConfig needs a Pool and a Clock")
	}
	cfg.Rules = cfg.Rules.orLive()
	if cfg.Workers == 0 {
		cfg.Workers = DefaultReplayWorkers
	}
	if cfg.Memory == 0 {
		cfg.Memory = 256 << 20
	}
	if cfg.Meter == nil {
		cfg.Meter = &Meter{}
	}
	if cfg.Pace == nil {
		cfg.Pace = func(context.Context, int) error { return nil }
	}
	return &Replay{cfg: cfg, sheets: newSheets(newTables(byItsName)), memory: semaphore.NewWeighted(cfg.Memory)}, nil
}

// entryBytes is about what an entry leaves in memory while its workspace is
// folded: measured with realistic logs, where two entries in five make a row.
const entryBytes = 1100

// freshBytes is about what a workspace takes whose rows are in fresh tables: a
// few pages of entries and rows, and what the collector lets lie.
const freshBytes = 32 << 20

// freshCost is how many times the work of memory an entry or a row is that goes
// through fresh tables: 78,000 and 8,400 a second were measured, verifying 200,000
// entries of one workspace.
const freshCost = 8

// each calls do for workspaces side by side, as far as the memory goes. The
// first error stops the rest and is returned.
func (r *Replay) each(ctx context.Context, workspaces []workspaceSize, do func(context.Context, workspaceSize) error) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	queue := make(chan workspaceSize)
	var group sync.WaitGroup
	for range min(r.cfg.Workers, len(workspaces)) {
		group.Go(func() {
			for w := range queue {
				if err := r.within(ctx, w, do); err != nil {
					stop(err)
				}
			}
		})
	}
	for _, w := range workspaces {
		select {
		case queue <- w:
			continue
		case <-ctx.Done():
		}
		break
	}
	close(queue)
	group.Wait()
	return context.Cause(ctx)
}

// within runs do when there is memory for the workspace, or for a part of it
// where all of it is too large.
func (r *Replay) within(ctx context.Context, w workspaceSize, do func(context.Context, workspaceSize) error) error {
	need := w.entries * entryBytes
	if r.tooLarge(w) {
		need = min(freshBytes, r.cfg.Memory)
		r.cfg.Meter.OverMemory.Add(1)
	}
	if err := r.memory.Acquire(ctx, need); err != nil {
		return context.Cause(ctx)
	}
	defer r.memory.Release(need)
	if err := do(ctx, w); err != nil {
		return err
	}
	r.cfg.Meter.WorkspacesDone.Add(1)
	return nil
}

// tooLarge tells whether the rows of a workspace are not for the memory.
func (r *Replay) tooLarge(w workspaceSize) bool { return w.entries*entryBytes > r.cfg.Memory }

// workspaceSize is a workspace and how many entries its log holds.
type workspaceSize struct {
	id      string
	entries int64
}

// sizes lists the workspaces, or the one with the id, and tells the meter. The
// error is an *domain.UnknownWorkspaceError when there is none of that id.
func (r *Replay) sizes(ctx context.Context, workspaceID string) ([]workspaceSize, error) {
	rows, err := r.cfg.Pool.Query(ctx, `
		SELECT workspace_id, position FROM log_head WHERE $1 = '' OR workspace_id = $1 ORDER BY workspace_id`, workspaceID)
	if err != nil {
		return nil, fmt.Errorf("list workspaces: %w", err)
	}
	defer rows.Close()
	var list []workspaceSize
	for rows.Next() {
		var w workspaceSize
		if err := rows.Scan(&w.id, &w.entries); err != nil {
			return nil, fmt.Errorf("list workspaces: %w", err)
		}
		list = append(list, w)
		r.cfg.Meter.Entries.Add(w.entries)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("list workspaces: %w", err)
	}
	if workspaceID != "" && len(list) == 0 {
		return nil, &domain.UnknownWorkspaceError{WorkspaceID: workspaceID}
	}
	r.cfg.Meter.Workspaces.Add(int64(len(list)))
	return list, nil
}
