package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/domain"
)

// appendingEntries measures the ways into the log.
func appendingEntries(ctx context.Context, o *Options) error {
	return withSetting(ctx, o, func(ctx context.Context, s *setting) error {
		drafts, err := samples(20_000)
		if err != nil {
			return err
		}
		a := appending{setting: s, drafts: drafts}
		for _, measure := range []func(context.Context) error{a.prepare, a.singles, a.batches, a.hot} {
			if err := measure(ctx); err != nil {
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

// appending is a database with workspaces to append to.
type appending struct {
	*setting
	drafts []domain.Draft
}

// prepare makes the workspaces, which is not what is measured, and a table
// like the log for the limits.
func (a *appending) prepare(ctx context.Context) error {
	a.say("appending: %d workspaces", manyWorkspaces)
	var first []domain.Draft
	for i := range manyWorkspaces {
		first = append(first, a.draft(workspaceName(i), i))
	}
	if _, err := a.log.Append(ctx, first...); err != nil {
		return err
	}
	for _, sql := range []string{
		`CREATE TABLE bare (LIKE event_log INCLUDING ALL)`,
		`ALTER TABLE bare ALTER COLUMN chain SET DEFAULT sha256('')`,
	} {
		if _, err := a.pool.Exec(ctx, sql); err != nil {
			return fmt.Errorf("make a bare table: %w", err)
		}
	}
	// A server's first seconds are slow: its write-ahead log has no files to use
	// again yet. That is not what appending costs.
	if _, _, _, err := hammer(ctx, appendCallers, a.duration(appendTime), a.appendOne); err != nil {
		return err
	}
	return a.settle(ctx)
}

// appendCallers are those who append single entries to many workspaces.
const appendCallers = 16

func (a *appending) appendOne(ctx context.Context, caller, turn int) error {
	_, err := a.log.Append(ctx, a.draft(workspaceName(rand.IntN(manyWorkspaces)), caller*7919+turn))
	return err
}

func (a *appending) draft(workspaceID string, i int) domain.Draft {
	d := a.drafts[i%len(a.drafts)]
	d.WorkspaceID = workspaceID
	return d
}

func (a *appending) singles(ctx context.Context) error {
	d := a.duration(appendTime)
	bare, bareTook, _, err := hammer(ctx, appendCallers, d, func(ctx context.Context, caller, turn int) error {
		draft := &a.drafts[(caller*7919+turn)%len(a.drafts)]
		_, err := a.pool.Exec(ctx, `
			INSERT INTO bare (workspace_id, position, id, type, created_at, data, public_event)
			VALUES ($1, $2, $3, $4, now(), $5, nullif($6, ''))`,
			workspaceName((caller*7919+turn)%manyWorkspaces), caller*10_000_000+turn+1, "evt_"+uuid.NewString(), draft.Type, draft.Data, draft.PublicData())
		return err //nolint:wrapcheck // wrapped below
	})
	if err != nil {
		return fmt.Errorf("insert single rows: %w", err)
	}
	n, took, times, err := hammer(ctx, appendCallers, d, a.appendOne)
	if err != nil {
		return err
	}
	a.Report.add(Figure{
		Name: "append single entries, 16 callers, 1,000 workspaces", Value: perSecond(n, took), Unit: "/s",
		Limit: perSecond(bare, bareTook), LimitIs: "a bare INSERT of one row and commit, 16 connections",
	}.atLeast(8000))
	a.Report.add(Figure{Name: "    one such append, p99", Value: quantile(times, 0.99), Unit: "ms"}.below(20))
	return a.settle(ctx)
}

func (a *appending) batches(ctx context.Context) error {
	const callers, batch = 4, 100
	d := a.duration(appendTime)
	columns := []string{"workspace_id", "position", "id", "type", "created_at", "data", "public_event", "chain"}
	chain := make([]byte, 32)
	if _, err := a.pool.Exec(ctx, `TRUNCATE bare`); err != nil {
		return fmt.Errorf("empty the bare table: %w", err)
	}
	bare, bareTook, _, err := hammer(ctx, callers, d, func(ctx context.Context, caller, turn int) error {
		rows := make([][]any, batch)
		now := time.Now()
		for i := range rows {
			draft := &a.drafts[(caller*7919+turn*batch+i)%len(a.drafts)]
			var public any
			if p := draft.PublicData(); p != "" {
				public = p
			}
			rows[i] = []any{workspaceName((caller*7919 + turn) % manyWorkspaces), caller*100_000_000 + turn*batch + i + 1, "evt_" + uuid.NewString(), draft.Type, now, draft.Data, public, chain}
		}
		_, err := a.pool.CopyFrom(ctx, pgx.Identifier{"bare"}, columns, pgx.CopyFromRows(rows))
		return err //nolint:wrapcheck // wrapped below
	})
	if err != nil {
		return fmt.Errorf("copy rows: %w", err)
	}
	n, took, _, err := hammer(ctx, callers, d, func(ctx context.Context, caller, turn int) error {
		workspaceID := workspaceName((caller*7919 + turn) % manyWorkspaces)
		drafts := make([]domain.Draft, batch)
		for i := range drafts {
			drafts[i] = a.draft(workspaceID, caller*7919+turn*batch+i)
		}
		_, err := a.log.Append(ctx, drafts...)
		return err
	})
	if err != nil {
		return err
	}
	a.Report.add(Figure{
		Name: "append batches of 100 to one workspace each, 4 callers", Value: perSecond(n*batch, took), Unit: "entries/s",
		Limit: perSecond(bare*batch, bareTook), LimitIs: "a bare COPY of the same rows, as many a commit",
	}.ratioAtLeast(0.6))
	return a.settle(ctx)
}

func (a *appending) hot(ctx context.Context) error {
	n, took, times, err := hammer(ctx, 64, a.duration(appendTime), func(ctx context.Context, caller, turn int) error {
		_, err := a.log.Append(ctx, a.draft("hot", caller*7919+turn))
		return err
	})
	if err != nil {
		return err
	}
	a.Report.add(Figure{Name: "append single entries to one workspace, 64 callers", Value: perSecond(n, took), Unit: "/s"}.atLeast(15_000))
	a.Report.add(Figure{Name: "    one such append, p99", Value: quantile(times, 0.99), Unit: "ms"})
	return nil
}

func perSecond(n int, took time.Duration) float64 { return float64(n) / took.Seconds() }
