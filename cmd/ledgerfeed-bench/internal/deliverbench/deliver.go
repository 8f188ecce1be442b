// Package deliverbench measures webhooks. Receivers are on loopback, over TLS, and
// share the machine with the program and the database.
package deliverbench

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed-bench/internal/measure"
	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed-bench/internal/workload"
	"github.com/ledgerfeed/ledgerfeed/delivery"
	"github.com/ledgerfeed/ledgerfeed/delivery/attempt"
)

// Benchmark is ledgerfeed-bench deliver.
func Benchmark(o *measure.Options) measure.Benchmark {
	part := func(name string, run func(context.Context, *measure.Options) error) measure.Part {
		return measure.Part{Name: name, Measure: func(ctx context.Context) error { return run(ctx, o) }}
	}
	hangingOver := func(speaks protocol) func(context.Context, *measure.Options) error {
		return func(ctx context.Context, o *measure.Options) error { return benchHanging(ctx, o, speaks) }
	}
	return measure.Benchmark{
		Name: "deliver", Short: "Webhooks", SetUp: measure.ServingHeap, Parts: []measure.Part{
			part("backlog", benchBacklog), part("pace", benchLatency), part("hanging", hangingOver(http2)), part("hanging-http1", hangingOver(http1)), part("reports", benchReports), part("locked", benchLocked),
		},
	}
}

const (
	goodWebhooks = 20 // of as many workspaces
	eventsEach   = 3_000
	inFlight     = 10 // messages of a webhook under way

	// bareTime is how long the limit is measured at full scale.
	bareTime = 6 * time.Second
)

// benchBacklog measures the throughput.
func benchBacklog(ctx context.Context, o *measure.Options) error {
	return withReceiver(ctx, o, (*bench).throughput)
}

// withReceiver runs work in a fresh database, with a receiver that answers at
// once.
func withReceiver(ctx context.Context, o *measure.Options, work func(*bench, context.Context, *receiver) error) error {
	return measure.InDatabase(ctx, o, func(ctx context.Context, db *measure.Database) error {
		b := &bench{Database: db}
		r := newReceiver(http1)
		defer r.Close()
		removeFile, err := b.prepare(r)
		if err != nil {
			return err
		}
		defer removeFile()
		return work(b, ctx, r)
	})
}

// throughput measures a backlog against the same messages in a bare loop.
func (b *bench) throughput(ctx context.Context, r *receiver) error {
	each := b.Size(eventsEach, 300)
	total := goodWebhooks * each
	b.Say("appending %d events for %d webhooks", total, goodWebhooks)
	var (
		webhook *delivery.WithSecret
		err     error
	)
	for i := range goodWebhooks {
		if webhook, err = b.webhook(ctx, workload.WorkspaceID(i), r.url()); err != nil {
			return err
		}
		if err := b.appendEvents(ctx, workload.WorkspaceID(i), each); err != nil {
			return err
		}
	}
	if err := workload.SkipProjection(ctx, b.Database); err != nil {
		return err
	}
	if err := b.Quiesce(ctx); err != nil {
		return err
	}
	bare, err := b.bareLoop(ctx, r, webhook)
	if err != nil {
		return err
	}
	writes, err := b.rowWrites(ctx)
	if err != nil {
		return err
	}
	rate, err := b.drain(ctx, r, total)
	if err != nil {
		return err
	}
	after, err := b.rowWrites(ctx)
	if err != nil {
		return err
	}
	b.Report.Add(measure.Figure{
		Name: "deliver a backlog over TLS, 20 webhooks, all recorded", Value: rate, Unit: "/s",
		Limit: bare, LimitIs: "the same client in a bare loop, as many connections",
	}.RatioAtLeast(0.4))
	b.Report.Add(measure.Figure{Name: "    SQL statements for one delivery", Value: float64(b.counted.n.Load()) / float64(total), Unit: ""}.Below(0.1))
	b.Report.Add(measure.Figure{Name: "    rows written for one delivery", Value: float64(after-writes) / float64(total), Unit: ""}.Below(1.2))
	return nil
}

// drain starts the dispatcher on a backlog of total messages, stops it when the
// receiver has answered them, and returns the messages a second.
func (b *bench) drain(ctx context.Context, r *receiver, total int) (rate float64, err error) {
	r.answered.Store(0)
	b.Say("delivering %d messages", total)
	began := time.Now()
	stop, err := b.start(ctx)
	if err != nil {
		return 0, err
	}
	if err := awaitCount(ctx, &r.answered, int64(total)); err != nil {
		return 0, errors.Join(err, stop())
	}
	rate = measure.PerSecond(total, time.Since(began))
	b.Say("    %.0f a second", rate)
	return rate, stop()
}

// bareLoop sends signed messages with the same client, without the dispatcher.
func (b *bench) bareLoop(ctx context.Context, r *receiver, webhook *delivery.WithSecret) (float64, error) {
	sender, err := attempt.NewSender(attempt.SenderConfig{Settings: b.settings, Clock: time.Now})
	if err != nil {
		return 0, err
	}
	defer sender.Close()
	draft := workload.Reversed(webhook.WorkspaceID, "evt_0000000")
	draft.CreatedAt = time.Now()
	body := []byte(draft.PublicEvent())
	target, err := url.Parse(r.url())
	if err != nil {
		return 0, fmt.Errorf("the receiver's address: %w", err)
	}
	n, took, _, err := measure.Repeat(ctx, goodWebhooks*inFlight, b.Duration(bareTime), func(ctx context.Context, _, _ int) error {
		a := sender.Send(ctx, &attempt.Message{
			URL: target, WebhookID: webhook.ID, EventID: draft.ID, Body: body, Secrets: []string{webhook.Secret}, DeliveryID: draft.ID + "_" + webhook.ID,
		})
		if !a.Success() {
			return fmt.Errorf("a bare message failed: %+v", a)
		}
		return nil
	})
	return measure.PerSecond(n, took), err
}

// rowWrites counts the rows written to the tables of webhooks so far. PostgreSQL
// reports what a connection has written some time later, so rowWrites waits until
// the count no longer changes.
func (b *bench) rowWrites(ctx context.Context) (int64, error) {
	const stable = 4 // equal counts in a row
	poll := time.NewTicker(500 * time.Millisecond)
	defer poll.Stop()
	before := int64(-1)
	for same := 0; ; {
		var n int64
		err := b.Pool.QueryRow(ctx, `
			SELECT coalesce(sum(n_tup_ins + n_tup_upd + n_tup_del), 0) FROM pg_stat_user_tables WHERE relname LIKE 'webhook%'`).Scan(&n)
		if err != nil {
			return 0, fmt.Errorf("cannot count row writes: %w", err)
		}
		if same++; n != before {
			same, before = 0, n
		}
		if same == stable {
			return n, nil
		}
		select {
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		case <-poll.C:
		}
	}
}
