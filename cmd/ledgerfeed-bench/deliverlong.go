package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// longHour is what an engine changes in an hour and does not add: cursors and
// counts, saved every second, and its lease, every 3.75 s. Every version of
// those rows stays as long as an open snapshot may need it.
const longHour = `DO $$ BEGIN FOR i IN 1..3600 LOOP
	UPDATE webhook_cursor SET position = position;
	UPDATE webhook_hour SET attempts = attempts;
	IF i % 4 = 0 THEN UPDATE webhook_instance SET lease_until = lease_until; END IF;
	COMMIT; END LOOP; END $$`

// deliverBesideReports measures what a long transaction costs.
func deliverBesideReports(ctx context.Context, o *Options) error {
	return withReceiver(ctx, o, (*delivering).besideReports)
}

// besideReports compares the delivery of a backlog with that of another while a
// report keeps a snapshot open for an hour. Both take turns, and the middle one
// of their rounds counts.
func (d *delivering) besideReports(ctx context.Context, r *receiver) error {
	for i := range deliverWebhooks {
		if _, err := d.webhook(ctx, workspaceName(i), r.url()); err != nil {
			return err
		}
	}
	if _, err := d.backlogRate(ctx, r); err != nil { // everything is met for the first time
		return err
	}
	const rounds = 5
	var alone, beside []float64
	for range rounds {
		rate, err := d.backlogRate(ctx, r)
		if err != nil {
			return err
		}
		alone = append(alone, rate)
		if rate, err = d.besideReport(ctx, r); err != nil {
			return err
		}
		beside = append(beside, rate)
	}
	d.Report.add(Figure{
		Name: "deliver a backlog while a transaction is open for an hour", Value: middle(beside), Unit: "/s",
		Limit: middle(alone), LimitIs: "the same with none",
	}.ratioAtLeast(0.9))
	return nil
}

// besideReport is backlogRate in the last seconds of a report's hour.
func (d *delivering) besideReport(ctx context.Context, r *receiver) (rate float64, err error) {
	report, err := pgx.Connect(ctx, d.url)
	if err != nil {
		return 0, fmt.Errorf("open a long transaction: %w", err)
	}
	defer func() { err = errors.Join(err, report.Close(ctx)) }()
	tx, err := report.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	if err != nil {
		return 0, fmt.Errorf("open a long transaction: %w", err)
	}
	if _, err := tx.Exec(ctx, `SELECT count(*) FROM webhook_delivery, webhook_cursor`); err != nil {
		return 0, fmt.Errorf("open a long transaction: %w", err)
	}
	d.say("an hour passes")
	if _, err := d.pool.Exec(ctx, longHour); err != nil {
		return 0, fmt.Errorf("let an hour pass: %w", err)
	}
	return d.backlogRate(ctx, r)
}

// backlogRate appends a backlog for all webhooks and starts an engine: so many
// messages a second are delivered. The backlog takes seconds, beside which the
// half second of the start is little.
func (d *delivering) backlogRate(ctx context.Context, r *receiver) (float64, error) {
	each := d.size(4_000, 100)
	for i := range deliverWebhooks {
		if err := d.appendEvents(ctx, workspaceName(i), each); err != nil {
			return 0, err
		}
	}
	if err := d.passOver(ctx); err != nil {
		return 0, err
	}
	if err := d.settle(ctx); err != nil {
		return 0, err
	}
	return d.drain(ctx, r, deliverWebhooks*each)
}
