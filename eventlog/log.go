package eventlog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"runtime"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/internal/batch"
)

// ReadModels is the consumer whose checkpoint is a workspace's visible
// position.
const ReadModels = "read_models"

// NotifyFunc is called after a commit with the workspaces that changed, such as
// [Notifier.Notify]. It must not block. A notification may be lost: subscribers
// also sweep.
type NotifyFunc func(topic Topic, workspaceIDs ...string)

// Config of a Log.
type Config struct {
	Pool *pgxpool.Pool

	// Clock gives the publish time of entries that bring none.
	Clock func() time.Time

	// Notify is told of appended entries; nil: nobody is told.
	Notify NotifyFunc

	// Batchers is how many transactions of single appends may be under way at
	// once. Default: one a processor, and at least 2; with more, the callers of
	// one process contend.
	Batchers int

	// BatchMax is the most entries one such transaction takes. Default 512.
	BatchMax int
}

// Log appends to and reads from the log. It is safe for concurrent use.
type Log struct {
	pool     *pgxpool.Pool
	clock    func() time.Time
	notify   NotifyFunc
	batchers []*batch.Coalescer[*pendingAppend] // a workspace's is found by the hash of its id
	seed     maphash.Seed                       // of that hash, so that processes differ
}

// New makes a Log; it starts nothing and needs no closing.
func New(cfg Config) (*Log, error) {
	if cfg.Pool == nil || cfg.Clock == nil {
		return nil, errors.New("eventlog: Config needs a Pool and a Clock")
	}
	if cfg.Batchers < 0 || cfg.BatchMax < 0 {
		return nil, errors.New("eventlog: Config.Batchers and Config.BatchMax must not be negative")
	}
	if cfg.Notify == nil {
		cfg.Notify = func(Topic, ...string) {}
	}
	l := &Log{pool: cfg.Pool, clock: cfg.Clock, notify: cfg.Notify, seed: maphash.MakeSeed()}
	for range cmp.Or(cfg.Batchers, max(2, runtime.GOMAXPROCS(0))) {
		l.batchers = append(l.batchers, l.newBatcher(cmp.Or(cfg.BatchMax, 512)))
	}
	return l, nil
}

// newID makes the id of an entry that brings none: evt_ and a UUIDv7, so that
// ids made one after the other lie together in the index.
func newID() (string, error) {
	id, err := uuid.NewV7()
	if err != nil {
		return "", fmt.Errorf("make an event id: %w", err)
	}
	return "evt_" + id.String(), nil
}

// Receipt says what became of one entry of an append.
type Receipt struct {
	ID        string
	Position  int64
	CreatedAt time.Time
	Skipped   bool // the log held the same entry already (docs/contract/log.md, "An entry")
}

// Head is a workspace's newest entry.
type Head struct {
	Position  int64
	CreatedAt time.Time // zero before the first entry
	Chain     [32]byte
}

// Head returns the newest position of a workspace; the error is an
// *domain.UnknownWorkspaceError when there is no such workspace.
func (l *Log) Head(ctx context.Context, workspaceID string) (Head, error) {
	var (
		h     Head
		at    *time.Time
		chain []byte
	)
	err := l.pool.QueryRow(ctx, `
		SELECT position, nullif(created_at, '-infinity'), chain FROM log_head WHERE workspace_id = $1`,
		workspaceID).Scan(&h.Position, &at, &chain)
	if errors.Is(err, pgx.ErrNoRows) {
		return Head{}, &domain.UnknownWorkspaceError{WorkspaceID: workspaceID}
	}
	if err != nil {
		return Head{}, fmt.Errorf("read the head of %s: %w", workspaceID, err)
	}
	if at != nil {
		h.CreatedAt = at.UTC()
	}
	copy(h.Chain[:], chain)
	return h, nil
}

// draftBatch is the arguments of log_append for one workspace.
type draftBatch struct {
	workspaceID       string
	ids, types, datas []string
	created           []*time.Time
	publics           []*string
}

func (b *draftBatch) add(d *domain.Draft) {
	b.ids = append(b.ids, d.ID)
	b.types = append(b.types, d.Type)
	b.datas = append(b.datas, d.Data)
	var at *time.Time
	if !d.CreatedAt.IsZero() {
		t := d.CreatedAt
		at = &t
	}
	b.created = append(b.created, at)
	var public *string
	if data := d.PublicData(); data != "" {
		public = &data
	}
	b.publics = append(b.publics, public)
}

// join adds the entries of another batch.
func (b *draftBatch) join(o *draftBatch) {
	b.ids = append(b.ids, o.ids...)
	b.types = append(b.types, o.types...)
	b.datas = append(b.datas, o.datas...)
	b.created = append(b.created, o.created...)
	b.publics = append(b.publics, o.publics...)
}
