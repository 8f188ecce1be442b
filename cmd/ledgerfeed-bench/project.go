package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
	"github.com/ledgerfeed/ledgerfeed/projections"
)

// projecting measures how fast a backlog goes into the read tables.
func projecting(ctx context.Context, o *Options) error {
	var small, large, narrow, peak float64
	var limit float64
	// The first backlog that a server ever sees is projected at half the rate: its
	// write-ahead log has no files to use again yet, and no page of its memory was
	// touched. That is not what sizes are compared by.
	if err := withSetting(ctx, o, func(ctx context.Context, s *setting) error {
		each := o.size(500, 50)
		if err := s.fill(ctx, 100, each); err != nil {
			return err
		}
		_, err := s.drain(ctx, 100*each)
		return err
	}); err != nil {
		return err
	}
	for _, b := range []struct {
		workspaces, each int
		rate             *float64
	}{
		{100, o.size(1_000, 100), &small},
		{100, o.size(10_000, 1_000), &large},
		{o.size(20_000, 200), 10, &narrow},
	} {
		err := withSetting(ctx, o, func(ctx context.Context, s *setting) error {
			if err := s.fill(ctx, b.workspaces, b.each); err != nil {
				return err
			}
			var err error
			forgetPeak()
			*b.rate, err = s.drain(ctx, b.workspaces*b.each)
			if err != nil || b.rate != &large {
				return err
			}
			peak = peakMemory()
			limit, err = s.copyRate(ctx, b.workspaces*b.each)
			return err
		})
		if err != nil {
			return err
		}
	}
	o.Report.add(Figure{
		Name: fmt.Sprintf("project a backlog of %s entries, 100 workspaces", number(float64(100*o.size(10_000, 1_000)))), Value: large, Unit: "entries/s",
		Limit: limit, LimitIs: "COPY of the log out and of the finished rows in",
	}.atLeast(25_000))
	o.Report.add(Figure{
		Name: "    the same rate with ten times as many", Value: large, Unit: "entries/s",
		Limit: small, LimitIs: fmt.Sprintf("a backlog of %s entries", number(float64(100*o.size(1_000, 100)))),
	}.ratioWithin(0.15))
	o.Report.add(Figure{Name: "    memory of the process at its peak", Value: peak, Unit: "MiB"}.below(300))
	o.Report.add(Figure{
		Name:  fmt.Sprintf("project %s workspaces with 10 entries each", number(float64(o.size(20_000, 200)))),
		Value: narrow, Unit: "entries/s",
	}.atLeast(10_000))
	return nil
}

// fill appends the history of many workspaces.
func (s *setting) fill(ctx context.Context, workspaces, each int) error {
	s.say("appending a backlog of %d workspaces with %d entries each", workspaces, each)
	const together = 1000
	var drafts []domain.Draft
	for w := range workspaces {
		stream, err := newStream(workspaceName(w), w+1, each)
		if err != nil {
			return err
		}
		for {
			more, err := stream.next(together)
			if err != nil {
				return err
			}
			if drafts = append(drafts, more...); len(drafts) >= together {
				if _, err := s.log.Append(ctx, drafts...); err != nil {
					return err
				}
				drafts = drafts[:0]
			}
			if len(more) < together {
				break
			}
		}
	}
	if _, err := s.log.Append(ctx, drafts...); err != nil {
		return err
	}
	return s.settle(ctx)
}

// drain projects the backlog and returns the entries a second.
func (s *setting) drain(ctx context.Context, entries int) (float64, error) {
	s.say("projecting %d entries", entries)
	pool, err := pg.Open(ctx, s.url, pg.Options{MaxConns: projections.DefaultWorkers + 1, Settings: projections.PoolSettings()})
	if err != nil {
		return 0, err
	}
	defer pool.Close()
	runner, err := projections.NewRunner(projections.RunnerConfig{Pool: pool, Notifier: s.notifier, Clock: time.Now, Logger: quiet()})
	if err != nil {
		return 0, err
	}
	running, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	began := time.Now()
	go func() { ended <- runner.Run(running) }()
	err = s.awaitDrained(ctx)
	took := time.Since(began)
	stop()
	if rerr := <-ended; err == nil {
		err = rerr
	}
	return perSecond(entries, took), err
}

// passOver moves every checkpoint to the end of the log: what is measured then
// is not the projector.
func (s *setting) passOver(ctx context.Context) error {
	_, err := s.pool.Exec(ctx, `
		UPDATE log_checkpoint c SET position = h.position FROM log_head h
		 WHERE h.workspace_id = c.workspace_id AND c.consumer = $1 AND c.position < h.position`, eventlog.ReadModels)
	if err != nil {
		return fmt.Errorf("move the checkpoints: %w", err)
	}
	return nil
}

func (s *setting) awaitDrained(ctx context.Context) error {
	tick := time.NewTicker(10 * time.Millisecond) // a small backlog is gone within a second
	defer tick.Stop()
	for {
		var behind bool
		err := s.pool.QueryRow(ctx, `
			SELECT EXISTS (SELECT FROM log_checkpoint c JOIN log_head h USING (workspace_id) WHERE h.position > c.position)`).Scan(&behind)
		if err != nil {
			return fmt.Errorf("ask whether all is projected: %w", err)
		}
		if !behind {
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
	}
}

// copyRate is the least that any projector has to do: the log read once, and
// the rows it ends in written once, with their indexes.
func (s *setting) copyRate(ctx context.Context, entries int) (float64, error) {
	s.say("copying the log out and the rows in")
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return 0, fmt.Errorf("a connection to copy: %w", err)
	}
	defer conn.Release()
	tables := []string{"invoice", "charge", "time_entry", "payment", "client", "contractor", "client_credit", "credit_move", "closed_period", "anomaly"}
	for _, t := range tables {
		if _, err := conn.Exec(ctx, "CREATE TABLE bare_"+t+" (LIKE "+t+" INCLUDING ALL)"); err != nil {
			return 0, fmt.Errorf("make a bare table: %w", err)
		}
	}
	began := time.Now()
	if _, err := conn.Conn().PgConn().CopyTo(ctx, io.Discard, "COPY event_log TO STDOUT"); err != nil {
		return 0, fmt.Errorf("copy the log out: %w", err)
	}
	took := time.Since(began)
	for _, t := range tables {
		spent, err := s.copyTable(ctx, conn.Conn(), t)
		if err != nil {
			return 0, err
		}
		took += spent
	}
	return perSecond(entries, took), nil
}

// copyTable copies a table's rows into a bare one. What counts is the time of
// the way in; the way out is through a pipe beside it.
func (s *setting) copyTable(ctx context.Context, in *pgx.Conn, table string) (time.Duration, error) {
	out, err := s.pool.Acquire(ctx)
	if err != nil {
		return 0, fmt.Errorf("a connection to copy: %w", err)
	}
	defer out.Release()
	reader, writer := io.Pipe()
	went := make(chan error, 1)
	go func() {
		_, err := out.Conn().PgConn().CopyTo(ctx, writer, "COPY "+table+" TO STDOUT (FORMAT binary)")
		_ = writer.CloseWithError(err)
		went <- err
	}()
	began := time.Now()
	_, err = in.PgConn().CopyFrom(ctx, reader, "COPY bare_"+table+" FROM STDIN (FORMAT binary)")
	took := time.Since(began)
	_ = reader.CloseWithError(err)
	if werr := <-went; err == nil {
		err = werr
	}
	if err != nil {
		return 0, fmt.Errorf("copy %s: %w", table, err)
	}
	return took, nil
}
