package relaybench

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed-bench/internal/measure"
	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed-bench/internal/workload"
	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/internal/ingest"
)

// outboxWorkspaces is of how many workspaces the messages of an outbox are, in turn.
const outboxWorkspaces = 50

// benchOutbox measures how fast an outbox, here in the same database, is appended.
func benchOutbox(ctx context.Context, o *measure.Options) error {
	return measure.InDatabase(ctx, o, func(ctx context.Context, db *measure.Database) error {
		n := o.Size(50_000, 1000)
		direct, err := appendDirectly(ctx, db, n)
		if err != nil {
			return err
		}
		if err := fillOutbox(ctx, db, n); err != nil {
			return err
		}
		took, err := ingestAll(ctx, db, 2*n)
		if err != nil {
			return err
		}
		o.Report.Add(measure.Figure{
			Name: fmt.Sprintf("ingest %s messages of an outbox, %d workspaces", measure.Number(float64(n)), outboxWorkspaces), Value: measure.PerSecond(n, took), Unit: "entries/s",
			Limit: measure.PerSecond(n, direct), LimitIs: "appending the same, 1,000 at a time, without an outbox",
		}.AtLeast(5000))
		return nil
	})
}

func outboxDraft(prefix string, i int) domain.Draft {
	return workload.Reversed(fmt.Sprintf("%s-%d", prefix, i%outboxWorkspaces), fmt.Sprintf("%s-%d", prefix, i))
}

func appendDirectly(ctx context.Context, db *measure.Database, n int) (time.Duration, error) {
	const batch = 1000
	began := time.Now()
	for from := 0; from < n; from += batch {
		var drafts []domain.Draft
		for i := from; i < min(n, from+batch); i++ {
			drafts = append(drafts, outboxDraft("direct", i))
		}
		if _, err := db.Log.Append(ctx, drafts...); err != nil {
			return 0, err
		}
	}
	return time.Since(began), nil
}

// fillOutbox writes messages as watermill-sql's publisher does.
func fillOutbox(ctx context.Context, db *measure.Database, n int) error {
	db.Say("filling an outbox with %d messages", n)
	if _, err := db.Pool.Exec(ctx, `
		CREATE TABLE watermill_ledgerfeed ("offset" bigserial, uuid varchar(36) NOT NULL, created_at timestamp NOT NULL DEFAULT current_timestamp,
		       payload json, metadata json, transaction_id xid8 NOT NULL DEFAULT pg_current_xact_id(), PRIMARY KEY (transaction_id, "offset"))`); err != nil {
		return fmt.Errorf("make an outbox: %w", err)
	}
	_, err := db.Pool.CopyFrom(ctx, pgx.Identifier{"watermill_ledgerfeed"}, []string{"uuid", "payload"}, pgx.CopyFromSlice(n, func(i int) ([]any, error) {
		d := outboxDraft("outbox", i)
		line := fmt.Sprintf(`{"workspace_id":%q,"id":%q,"type":%q,"data":%s}`, d.WorkspaceID, d.ID, d.Type, d.Data)
		return []any{uuid.NewString(), line}, nil
	}))
	if err != nil {
		return fmt.Errorf("fill the outbox: %w", err)
	}
	return db.Quiesce(ctx)
}

func ingestAll(ctx context.Context, db *measure.Database, entries int) (time.Duration, error) {
	source, err := ingest.OpenOutbox(ctx, &ingest.Target{URL: db.URL, Topic: "ledgerfeed"}, measure.NoLogger())
	if err != nil {
		return 0, err
	}
	in, err := ingest.New(ingest.Config{Source: source, Log: db.Log, Logger: measure.NoLogger(), Clock: time.Now})
	if err != nil {
		return 0, err
	}
	running, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	began := time.Now()
	go func() { ended <- in.Run(running) }()
	err = awaitCount(ctx, db, `SELECT coalesce(sum(position), 0) FROM log_head`, entries)
	took := time.Since(began)
	stop()
	if endErr := <-ended; err == nil {
		err = endErr
	}
	return took, err
}
