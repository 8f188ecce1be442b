package logbench

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed-bench/internal/measure"
	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed-bench/internal/workload"
	"github.com/ledgerfeed/ledgerfeed/domain"
)

// benchTrees measures how fast the event trees of a history are built.
func benchTrees(ctx context.Context, o *measure.Options) error {
	return measure.InDatabase(ctx, o, func(ctx context.Context, db *measure.Database) error {
		const workspaces = 100
		each := o.Size(10_000, 500)
		if err := fillEvents(ctx, db, workspaces, each); err != nil {
			return err
		}
		if err := workload.SkipProjection(ctx, db); err != nil {
			return err
		}
		limit, err := hashRate(ctx, db, workspaces*each)
		if err != nil {
			return err
		}
		db.Say("building the trees of %d events", workspaces*each)
		running, stop := context.WithCancel(ctx)
		defer stop()
		began := time.Now()
		ended, err := workload.StartTrees(running, db)
		if err != nil {
			return err
		}
		err = workload.AwaitTrees(ctx, db)
		took := time.Since(began)
		stop()
		if rerr := <-ended; err == nil {
			err = rerr
		}
		if err != nil {
			return err
		}
		o.Report.Add(measure.Figure{
			Name: fmt.Sprintf("build the trees of %s events, %d workspaces", measure.Number(float64(workspaces*each)), workspaces), Value: measure.PerSecond(workspaces*each, took), Unit: "events/s",
			Limit: limit, LimitIs: "reading the events by one SELECT and hashing each once",
		}.AtLeast(100_000))
		return nil
	})
}

// fillEvents appends events to some workspaces.
func fillEvents(ctx context.Context, db *measure.Database, workspaces, each int) error {
	db.Say("appending %d events to each of %d workspaces", each, workspaces)
	const batch = 1000
	for w := range workspaces {
		for from := 0; from < each; from += batch {
			var drafts []domain.Draft
			for i := range min(batch, each-from) {
				drafts = append(drafts, workload.Reversed(workload.WorkspaceID(w), fmt.Sprintf("evt_%07d", from+i)))
			}
			if _, err := db.Log.Append(ctx, drafts...); err != nil {
				return err
			}
		}
	}
	return db.Quiesce(ctx)
}

// hashRate is the events a second of the least that building has to do.
func hashRate(ctx context.Context, db *measure.Database, events int) (float64, error) {
	db.Say("reading and hashing the events once")
	began := time.Now()
	rows, err := db.Pool.Query(ctx, `SELECT public_event FROM event_log WHERE public_event IS NOT NULL ORDER BY workspace_id, position`)
	if err != nil {
		return 0, fmt.Errorf("cannot read the events: %w", err)
	}
	var event []byte
	if _, err := pgx.ForEachRow(rows, []any{(*pgtype.DriverBytes)(&event)}, func() error {
		_ = tlog.RecordHash(event)
		return nil
	}); err != nil {
		return 0, fmt.Errorf("cannot read the events: %w", err)
	}
	return measure.PerSecond(events, time.Since(began)), nil
}
