package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed/internal/tryout"
	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/internal/flow"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
	"github.com/ledgerfeed/ledgerfeed/internal/scenario"
)

const (
	workspaceID   = tryout.DemoWorkspace
	workspaceName = "Harbour Lane Agency"
	seed          = 7
	years         = 2

	// historyBatch is how many entries of the history are appended in one
	// transaction.
	historyBatch = 500
	// entryInterval is the time between two new entries.
	entryInterval = 3 * time.Second
	// longestWait is the longest time between two attempts to publish an entry.
	longestWait = time.Minute
)

// agency is the workspace of the demo, whose entries come from a scenario.
type agency struct {
	log      *eventlog.Log
	scenario scenario.Config
}

// newAgency creates the workspace at the first start. Its two years of history
// end at that time, at every start.
func newAgency(ctx context.Context, pool pg.DB, log *eventlog.Log, clock func() time.Time) (*agency, error) {
	workspaces := eventlog.NewWorkspaces(pool, clock)
	err := pg.InTx(ctx, pool, func(tx pgx.Tx) error {
		return workspaces.Create(ctx, tx, eventlog.Workspace{ID: workspaceID, Name: workspaceName, NotifyEmail: "finance@harbour-lane.example"})
	})
	var exists *eventlog.WorkspaceExistsError
	if err != nil && !errors.As(err, &exists) {
		return nil, err
	}
	w, err := workspaces.Get(ctx, workspaceID)
	if err != nil {
		return nil, err
	}
	end := w.CreatedAt.Truncate(time.Millisecond)
	return &agency{log, scenario.Config{WorkspaceID: workspaceID, Seed: seed, Start: end.AddDate(-years, 0, 0), End: end}}, nil
}

// appendHistory appends the entries of the two years that the log does not have
// yet: all at the first start, the rest after a start that was interrupted.
func (a *agency) appendHistory(ctx context.Context) error {
	g := scenario.New(a.scenario)
	head, err := a.log.Head(ctx, workspaceID)
	if err != nil {
		return err
	}
	var (
		drafts []domain.Draft
		n      int64
	)
	flush := func() error {
		_, err := a.log.Append(ctx, drafts...)
		drafts = drafts[:0]
		return err
	}
	for {
		l, ok := g.Next()
		if !ok {
			return flush()
		}
		n++
		if n <= head.Position {
			continue
		}
		draft, err := domain.NewDraft(l.WorkspaceID, l.Type, l.Data)
		if err != nil {
			return fmt.Errorf("the demo's history, entry %d: %w", n, err)
		}
		draft.ID, draft.CreatedAt = l.ID, l.CreatedAt
		if drafts = append(drafts, draft); len(drafts) == historyBatch {
			if err := flush(); err != nil {
				return err
			}
		}
	}
}

// publishNew lets the billing product do something every few seconds until ctx ends, and prints
// a line about each entry that it publishes.
//
// While the database is away it tries again, less and less often.
func (a *agency) publishNew(ctx context.Context, p *product, out io.Writer, logger *slog.Logger) error {
	outage := flow.Outage{Logger: logger, Failing: "the demo's billing product cannot publish; trying again until it works", Working: "the demo's billing product publishes again"}
	head, err := a.log.Head(ctx, workspaceID)
	if err != nil {
		return err
	}
	generator := scenario.NewLiving(a.scenario, head.Position)
	ticker := time.NewTicker(entryInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		l := generator.Next(p.clock())
		// The entry's publish time is that of the append, as for any producer; the generator's
		// own clock only dates the work.
		for wait := entryInterval; ; wait = min(2*wait, longestWait) {
			err := p.save(ctx, l.ID, l.Type, l.Data)
			if ctx.Err() != nil {
				return nil
			}
			outage.LogTransition(ctx, err)
			if err == nil {
				break
			}
			flow.Sleep(ctx, wait)
		}
		fmt.Fprintf(out, "%s  appended %-24s %s\n", p.clock().Local().Format(time.TimeOnly), l.Type, l.ID)
	}
}
