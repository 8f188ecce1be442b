package sizebench

import (
	"context"
	"fmt"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed-bench/internal/measure"
	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed-bench/internal/workload"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
	"github.com/ledgerfeed/ledgerfeed/internal/sizing"
)

// benchWAL reports the write-ahead log of each step, with and without a checkpoint
// before it. It counts what the whole server writes: nothing else is to run on it.
func benchWAL(ctx context.Context, o *measure.Options) error {
	for _, compression := range []string{"off", "on"} {
		err := measure.InDatabase(ctx, o, func(ctx context.Context, db *measure.Database) error {
			if err := compress(ctx, db, compression); err != nil {
				return err
			}
			p, err := newProducers(db, shape{workspaces: 100, each: 2_000})
			if err != nil {
				return err
			}
			w := &wal{producers: p, compression: compression}
			return w.measure(ctx)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// compress sets wal_compression for the database's connections.
func compress(ctx context.Context, db *measure.Database, value string) error {
	_, err := db.Pool.Exec(ctx, `
		DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET wal_compression = `+value+`', current_database()); END $$`)
	if pg.Forbidden(err) {
		return fmt.Errorf("measuring the write-ahead log needs a superuser, who may set wal_compression: %w", err)
	}
	if err != nil {
		return fmt.Errorf("cannot set wal_compression: %w", err)
	}
	db.Pool.Reset() // it holds for connections made from now on
	return nil
}

// wal measures under one value of wal_compression.
type wal struct {
	*producers
	compression string
}

// written is what some work makes the server write, in bytes: the records, and the full
// pages, which the first change of each page after a checkpoint writes.
type written struct {
	records, pages float64
	n              int // what the work has done
}

// each is the bytes for one.
func (w written) each() (records, pages float64) {
	return w.records / float64(w.n), w.pages / float64(w.n)
}

// write does work right after a checkpoint and returns what it makes the server write.
func (w *wal) write(ctx context.Context, work func(context.Context) (int, error)) (done written, err error) {
	if _, err := w.Pool.Exec(ctx, `CHECKPOINT`); err != nil {
		return done, fmt.Errorf("cannot make a checkpoint: %w", err)
	}
	var before string
	if err := w.Pool.QueryRow(ctx, `SELECT pg_current_wal_flush_lsn()::text`).Scan(&before); err != nil {
		return done, fmt.Errorf("cannot read the position of the write-ahead log: %w", err)
	}
	if done.n, err = work(ctx); err != nil {
		return done, err
	}
	if err := w.Pool.QueryRow(ctx, `
		SELECT sum(record_size)::float8, sum(fpi_size)::float8 FROM pg_get_wal_stats($1::pg_lsn, pg_current_wal_flush_lsn())`, before).Scan(&done.records, &done.pages); err != nil {
		return done, fmt.Errorf("cannot read what was written to the write-ahead log: %w", err)
	}
	return done, nil
}

// report reports what some work writes for one, of a unit, beside the figure of the
// calculator for the records; 0: it has none.
func (w *wal) report(ctx context.Context, name, unit string, known float64, work func(context.Context) (int, error)) error {
	done, err := w.write(ctx, work)
	if err != nil {
		return err
	}
	records, pages := done.each()
	f := measure.Figure{Name: name + ", wal_compression " + w.compression, Value: records, Unit: "bytes/" + unit}
	if known > 0 {
		f.Limit, f.LimitIs = known, limitIs
		f = f.RatioWithin(Tolerance)
	}
	w.Report.Add(f)
	w.Report.Add(measure.Figure{Name: "    full pages", Value: pages, Unit: "bytes/" + unit})
	return nil
}

func (w *wal) measure(ctx context.Context) error {
	w.Say("filling %d workspaces to measure the write-ahead log, wal_compression %s", w.size.workspaces, w.compression)
	if _, err := w.Pool.Exec(ctx, `CREATE EXTENSION pg_walinspect`); err != nil {
		return fmt.Errorf("cannot look into the write-ahead log (the extension pg_walinspect is of PostgreSQL's contrib): %w", err)
	}
	for range w.Size(250, 25) {
		if _, err := w.appendNext(ctx, round); err != nil {
			return err
		}
	}
	if err := w.projectAll(ctx); err != nil {
		return err
	}
	if err := w.Quiesce(ctx); err != nil {
		return err
	}
	known := sizing.WALCosts()
	singles := func(ctx context.Context) (int, error) { return repeat(ctx, 10, w.appendSingly) }
	if err := w.report(ctx, "append single entries, 10 of each workspace", "entry", known.Append, singles); err != nil {
		return err
	}
	batches := func(ctx context.Context) (int, error) { return w.appendNext(ctx, 100) }
	if err := w.report(ctx, "append batches of 100 to each workspace", "entry", 0, batches); err != nil {
		return err
	}
	backlog := func(ctx context.Context) (int, error) { return 110 * w.size.workspaces, w.projectAll(ctx) }
	if err := w.report(ctx, "project these as a backlog", "entry", 0, backlog); err != nil {
		return err
	}
	return w.live(ctx)
}

// repeat does work some times, and adds up what it has done.
func repeat(ctx context.Context, times int, work func(context.Context) (int, error)) (all int, err error) {
	for range times {
		n, err := work(ctx)
		if err != nil {
			return all, err
		}
		all += n
	}
	return all, nil
}

// live measures entries that are projected as they come, with so many of each workspace
// after a checkpoint, and what follows from them.
func (w *wal) live(ctx context.Context) error {
	webhooks, err := w.subscribe(ctx)
	if err != nil {
		return err
	}
	defer webhooks.Close()
	known := sizing.WALCosts()
	err = w.projecting(ctx, func(ctx context.Context) error {
		for _, p := range known.Pages {
			done, err := w.write(ctx, func(ctx context.Context) (int, error) { return repeat(ctx, p.Entries, w.appendVisibly) })
			if err != nil {
				return err
			}
			records, pages := done.each()
			name := fmt.Sprintf("append and project %d of each workspace after a checkpoint, wal_compression %s", p.Entries, w.compression)
			w.Report.Add(measure.Figure{Name: name, Value: records, Unit: "bytes/entry", Limit: known.Append + known.Project, LimitIs: limitIs}.RatioWithin(Tolerance))
			limit := p.Plain
			if w.compression == "on" {
				limit = p.Compressed
			}
			w.Report.Add(measure.Figure{Name: "    full pages", Value: pages, Unit: "bytes/entry", Limit: limit, LimitIs: limitIs})
		}
		return nil
	})
	if err != nil {
		return err
	}
	deliveries, err := webhooks.Owed(ctx)
	if err != nil {
		return err
	}
	if err := w.report(ctx, "deliver an event to a webhook", "delivery", known.Deliver, func(ctx context.Context) (int, error) {
		return deliveries, webhooks.Deliver(ctx, deliveries)
	}); err != nil {
		return err
	}
	requests := w.Size(20_000, 1_000)
	if err := w.report(ctx, "a request in the request log", "request", known.Request, func(ctx context.Context) (int, error) {
		return requests, w.request(ctx, requests)
	}); err != nil {
		return err
	}
	return w.report(ctx, "vacuum and freeze everything", "entry", 0, w.freeze)
}

// appendVisibly appends one entry of each workspace, each in a transaction of its own,
// and waits until they are projected.
func (w *wal) appendVisibly(ctx context.Context) (int, error) {
	n, err := w.appendSingly(ctx)
	if err != nil {
		return 0, err
	}
	return n, workload.AwaitProjected(ctx, w.Database)
}

// freeze vacuums everything and returns the number of entries.
func (w *wal) freeze(ctx context.Context) (entries int, err error) {
	if _, err := w.Pool.Exec(ctx, `VACUUM (FREEZE)`); err != nil {
		return 0, fmt.Errorf("cannot vacuum: %w", err)
	}
	if err := w.Pool.QueryRow(ctx, `SELECT count(*) FROM event_log`).Scan(&entries); err != nil {
		return 0, fmt.Errorf("cannot count the entries: %w", err)
	}
	return entries, nil
}
