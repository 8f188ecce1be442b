package deliverbench

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed-bench/internal/measure"
	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed-bench/internal/workload"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
)

// anHour updates what the dispatcher updates in place within an hour: cursors, saved every second,
// and its lease, every 3.75 s. PostgreSQL keeps every
// version of those rows for as long as an open snapshot may need it.
const anHour = `DO $$ BEGIN FOR i IN 1..3600 LOOP
	UPDATE webhook_cursor SET position = position;
	IF i % 4 = 0 THEN UPDATE webhook_instance SET lease_until = lease_until; END IF;
	COMMIT; END LOOP; END $$`

// benchReports measures what a long transaction of another program costs.
func benchReports(ctx context.Context, o *measure.Options) error {
	return withReceiver(ctx, o, (*bench).besideReports)
}

// reportRounds is odd, so that there is a median.
const reportRounds = 5

// besideReports compares the delivery of a backlog with the delivery of another while a
// report keeps a snapshot open for an hour. The two alternate, and the median of
// each counts.
func (b *bench) besideReports(ctx context.Context, r *receiver) error {
	for i := range goodWebhooks {
		if _, err := b.webhook(ctx, workload.WorkspaceID(i), r.url()); err != nil {
			return err
		}
	}
	if _, err := b.backlogRate(ctx, r); err != nil { // to warm up
		return err
	}
	var alone, beside []float64
	for range reportRounds {
		rate, err := b.backlogRate(ctx, r)
		if err != nil {
			return err
		}
		alone = append(alone, rate)
		if rate, err = b.besideReport(ctx, r); err != nil {
			return err
		}
		beside = append(beside, rate)
	}
	b.Report.Add(measure.Figure{
		Name: "deliver a backlog while a transaction is open for an hour", Value: measure.Median(beside), Unit: "/s",
		Limit: measure.Median(alone), LimitIs: "the same with none",
	}.RatioAtLeast(0.9))
	return nil
}

// besideReport is backlogRate at the end of the hour for which a report has its
// snapshot open.
func (b *bench) besideReport(ctx context.Context, r *receiver) (rate float64, err error) {
	report, err := pg.Connect(ctx, b.URL)
	if err != nil {
		return 0, fmt.Errorf("cannot open a long transaction: %w", err)
	}
	defer func() { err = errors.Join(err, report.Close(ctx)) }()
	tx, err := report.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	if err != nil {
		return 0, fmt.Errorf("cannot open a long transaction: %w", err)
	}
	if _, err := tx.Exec(ctx, `SELECT count(*) FROM webhook_delivery, webhook_cursor`); err != nil {
		return 0, fmt.Errorf("cannot open a long transaction: %w", err)
	}
	b.Say("making an hour's updates")
	if _, err := b.Pool.Exec(ctx, anHour); err != nil {
		return 0, fmt.Errorf("cannot make an hour's updates: %w", err)
	}
	return b.backlogRate(ctx, r)
}

// backlogRate appends a backlog for all webhooks, starts the dispatcher, and returns
// the messages a second. The backlog takes seconds, so that the half second of the
// start counts little.
func (b *bench) backlogRate(ctx context.Context, r *receiver) (float64, error) {
	each := b.Size(4_000, 100)
	for i := range goodWebhooks {
		if err := b.appendEvents(ctx, workload.WorkspaceID(i), each); err != nil {
			return 0, err
		}
	}
	if err := workload.SkipProjection(ctx, b.Database); err != nil {
		return 0, err
	}
	if err := b.Quiesce(ctx); err != nil {
		return 0, err
	}
	return b.drain(ctx, r, goodWebhooks*each)
}
