package relaybench

import (
	"context"
	"encoding/hex"
	"fmt"
	"strconv"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"golang.org/x/sync/errgroup"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed-bench/internal/measure"
	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed-bench/internal/workload"
	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/internal/flow"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
	"github.com/ledgerfeed/ledgerfeed/internal/relay"
)

// Benchmark is ledgerfeed-bench relay.
func Benchmark(o *measure.Options) measure.Benchmark {
	return measure.Benchmark{
		Name: "relay", Short: "The relay to a message broker, and ingest", SetUp: measure.ServingHeap, Parts: []measure.Part{
			{Name: "relay", Measure: func(ctx context.Context) error { return benchRelay(ctx, o, 100, o.Size(2000, 50), 20_000) }},
			{Name: "one", Measure: func(ctx context.Context) error { return benchRelay(ctx, o, 1, o.Size(50_000, 500), 0) }},
			{Name: "lag", Measure: func(ctx context.Context) error { return benchLag(ctx, o) }},
			{Name: "outbox", Measure: func(ctx context.Context) error { return benchOutbox(ctx, o) }},
		},
	}
}

// benchRelay measures how fast a backlog is sent to a broker on this machine, whole.
func benchRelay(ctx context.Context, o *measure.Options, workspaces, each int, target float64) error {
	return measure.InDatabase(ctx, o, func(ctx context.Context, db *measure.Database) error {
		if err := workload.Fill(ctx, db, workspaces, each); err != nil {
			return err
		}
		if err := workload.SkipProjection(ctx, db); err != nil {
			return err
		}
		url, stop, err := startServer()
		if err != nil {
			return err
		}
		defer stop()
		entries, reading, err := readAll(ctx, db, workspaces)
		if err != nil {
			return err
		}
		n := 0
		for _, list := range entries {
			n += len(list)
		}
		publishing, err := publishAll(ctx, url+"/?stream=LIMIT&subject=limit&replicas=1", entries)
		if err != nil {
			return err
		}
		sending, err := relayAll(ctx, db, url+"/?replicas=1", n)
		if err != nil {
			return err
		}
		rate := measure.Figure{
			Name: fmt.Sprintf("relay %s entries of %d workspaces", measure.Number(float64(n)), workspaces), Value: measure.PerSecond(n, sending), Unit: "entries/s",
			Limit: measure.PerSecond(n, publishing), LimitIs: "the same publisher with the same bytes in memory, workspaces side by side",
		}
		if target > 0 {
			rate = rate.AtLeast(target)
		}
		o.Report.Add(rate)
		o.Report.Add(measure.Figure{
			Name: "    the same beside reading alone", Value: measure.PerSecond(n, sending), Unit: "entries/s",
			Limit: measure.PerSecond(n, reading), LimitIs: "reading the log, one workspace after the other",
		})
		return nil
	})
}

// readAll reads the whole log.
func readAll(ctx context.Context, db *measure.Database, workspaces int) (entries [][]domain.Entry, took time.Duration, err error) {
	began := time.Now()
	for w := range workspaces {
		var list []domain.Entry
		err := db.Log.Walk(ctx, workload.WorkspaceID(w), 0, func(e *domain.Entry) error {
			list = append(list, *e)
			return nil
		})
		if err != nil {
			return nil, 0, err
		}
		entries = append(entries, list)
	}
	return entries, time.Since(began), nil
}

// publishers is how many workspaces are published side by side where the log is not read.
const publishers = 64

// publishAll publishes entries without a log.
func publishAll(ctx context.Context, url string, entries [][]domain.Entry) (time.Duration, error) {
	publisher, err := open(ctx, url)
	if err != nil {
		return 0, err
	}
	defer func() { _ = publisher.Close() }()
	began := time.Now()
	group, _ := errgroup.WithContext(ctx)
	group.SetLimit(publishers)
	for _, list := range entries {
		group.Go(func() error {
			for i := range list {
				e := &list[i]
				if err := publisher.Publish(e.WorkspaceID, messageOf(e)); err != nil {
					return fmt.Errorf("publish: %w", err)
				}
			}
			return nil
		})
	}
	err = group.Wait()
	return time.Since(began), err
}

// messageOf is the message that a relay makes of an entry.
func messageOf(e *domain.Entry) *message.Message {
	line := e.AppendNDJSON(nil)
	msg := message.NewMessage(e.ID, line[:len(line)-1])
	msg.Metadata = message.Metadata{
		relay.MetadataWorkspaceID: e.WorkspaceID, relay.MetadataType: e.Type, relay.MetadataPosition: strconv.FormatInt(e.Position, 10),
		relay.MetadataCreatedAt: domain.FormatTime(e.CreatedAt), relay.MetadataContentType: "application/json", relay.MetadataChain: hex.EncodeToString(e.Chain[:]),
	}
	return msg
}

// open opens a stream that is made, and waits for it.
func open(ctx context.Context, url string) (relay.Publisher, error) {
	publisher, err := relay.OpenJetStream(url, relay.BrokerConfig{Name: "ledgerfeed-bench", Logger: measure.NoLogger()})
	if err != nil {
		return nil, err
	}
	for late := time.Now().Add(startTimeout); ; flow.Sleep(ctx, time.Millisecond) {
		if err := publisher.Probe(ctx); err == nil || ctx.Err() != nil || time.Now().After(late) {
			return publisher, err
		}
	}
}

// relayAll runs a relay until it has sent so many entries.
func relayAll(ctx context.Context, db *measure.Database, url string, entries int) (time.Duration, error) {
	db.Say("relaying %d entries", entries)
	pool, err := pg.Open(ctx, db.URL, pg.Options{MaxConns: relay.Connections, Settings: relay.PoolSettings()})
	if err != nil {
		return 0, err
	}
	defer pool.Close()
	publisher, err := open(ctx, url)
	if err != nil {
		return 0, err
	}
	r, err := relay.New(relay.Config{
		Pool: pool, Notifier: db.Notifier, Publisher: publisher, Clock: time.Now, Logger: measure.NoLogger(), Name: "bench", Form: relay.FormEntries,
	})
	if err != nil {
		return 0, err
	}
	running, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	began := time.Now()
	go func() { ended <- r.Run(running) }()
	err = awaitCount(ctx, db, `SELECT coalesce(sum(position), 0) FROM log_checkpoint WHERE consumer = '`+relay.Consumer("bench")+`'`, entries)
	took := time.Since(began)
	stop()
	if endErr := <-ended; err == nil {
		err = endErr
	}
	return took, err
}

// awaitCount waits until a statement returns so many.
func awaitCount(ctx context.Context, db *measure.Database, sql string, want int) error {
	for {
		var n int
		if err := db.Pool.QueryRow(ctx, sql).Scan(&n); err != nil {
			return fmt.Errorf("count: %w", err)
		}
		if n >= want {
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(10 * time.Millisecond):
		}
	}
}
