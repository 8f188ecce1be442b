package replay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
	"github.com/ledgerfeed/ledgerfeed/projections"
	"github.com/ledgerfeed/ledgerfeed/projections/table"
)

// PoolSettings returns the run-time parameters for the connections of replays: those of the
// projector, except that pages are always read along their key.
func PoolSettings() map[string]string {
	s := projections.PoolSettings()
	s["enable_bitmapscan"] = "off"
	delete(s, "lock_timeout") // a rebuild waits for claims in flight
	return s
}

// DefaultWorkers is how many workspaces a Replayer works on at once.
const DefaultWorkers = 2

// Config configures a Replayer.
type Config struct {
	// Pool is for reads, Changes for transactions during which Pool reads more, and Sessions for
	// the sessions of shadow tables. A nil Changes or Sessions means Pool, which then needs
	// 3*Workers+1 connections. All need PoolSettings.
	Pool, Changes, Sessions pg.DB

	Clock func() time.Time

	Direct string // URL of PostgreSQL itself for shadow tables, if Pool goes through a pooler; empty: the Pool's

	Notify   eventlog.NotifyFunc // called with workspaces whose rows a rebuild has changed; nil: nobody is notified
	Rules    projections.Rules   // default projections.LiveRules
	Workers  int                 // workspaces in progress at once; default DefaultWorkers
	Memory   int64               // estimated bytes that the workspaces in progress may take; default 256 MiB. A larger workspace is folded into shadow tables
	Progress *Progress           // counts the work; may be nil
	MassRows int                 // see projections.Projection

	// Limit is called before n more entries or rows are processed; nil: no limit. In shadow tables,
	// each counts shadowCost times.
	Limit RateLimiter
}

// Replayer verifies, rebuilds and explains read rows. It may be used by several
// goroutines.
type Replayer struct {
	cfg    Config
	tables []*table.Table
	memory *semaphore.Weighted
}

// New makes a Replayer; it starts nothing and needs no closing.
func New(cfg Config) (*Replayer, error) {
	if cfg.Pool == nil || cfg.Clock == nil {
		return nil, errors.New("replay: Config needs a Pool and a Clock")
	}
	cfg.Changes = cmp.Or(cfg.Changes, cfg.Pool)
	cfg.Sessions = cmp.Or(cfg.Sessions, cfg.Pool)
	cfg.Rules = cfg.Rules.OrLive()
	cfg.Workers = cmp.Or(cfg.Workers, DefaultWorkers)
	cfg.Memory = cmp.Or(cfg.Memory, 256<<20)
	cfg.Progress = cmp.Or(cfg.Progress, &Progress{})
	if cfg.Limit == nil {
		cfg.Limit = func(context.Context, int) error { return nil }
	}
	return &Replayer{cfg: cfg, tables: table.NewSet().All(), memory: semaphore.NewWeighted(cfg.Memory)}, nil
}

const (
	// entryBytes is about how much memory an entry takes while its workspace is folded, measured
	// with realistic logs, in which two entries in five make a row.
	entryBytes = 1100

	// shadowBytes is about how much memory a workspace takes if its rows are in shadow tables: a
	// few pages of entries and rows, and garbage not yet collected.
	shadowBytes = 32 << 20

	// shadowCost is how many times slower an entry or a row is in shadow tables than in memory.
	// Verifying 200,000 entries of one workspace ran at 78,000 a second in memory, and at 8,400 a
	// second in shadow tables.
	shadowCost = 8
)

// forEach calls do for all workspaces, or the one with the id, in parallel, and done with every
// result, one call at a time. The first error cancels the rest and is returned; doing names the work
// in it.
func forEach[T any](ctx context.Context, r *Replayer, workspaceID, doing string, do func(context.Context, workspaceSize) (T, error), done func(T)) error {
	list, err := r.sizes(ctx, workspaceID)
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(r.cfg.Workers)
	var mu sync.Mutex
	for _, w := range list {
		group.Go(func() error {
			result, err := do(ctx, w)
			if err != nil {
				return fmt.Errorf("%s %s: %w", doing, w.id, err)
			}
			r.cfg.Progress.WorkspacesDone.Add(1)
			mu.Lock()
			defer mu.Unlock()
			done(result)
			return nil
		})
	}
	return group.Wait()
}

// errOutgrown means that there is no memory for the entries that a workspace got while it was folded.
var errOutgrown = errors.New("the log has outgrown the memory")

// withMemory calls do once there is memory for the workspace, or for its shadow tables if it is too
// large. It calls do again, with shadow tables, after errOutgrown.
func (r *Replayer) withMemory(ctx context.Context, w workspaceSize, do func(context.Context, workspaceSize) error) error {
	if !r.tooLarge(w) {
		if err := r.readBytes(ctx, &w); err != nil {
			return err
		}
	}
	if !r.tooLarge(w) {
		err := r.holding(ctx, w.memory(), func(b *budget) error {
			w.budget = b
			return do(ctx, w)
		})
		if !errors.Is(err, errOutgrown) {
			return err
		}
		r.cfg.Progress.Entries.Add(w.budget.folded.entries) // they are folded again
		w.budget = nil
	}
	r.cfg.Progress.OverMemory.Add(1)
	return r.holding(ctx, min(shadowBytes, r.cfg.Memory), func(*budget) error { return do(ctx, w) })
}

// holding calls do while so many bytes of Config.Memory are held.
func (r *Replayer) holding(ctx context.Context, bytes int64, do func(*budget) error) error {
	if err := r.memory.Acquire(ctx, bytes); err != nil {
		return context.Cause(ctx)
	}
	b := &budget{of: r.memory, held: bytes}
	defer func() { r.memory.Release(b.held) }()
	return do(b)
}

// budget is the part of Config.Memory that a workspace holds while it is folded in memory.
type budget struct {
	of     *semaphore.Weighted
	held   int64         // bytes
	folded workspaceSize // what is in memory
}

// add counts entries that were folded. It is false if they are more than at the beginning, and there
// is no memory left for them.
func (b *budget) add(page []logRow) bool {
	b.folded.entries += int64(len(page))
	for i := range page {
		b.folded.bytes += int64(len(page[i].Data) + len(page[i].Value))
	}
	more := b.folded.memory() - b.held
	if more <= 0 {
		return true
	}
	if !b.of.TryAcquire(more) {
		return false
	}
	b.held += more
	return true
}

// tooLarge reports whether the rows of a workspace take more than Config.Memory.
func (r *Replayer) tooLarge(w workspaceSize) bool { return w.memory() > r.cfg.Memory }

// workspaceSize is a workspace and how much its log holds.
type workspaceSize struct {
	id      string
	entries int64
	bytes   int64   // of the entries' data; 0: not read yet
	budget  *budget // nil: the workspace is folded into shadow tables
}

// memory estimates the bytes that the fold of the workspace takes. The texts of an entry may be in
// memory twice: as read, and in a row.
func (w workspaceSize) memory() int64 { return max(w.entries*entryBytes, 2*w.bytes) }

// readBytes reads how large the entries of a workspace are.
func (r *Replayer) readBytes(ctx context.Context, w *workspaceSize) error {
	err := r.cfg.Pool.QueryRow(ctx, `
		SELECT coalesce((SELECT sum(octet_length(data::text)) FROM event_log WHERE workspace_id = $1), 0)
		     + coalesce((SELECT sum(octet_length(value)) FROM log_detached WHERE workspace_id = $1), 0)`, w.id).Scan(&w.bytes)
	if err != nil {
		return fmt.Errorf("read the size of the log of %s: %w", w.id, err)
	}
	return nil
}

// sizes lists all workspaces, or the one with the id, and adds them to the
// progress. The error is a *domain.UnknownWorkspaceError when there is none with
// that id.
func (r *Replayer) sizes(ctx context.Context, workspaceID string) ([]workspaceSize, error) {
	const sizes = `SELECT workspace_id, position FROM log_head WHERE $1 = '' OR workspace_id = $1 ORDER BY workspace_id`
	var (
		list []workspaceSize
		w    workspaceSize
	)
	err := pg.ForEach(ctx, r.cfg.Pool, sizes, []any{workspaceID}, []any{&w.id, &w.entries}, func() error {
		list = append(list, w)
		r.cfg.Progress.Entries.Add(w.entries)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list workspaces: %w", err)
	}
	if workspaceID != "" && len(list) == 0 {
		return nil, &domain.UnknownWorkspaceError{WorkspaceID: workspaceID}
	}
	r.cfg.Progress.Workspaces.Add(int64(len(list)))
	return list, nil
}

// Progress counts what a Replayer has to do and has done. It may be read at any
// time while the Replayer works.
type Progress struct {
	Workspaces, WorkspacesDone atomic.Int64
	Entries, EntriesDone       atomic.Int64 // of the log; appends during the work may add more
	RowsCompared               atomic.Int64
	RowsWritten                atomic.Int64 // and deleted
	Differences                atomic.Int64
	LargestRows                atomic.Int64 // rows of the largest workspace so far
	OverMemory                 atomic.Int64 // workspaces that are larger than Config.Memory by estimate, or outgrew it, and are folded into shadow tables
}

// raise sets a maximum to v if v is larger.
func raise(to *atomic.Int64, v int64) {
	for {
		old := to.Load()
		if v <= old || to.CompareAndSwap(old, v) {
			return
		}
	}
}
