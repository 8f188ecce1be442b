// Package moving moves a workspace from one database to another while both serve
// (docs/operations/moving.md, which lists the states and says why the two places never take appends
// at the same time).
//
// A Mover can be stopped at any moment. The progress is in the two databases, each of which changes
// its own state in one transaction, so another Mover can continue or undo the move.
package moving

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/delivery/keyring"
	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
)

// Place is one side of a move. The account of its Pool owns the tables.
type Place struct {
	Pool    pg.DB
	Name    string              // server and database, for people and for the other side
	Keyring *keyring.Keyring    // opens the webhooks' secrets at this place; nil: there are none
	Notify  eventlog.NotifyFunc // tells serving processes; nil: they find out by sweeping
}

// Config configures a Mover.
type Config struct {
	WorkspaceID   string
	From, To      Place
	PublicAddress string        // of the API at To; From tells it to readers. Empty: it tells them none
	Fence         time.Duration // how long From refuses appends at most before it takes them again; 0: 30 s
	Idle          time.Duration // how long To may project nothing, or processes keep webhooks, before the move gives up; 0: 1 min
	Clock         func() time.Time
	Logger        *slog.Logger
	Step          func(Step) // called before each step; nil: not called
}

// Step is a part of a move.
type Step string

// The steps, in their order.
const (
	StepBegin   Step = "begin"
	StepCopy    Step = "copy the log"
	StepHold    Step = "hold deliveries"
	StepFence   Step = "refuse appends"
	StepTail    Step = "copy the newest entries"
	StepReady   Step = "compare"
	StepDepart  Step = "leave"
	StepOpen    Step = "open"
	StepHistory Step = "copy the history"
	StepRemove  Step = "remove"
)

const (
	defaultFence = 30 * time.Second
	defaultIdle  = time.Minute
)

// Mover moves one workspace.
type Mover struct {
	cfg Config
	id  string // move_id; set by begin
}

// New makes a Mover. The error says what is wrong with cfg.
func New(cfg Config) (*Mover, error) {
	if cfg.From.Pool == nil || cfg.To.Pool == nil || cfg.WorkspaceID == "" {
		return nil, errors.New("moving: Config needs a WorkspaceID and two Places with a Pool")
	}
	cfg.Fence = cmp.Or(cfg.Fence, defaultFence)
	cfg.Idle = cmp.Or(cfg.Idle, defaultIdle)
	if cfg.Clock == nil {
		cfg.Clock = time.Now
	}
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	if cfg.Step == nil {
		cfg.Step = func(Step) {}
	}
	return &Mover{cfg: cfg}, nil
}

// Result is what a move did.
type Result struct {
	State    string        // of the place that has the workspace now
	Position int64         // of the newest entry when it moved
	Chain    [32]byte      // of that entry
	Refused  time.Duration // how long appends were refused
	History  int64         // rows of deliveries, requests and audit that this run copied
}

// now returns the current time with the precision of the database.
func (m *Mover) now() time.Time { return m.cfg.Clock().UTC().Truncate(time.Microsecond) }

func (p *Place) notify(topic eventlog.Topic, workspaceIDs ...string) {
	if p.Notify != nil {
		p.Notify(topic, workspaceIDs...)
	}
}

// inTx runs do in a transaction, and retries if the database rolled it back because of other
// transactions.
func (p *Place) inTx(ctx context.Context, do func(pgx.Tx) error) error {
	return pg.Again(ctx, func() error { return pg.InTx(ctx, p.Pool, do) })
}

// inLimitedTx is inTx, but waits at most lockTimeout for each lock.
func (p *Place) inLimitedTx(ctx context.Context, do func(pgx.Tx) error) error {
	return pg.Again(ctx, func() error { return pg.InLimitedTx(ctx, p.Pool, lockTimeout, do) })
}
