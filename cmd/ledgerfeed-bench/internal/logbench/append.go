package logbench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed-bench/internal/measure"
	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed-bench/internal/workload"
	"github.com/ledgerfeed/ledgerfeed/domain"
)

// benchAppend measures the ways into the log.
func benchAppend(ctx context.Context, o *measure.Options) error {
	return measure.InDatabase(ctx, o, func(ctx context.Context, db *measure.Database) error {
		drafts, err := workload.Samples(20_000)
		if err != nil {
			return err
		}
		a := appends{Database: db, drafts: drafts}
		for _, part := range []func(context.Context) error{a.prepare, a.singles, a.batches, a.oneWorkspace} {
			if err := part(ctx); err != nil {
				return err
			}
		}
		return nil
	})
}

const (
	manyWorkspaces = 1000
	appendTime     = 8 * time.Second
)

// appends is a database with workspaces to append to.
type appends struct {
	*measure.Database
	drafts []domain.Draft
}

// prepare makes the workspaces, which is not measured, and a table like the log
// for the limits.
func (a *appends) prepare(ctx context.Context) error {
	a.Say("appending: %d workspaces", manyWorkspaces)
	var first []domain.Draft
	for i := range manyWorkspaces {
		first = append(first, a.draft(workload.WorkspaceID(i), i))
	}
	if _, err := a.Log.Append(ctx, first...); err != nil {
		return err
	}
	for _, sql := range []string{
		`CREATE TABLE bare (LIKE event_log INCLUDING ALL)`,
		`ALTER TABLE bare ALTER COLUMN chain SET DEFAULT sha256('')`,
	} {
		if _, err := a.Pool.Exec(ctx, sql); err != nil {
			return fmt.Errorf("cannot make a bare table: %w", err)
		}
	}
	// A server's first seconds are slow, because its write-ahead log has no files to
	// reuse yet. That is not what appending costs.
	if _, _, _, err := measure.Repeat(ctx, appendCallers, a.Duration(appendTime), a.appendOne); err != nil {
		return err
	}
	return a.Quiesce(ctx)
}

// appendCallers append single entries to many workspaces.
const appendCallers = 16

func (a *appends) appendOne(ctx context.Context, caller, turn int) error {
	_, err := a.Log.Append(ctx, a.draft(workload.WorkspaceID(rand.IntN(manyWorkspaces)), caller*7919+turn))
	return err
}

func (a *appends) draft(workspaceID string, i int) domain.Draft {
	d := a.drafts[i%len(a.drafts)]
	d.WorkspaceID = workspaceID
	return d
}

func (a *appends) singles(ctx context.Context) error {
	d := a.Duration(appendTime)
	bare, bareTook, _, err := measure.Repeat(ctx, appendCallers, d, func(ctx context.Context, caller, turn int) error {
		draft := &a.drafts[(caller*7919+turn)%len(a.drafts)]
		if _, err := a.Pool.Exec(ctx, `
			INSERT INTO bare (workspace_id, position, id, type, created_at, data, public_event)
			VALUES ($1, $2, $3, $4, now(), $5, nullif($6, ''))`,
			workload.WorkspaceID((caller*7919+turn)%manyWorkspaces), caller*10_000_000+turn+1, "evt_"+uuid.NewString(), draft.Type, draft.Data, draft.PublicData()); err != nil {
			return fmt.Errorf("cannot insert single rows: %w", err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	n, took, times, err := measure.Repeat(ctx, appendCallers, d, a.appendOne)
	if err != nil {
		return err
	}
	a.Report.Add(measure.Figure{
		Name: "append single entries, 16 callers, 1,000 workspaces", Value: measure.PerSecond(n, took), Unit: "/s",
		Limit: measure.PerSecond(bare, bareTook), LimitIs: "a bare INSERT of one row and commit, 16 connections",
	}.AtLeast(8000))
	a.Report.Add(measure.Figure{Name: "    one such append, p99", Value: measure.Quantile(times, 0.99), Unit: "ms"}.Below(20))
	return a.Quiesce(ctx)
}

func (a *appends) batches(ctx context.Context) error {
	const callers, batch = 4, 100
	d := a.Duration(appendTime)
	columns := []string{"workspace_id", "position", "id", "type", "created_at", "data", "public_event", "chain"}
	chain := make([]byte, 32)
	if _, err := a.Pool.Exec(ctx, `TRUNCATE bare`); err != nil {
		return fmt.Errorf("cannot empty the bare table: %w", err)
	}
	bare, bareTook, _, err := measure.Repeat(ctx, callers, d, func(ctx context.Context, caller, turn int) error {
		rows := make([][]any, batch)
		now := time.Now()
		for i := range rows {
			draft := &a.drafts[(caller*7919+turn*batch+i)%len(a.drafts)]
			var public any
			if p := draft.PublicData(); p != "" {
				public = p
			}
			rows[i] = []any{workload.WorkspaceID((caller*7919 + turn) % manyWorkspaces), caller*100_000_000 + turn*batch + i + 1, "evt_" + uuid.NewString(), draft.Type, now, draft.Data, public, chain}
		}
		if _, err := a.Pool.CopyFrom(ctx, pgx.Identifier{"bare"}, columns, pgx.CopyFromRows(rows)); err != nil {
			return fmt.Errorf("cannot copy rows: %w", err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	n, took, _, err := measure.Repeat(ctx, callers, d, func(ctx context.Context, caller, turn int) error {
		workspaceID := workload.WorkspaceID((caller*7919 + turn) % manyWorkspaces)
		drafts := make([]domain.Draft, batch)
		for i := range drafts {
			drafts[i] = a.draft(workspaceID, caller*7919+turn*batch+i)
		}
		_, err := a.Log.Append(ctx, drafts...)
		return err
	})
	if err != nil {
		return err
	}
	a.Report.Add(measure.Figure{
		Name: "append batches of 100 to one workspace each, 4 callers", Value: measure.PerSecond(n*batch, took), Unit: "entries/s",
		Limit: measure.PerSecond(bare*batch, bareTook), LimitIs: "a bare COPY of the same rows, as many a commit",
	}.RatioAtLeast(0.6))
	return a.Quiesce(ctx)
}

func (a *appends) oneWorkspace(ctx context.Context) error {
	n, took, times, err := measure.Repeat(ctx, 64, a.Duration(appendTime), func(ctx context.Context, caller, turn int) error {
		_, err := a.Log.Append(ctx, a.draft("hot", caller*7919+turn))
		return err
	})
	if err != nil {
		return err
	}
	a.Report.Add(measure.Figure{Name: "append single entries to one workspace, 64 callers", Value: measure.PerSecond(n, took), Unit: "/s"}.AtLeast(15_000))
	a.Report.Add(measure.Figure{Name: "    one such append, p99", Value: measure.Quantile(times, 0.99), Unit: "ms"})
	return nil
}
