package sizebench

import (
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed-bench/internal/measure"
	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed-bench/internal/workload"
	"github.com/ledgerfeed/ledgerfeed/internal/sizing"
)

// disk is what some data takes.
type disk struct {
	entries, events, deliveries, requests int
	relations                             []sizing.Relation // without what they were before
}

// of is how many things of a kind the data has.
func (d *disk) of(k sizing.Kind) int {
	switch k {
	case sizing.Delivery:
		return d.deliveries
	case sizing.Request:
		return d.requests
	default:
		return d.entries
	}
}

// table is the bytes of a table and of its indexes.
func (d *disk) table(name string) (heap, indexes int64) {
	for _, r := range d.relations {
		switch {
		case r.Table != name:
		case r.Index == "":
			heap += r.Bytes
		default:
			indexes += r.Bytes
		}
	}
	return heap, indexes
}

// round is how many entries of a workspace come together.
const round = 4

// vacuums is how often everything is vacuumed while the data comes: tables are to have
// as many dead rows between two of them as autovacuum would leave.
const vacuums = 10

// fill appends, projects, delivers and requests as production does, and measures what
// all of it takes after VACUUM (FREEZE).
func fill(ctx context.Context, db *measure.Database, size shape) (*disk, error) {
	p, err := newProducers(db, size)
	if err != nil {
		return nil, err
	}
	d := &disk{requests: size.requests}
	before, err := sizing.Relations(ctx, db.Pool)
	if err != nil {
		return nil, err
	}
	db.Say("appending %d entries of %d workspaces, and projecting them", size.entries(), size.workspaces)
	first, err := p.appendNext(ctx, round)
	if err != nil {
		return nil, err
	}
	if err := p.projectAll(ctx); err != nil {
		return nil, err
	}
	webhooks, err := p.subscribe(ctx)
	if err != nil {
		return nil, err
	}
	defer webhooks.Close()
	if d.entries, err = p.fillRest(ctx, first); err != nil {
		return nil, err
	}
	if d.deliveries, err = webhooks.Owed(ctx); err != nil {
		return nil, err
	}
	if err := webhooks.Deliver(ctx, d.deliveries); err != nil {
		return nil, err
	}
	if err := p.request(ctx, size.requests); err != nil {
		return nil, err
	}
	if err := db.Pool.QueryRow(ctx, `SELECT count(public_event) FROM event_log`).Scan(&d.events); err != nil {
		return nil, fmt.Errorf("cannot count the events: %w", err)
	}
	if _, err := db.Pool.Exec(ctx, `VACUUM (FREEZE, ANALYZE)`); err != nil {
		return nil, fmt.Errorf("cannot vacuum: %w", err)
	}
	d.relations, err = grown(ctx, db, before)
	return d, err
}

// fillRest appends what is left of the histories while it is projected, and returns how
// many entries there are with those before.
func (p *producers) fillRest(ctx context.Context, entries int) (int, error) {
	rest := 0
	err := p.projecting(ctx, func(ctx context.Context) error {
		for next := p.size.entries() / vacuums; ; {
			n, err := p.appendNext(ctx, round)
			if err != nil || n == 0 {
				return err
			}
			if err := workload.AwaitProjected(ctx, p.Database); err != nil {
				return err
			}
			if rest += n; rest >= next {
				next += p.size.entries() / vacuums
				if _, err := p.Pool.Exec(ctx, `VACUUM (ANALYZE)`); err != nil {
					return fmt.Errorf("cannot vacuum: %w", err)
				}
			}
		}
	})
	return entries + rest, err
}

// grown is what the tables and indexes have more than before.
func grown(ctx context.Context, db *measure.Database, before []sizing.Relation) ([]sizing.Relation, error) {
	list, err := sizing.Relations(ctx, db.Pool)
	if err != nil {
		return nil, err
	}
	type relation struct{ table, index string }
	was := map[relation]int64{}
	for _, r := range before {
		was[relation{r.Table, r.Index}] = r.Bytes
	}
	for i := range list {
		list[i].Bytes -= was[relation{list[i].Table, list[i].Index}]
	}
	return list, nil
}

// benchDisk reports the bytes of every table and index that the data made grow, beside
// what the calculator of ledgerfeed size takes for them.
func benchDisk(ctx context.Context, o *measure.Options) error {
	return measure.InDatabase(ctx, o, func(ctx context.Context, db *measure.Database) error {
		d, err := fill(ctx, db, shape{workspaces: 100, each: o.Size(2_000, 100), requests: o.Size(50_000, 1_000)})
		if err != nil {
			return err
		}
		o.Report.Add(measure.Figure{Name: "events in an entry", Value: float64(d.events) / float64(d.entries), Limit: sizing.EventsPerEntry, LimitIs: limitIs})
		for _, t := range d.tables() {
			d.report(o.Report, t)
		}
		if err := reportHot(ctx, db); err != nil {
			return err
		}
		return d.reportRebuilt(ctx, db)
	})
}

// reportHot adds which share of the updates of tables wrote no index, which is what
// their fill factors are for.
func reportHot(ctx context.Context, db *measure.Database) error {
	rows, err := db.Pool.Query(ctx, `
		SELECT relname::text, n_tup_hot_upd::float8 / n_tup_upd, n_tup_upd FROM pg_stat_user_tables
		 WHERE n_tup_upd > 1000 ORDER BY n_tup_upd DESC`)
	if err != nil {
		return fmt.Errorf("cannot read the statistics of tables: %w", err)
	}
	var (
		name    string
		share   float64
		updates int64
	)
	_, err = pgx.ForEachRow(rows, []any{&name, &share, &updates}, func() error {
		db.Report.Add(measure.Figure{Name: fmt.Sprintf("share of %d updates of %s that wrote no index", updates, name), Value: share})
		return nil
	})
	if err != nil {
		return fmt.Errorf("cannot read the statistics of tables: %w", err)
	}
	return nil
}

// reportRebuilt adds what the indexes of the big tables take after they were rebuilt.
func (d *disk) reportRebuilt(ctx context.Context, db *measure.Database) error {
	for _, t := range sizing.Tables() {
		if t.Per != sizing.Entry || t.Indexes < 50 {
			continue
		}
		if _, err := db.Pool.Exec(ctx, `REINDEX TABLE `+pgx.Identifier{t.Name}.Sanitize()); err != nil {
			return fmt.Errorf("cannot rebuild the indexes of %s: %w", t.Name, err)
		}
		list, err := sizing.Relations(ctx, db.Pool)
		if err != nil {
			return err
		}
		_, was := d.table(t.Name)
		_, now := (&disk{relations: list}).table(t.Name)
		db.Report.Add(measure.Figure{
			Name: "indexes of " + t.Name + " after REINDEX", Value: float64(now) / float64(d.entries), Unit: "bytes/entry", Limit: float64(was) / float64(d.entries), LimitIs: "before",
		})
	}
	return nil
}

// tables are those of package sizing, and then others that have grown, by entries.
func (d *disk) tables() []sizing.Table {
	list := sizing.Tables()
	for _, r := range d.relations {
		known := slices.ContainsFunc(list, func(t sizing.Table) bool { return t.Name == r.Table })
		if heap, indexes := d.table(r.Table); !known && heap+indexes > 0 {
			list = append(list, sizing.Table{Name: r.Table, Per: sizing.Entry})
		}
	}
	return list
}

// limitIs says what figures are held against.
const limitIs = "of ledgerfeed size"

// report adds the figures of a table.
func (d *disk) report(report *measure.Report, t sizing.Table) {
	unit, n := "bytes/"+string(t.Per), float64(d.of(t.Per))
	heap, indexes := d.table(t.Name)
	f := measure.Figure{Name: t.Name + ", with its indexes", Value: float64(heap+indexes) / n, Unit: unit}
	if t.Heap > 0 {
		f.Limit, f.LimitIs = t.Heap+t.Indexes, limitIs
		f = f.RatioWithin(Tolerance)
	}
	report.Add(f)
	for _, r := range d.relations {
		if r.Table != t.Name {
			continue
		}
		name := r.Index
		if name == "" {
			name = "the table"
		}
		report.Add(measure.Figure{Name: "    " + name, Value: float64(r.Bytes) / n, Unit: unit})
	}
}
