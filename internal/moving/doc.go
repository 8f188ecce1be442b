// Package moving moves a workspace from one database to another, both of which serve
// (docs/operations/moving.md, which has the states and why there is never a moment in which
// both take appends).
//
// A Mover can be ended at any moment. What has been done is in the two databases, each of
// which changes its own state by one transaction, so that another Mover goes on or undoes it.
package moving

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ledgerfeed/ledgerfeed/delivery/keyring"
	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
)

// Place is one side of a move. Its account owns the tables.
type Place struct {
	Pool    *pgxpool.Pool
	Name    string              // server and database, for people and for the other side
	Keyring *keyring.Keyring    // opens the secrets of webhooks here; nil: there are none
	Notify  eventlog.NotifyFunc // tells serving processes; nil: they find out by sweeping
}

// Config is what a Mover needs.
type Config struct {
	WorkspaceID   string
	From, To      Place
	PublicAddress string        // of the API at To, for readers who ask at From; empty: they are told none
	Fence         time.Duration // how long appends are refused at most before they are let in again at From; 0: 30 s
	Idle          time.Duration // how long To may project nothing, and webhooks may be held, before the move gives up; 0: 1 min
	Clock         func() time.Time
	Logger        *slog.Logger
	Step          func(Step) // called before each step; nil: nothing is
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
	if cfg.Fence == 0 {
		cfg.Fence = defaultFence
	}
	if cfg.Idle == 0 {
		cfg.Idle = defaultIdle
	}
	if cfg.Clock == nil {
		cfg.Clock = time.Now
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
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
	History  int64         // rows of deliveries, requests and audit that were copied by this run
}

// now is the time with the precision of the database.
func (m *Mover) now() time.Time { return m.cfg.Clock().UTC().Truncate(time.Microsecond) }

func (p *Place) notify(topic eventlog.Topic, workspaceIDs ...string) {
	if p.Notify != nil {
		p.Notify(topic, workspaceIDs...)
	}
}

// inTx runs do in a transaction, again if the database rolled it back because of others.
func (p *Place) inTx(ctx context.Context, do func(pgx.Tx) error) error {
	return pg.Again(ctx, func() error { return pg.InTx(ctx, p.Pool, do) })
}

// inLimitedTx is inTx in a transaction that waits for each lock for lockTimeout at most.
func (p *Place) inLimitedTx(ctx context.Context, do func(pgx.Tx) error) error {
	return pg.Again(ctx, func() error { return pg.InLimitedTx(ctx, p.Pool, lockTimeout, do) })
}
