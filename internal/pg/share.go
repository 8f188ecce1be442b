package pg

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgconn/ctxwatch"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"
)

// DB runs statements on connections to a database: a [Share] of a [Pool], or a pool of pgx.
type DB interface {
	// Acquire takes a connection, which its Release gives back.
	Acquire(ctx context.Context) (*pgxpool.Conn, error)

	Begin(ctx context.Context) (pgx.Tx, error)
	BeginTx(ctx context.Context, o pgx.TxOptions) (pgx.Tx, error)
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
	SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults
	CopyFrom(ctx context.Context, table pgx.Identifier, columns []string, rows pgx.CopyFromSource) (int64, error)
}

// Size is how many connections a DB uses at most at the same time.
func Size(db DB) int {
	switch db := db.(type) {
	case *Share:
		return db.group.most
	case *Pool:
		return db.group.most
	case *pgxpool.Pool:
		return int(db.Config().MaxConns)
	}
	return 1
}

// ConfigOf is the configuration of a connection of a DB.
func ConfigOf(db DB) *pgx.ConnConfig {
	switch db := db.(type) {
	case *Share:
		cfg := db.pool.Config().ConnConfig
		if !db.pool.pooled {
			maps.Copy(cfg.RuntimeParams, db.settings)
		}
		return cfg
	case *Pool:
		return ConfigOf(db.Share)
	case *pgxpool.Pool:
		return db.Config().ConnConfig
	}
	return nil
}

// Session takes a connection out of a DB for a use of its own, such as temporary tables. End
// closes it and gives its place back.
func Session(ctx context.Context, db DB) (conn *pgx.Conn, end func(context.Context), err error) {
	c, err := db.Acquire(ctx)
	if err != nil {
		return nil, nil, err
	}
	conn = c.Hijack()
	return conn, func(ctx context.Context) {
		_ = conn.Close(ctx) // it is gone, even if the server was not told in time
		release(conn.PgConn())
	}, nil
}

// Share is a part of the connections of a [Pool], for users with the same settings. It is
// safe for concurrent use.
type Share struct {
	pool     *Pool
	group    *group
	settings map[string]string
	cancels  bool // see ShareOptions.CancelStatements
}

// ShareOptions of a Share.
type ShareOptions struct {
	Name string // for metrics

	// Least is how many connections are reserved for the share, and Most how many it uses at the
	// same time at most. A caller that holds a connection must not wait for another one of the
	// same share: all holders could do so, for ever. It takes the second one from a share whose
	// users hold no other.
	Least, Most int

	// Long says that one use may take minutes. Long shares together take at most half of the
	// connections that are not reserved.
	Long bool

	Settings map[string]string // run-time parameters of its statements, in addition to the pool's

	// CancelStatements is like Options.CancelStatements. It is for statements that only read: a
	// COMMIT that is canceled while it waits for a standby reports success.
	CancelStatements bool
}

// NewShare makes a share.
func (p *Pool) NewShare(o ShareOptions) *Share {
	g := &group{name: o.Name, least: o.Least, most: max(1, o.Least, o.Most), long: o.Long}
	p.places.add(g)
	return (&Share{pool: p, group: g, cancels: o.CancelStatements}).With(o.Settings)
}

// With returns the same connections with other settings.
func (s *Share) With(settings map[string]string) *Share {
	all := maps.Clone(s.pool.local)
	if all == nil {
		all = map[string]string{}
	}
	maps.Copy(all, allowed(settings, s.pool.planned))
	if s.pool.pooled {
		maps.DeleteFunc(all, func(name, _ string) bool { return slices.Contains(ofSessions(), name) })
	}
	return &Share{s.pool, s.group, all, s.cancels}
}

// Use says how the connections of a share are used.
type Use struct {
	Name       string
	Used, Most int
	Waits
}

// Use returns it.
func (s *Share) Use() Use {
	return Use{s.group.name, s.pool.places.usedBy(s.group), s.group.most, s.pool.places.waitsOf(s.group)}
}

// What a connection keeps.
const (
	heldKey  = "group" // whose place it has, if Acquire handed it out
	shareKey = "share" // whose settings it has
)

// watcher ends the wait for a statement whose context ends, in the way of the share that has the
// connection.
type watcher struct {
	conn             *pgconn.PgConn
	cancel, deadline ctxwatch.Handler
	last             ctxwatch.Handler
}

func newWatcher(c *pgconn.PgConn) ctxwatch.Handler {
	return &watcher{
		conn:     c,
		cancel:   &pgconn.CancelRequestContextWatcherHandler{Conn: c, DeadlineDelay: cancelTimeout},
		deadline: &pgconn.DeadlineContextWatcherHandler{Conn: c.Conn()},
	}
}

// HandleCancel implements ctxwatch.Handler.
func (w *watcher) HandleCancel(ctx context.Context) {
	w.last = w.deadline
	if s, ok := w.conn.CustomData()[shareKey].(*Share); ok && s.cancels {
		w.last = w.cancel
	}
	w.last.HandleCancel(ctx)
}

// HandleUnwatchAfterCancel implements ctxwatch.Handler.
func (w *watcher) HandleUnwatchAfterCancel() { w.last.HandleUnwatchAfterCancel() }

// held is a connection in use, with its place. The place is given back after the connection,
// so that whoever gets it finds the connection free and opens no other.
type held struct {
	*pgxpool.Conn

	group *group // nil: it was given back
}

// Release gives both back. It may be called more than once.
func (h *held) Release() {
	if h.group != nil {
		h.Conn.Release()
		h.group.places.give(h.group)
		h.group = nil
	}
}

// Acquire takes a connection with the share's settings. It waits for a free one until ctx ends,
// also while the server refuses new connections because it has too many, as long as the pool has
// another.
func (s *Share) Acquire(ctx context.Context) (*pgxpool.Conn, error) {
	h, err := s.take(ctx)
	if err != nil {
		return nil, err
	}
	h.Conn.Conn().PgConn().CustomData()[heldKey] = h.group
	return h.Conn, nil
}

// ErrClosed means that a [Pool] gives no connection because it is closed.
var ErrClosed = errors.New("the connections to the database are closed")

// take is Acquire for the methods of this file, which give the connection back themselves.
func (s *Share) take(ctx context.Context) (*held, error) {
	t := s.pool.waits
	if t == nil {
		return s.takeUntraced(ctx)
	}
	ctx = t.TraceAcquireStart(ctx, s.pool.conns, pgxpool.TraceAcquireStartData{})
	h, err := s.takeUntraced(ctx)
	data := pgxpool.TraceAcquireEndData{Err: err}
	if err == nil {
		data.Conn = h.Conn.Conn()
	}
	t.TraceAcquireEnd(ctx, s.pool.conns, data)
	return h, err
}

func (s *Share) takeUntraced(ctx context.Context) (*held, error) {
	p := s.pool
	for again := false; ; again = true {
		if err := p.places.take(ctx, s.group, again); err != nil {
			return nil, err
		}
		c, err := p.conns.Acquire(ctx)
		if err == nil {
			h := &held{c, s.group}
			if err = s.settle(ctx, c.Conn().PgConn()); err == nil {
				return h, nil
			}
			_ = c.Conn().Close(ctx)
			h.Release()
			return nil, err
		}
		stat := p.conns.Stat()
		have := int(stat.AcquiredConns() + stat.IdleConns())
		wait := TooMany(err) && have > 0
		if wait {
			p.places.refused(s.group, have)
		}
		p.places.give(s.group)
		if !wait {
			if p.places.isClosed() {
				err = fmt.Errorf("%w: %w", ErrClosed, err)
			}
			return nil, err
		}
	}
}

// released gives the place back of a connection of Acquire.
type released struct {
	pgx.QueryTracer // nil: connections have a tracer of their own
}

// TraceRelease implements pgxpool.ReleaseTracer.
func (released) TraceRelease(_ *pgxpool.Pool, data pgxpool.TraceReleaseData) {
	release(data.Conn.PgConn())
}

// release gives the place of a connection back.
func release(c *pgconn.PgConn) {
	kept := c.CustomData()
	if g, ok := kept[heldKey].(*group); ok {
		delete(kept, heldKey)
		g.places.give(g)
	}
}

// settle gives a connection the share's settings in place of those of the share that had it
// last.
func (s *Share) settle(ctx context.Context, c *pgconn.PgConn) error {
	kept := c.CustomData()
	last, _ := kept[shareKey].(*Share)
	if last == s {
		return nil
	}
	var before map[string]string
	if last != nil {
		before = last.settings
	}
	if sql := change(before, s.settings); sql != "" && !s.pool.pooled { // there, each transaction has its own
		if _, err := c.Exec(ctx, sql).ReadAll(); err != nil {
			return fmt.Errorf("give a connection its settings: %w", err)
		}
	}
	kept[shareKey] = s
	return nil
}

// change is SQL that gives a session the settings of another share; empty: it has them.
func change(from, to map[string]string) string {
	if maps.Equal(from, to) {
		return ""
	}
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(from)) {
		if _, stays := to[name]; !stays {
			b.WriteString("RESET " + name + ";")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(to)) {
		if from[name] != to[name] {
			b.WriteString("SET " + name + " = " + Literal(to[name]) + ";")
		}
	}
	return b.String()
}

// Begin begins a transaction.
func (s *Share) Begin(ctx context.Context) (pgx.Tx, error) { return s.BeginTx(ctx, pgx.TxOptions{}) }

// BeginTx begins a transaction.
func (s *Share) BeginTx(ctx context.Context, o pgx.TxOptions) (pgx.Tx, error) {
	c, err := s.take(ctx)
	if err != nil {
		return nil, err
	}
	if s.inTx() {
		o.BeginQuery = beginQuery(o, s.settings)
	}
	tx, err := c.BeginTx(ctx, o)
	if err != nil {
		c.Release()
		return nil, err //nolint:wrapcheck // as a pool of pgx has it
	}
	return &shareTx{tx, c}, nil
}

// inTx reports whether statements get the share's settings by a transaction.
func (s *Share) inTx() bool { return s.pool.pooled && len(s.settings) > 0 }

// Exec runs a statement.
func (s *Share) Exec(ctx context.Context, sql string, args ...any) (tag pgconn.CommandTag, err error) {
	if s.inTx() {
		err = InTx(ctx, s, func(tx pgx.Tx) (err error) {
			tag, err = tx.Exec(ctx, sql, args...)
			return err //nolint:wrapcheck // as a pool of pgx has it
		})
		return tag, err
	}
	c, err := s.take(ctx)
	if err != nil {
		return tag, err
	}
	defer c.Release()
	return c.Exec(ctx, sql, args...) //nolint:wrapcheck // as a pool of pgx has it
}

// CopyFrom copies rows into a table.
func (s *Share) CopyFrom(ctx context.Context, table pgx.Identifier, columns []string, rows pgx.CopyFromSource) (n int64, err error) {
	if s.inTx() {
		err = InTx(ctx, s, func(tx pgx.Tx) (err error) {
			n, err = tx.CopyFrom(ctx, table, columns, rows)
			return err //nolint:wrapcheck // as a pool of pgx has it
		})
		return n, err
	}
	c, err := s.take(ctx)
	if err != nil {
		return 0, err
	}
	defer c.Release()
	return c.CopyFrom(ctx, table, columns, rows) //nolint:wrapcheck // as a pool of pgx has it
}

// Query runs a query. The rows' Close gives the connection back.
func (s *Share) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	on, end, err := s.one(ctx)
	if err != nil {
		return failed{err}, err
	}
	rows, err := on.Query(ctx, sql, args...)
	if err != nil {
		_ = end(err)
		return rows, err
	}
	return &shareRows{Rows: rows, end: end}, nil
}

// QueryRow runs a query of one row.
func (s *Share) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	rows, err := s.Query(ctx, sql, args...)
	return shareRow{rows, err}
}

// SendBatch sends statements together. The results' Close gives the connection back.
func (s *Share) SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults {
	on, end, err := s.one(ctx)
	if err != nil {
		return pgx.FailedBatchResults(b, err)
	}
	return &shareResults{BatchResults: on.SendBatch(ctx, b), end: end}
}

// statements are a connection or a transaction.
type statements interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults
}

// one returns what a statement with results is sent on: a connection, or where the share's
// settings are of transactions, a transaction. End gives it back when the results are read;
// the error is theirs, and then that of the whole.
func (s *Share) one(ctx context.Context) (on statements, end func(error) error, err error) {
	if s.inTx() {
		tx, err := s.Begin(ctx)
		if err != nil {
			return nil, nil, err
		}
		return tx, func(err error) error {
			if err != nil {
				Rollback(ctx, tx)
				return err
			}
			return tx.Commit(ctx)
		}, nil
	}
	c, err := s.take(ctx)
	if err != nil {
		return nil, nil, err
	}
	return c, func(err error) error {
		c.Release()
		return err
	}, nil
}

// shareTx gives its connection back at its end.
type shareTx struct {
	pgx.Tx

	conn *held
}

// Commit commits.
func (t *shareTx) Commit(ctx context.Context) error {
	defer t.conn.Release()
	return t.Tx.Commit(ctx) //nolint:wrapcheck // as a pool of pgx has it
}

// Rollback rolls back.
func (t *shareTx) Rollback(ctx context.Context) error {
	defer t.conn.Release()
	return t.Tx.Rollback(ctx) //nolint:wrapcheck // as a pool of pgx has it
}

// shareRows give their connection back when they are closed.
type shareRows struct {
	pgx.Rows

	end func(error) error // nil: it was given back
	err error             // of the end
}

// Close closes the rows.
func (r *shareRows) Close() {
	r.Rows.Close()
	if r.end != nil {
		r.err = r.end(r.Rows.Err())
		r.end = nil
	}
}

// Err returns the error of the rows that are closed.
func (r *shareRows) Err() error {
	if err := r.Rows.Err(); err != nil {
		return err
	}
	return r.err
}

// Next goes to the next row; after the last one it closes the rows.
func (r *shareRows) Next() bool {
	if r.Rows.Next() {
		return true
	}
	r.Close()
	return false
}

// Scan reads a row.
func (r *shareRows) Scan(dest ...any) error {
	err := r.Rows.Scan(dest...)
	if err != nil {
		r.Close()
	}
	return err
}

// Values reads a row.
func (r *shareRows) Values() ([]any, error) {
	values, err := r.Rows.Values()
	if err != nil {
		r.Close()
	}
	return values, err //nolint:wrapcheck // as a pool of pgx has it
}

// shareRow is the first of some rows.
type shareRow struct {
	rows pgx.Rows
	err  error
}

// Scan reads it; the error is pgx.ErrNoRows where there is none.
func (r shareRow) Scan(dest ...any) error {
	if r.err != nil {
		return r.err
	}
	defer r.rows.Close()
	if !r.rows.Next() {
		if err := r.rows.Err(); err != nil {
			return err
		}
		return pgx.ErrNoRows
	}
	if err := r.rows.Scan(dest...); err != nil {
		return err
	}
	r.rows.Close()
	return r.rows.Err()
}

// shareResults give their connection back when they are closed.
type shareResults struct {
	pgx.BatchResults

	end func(error) error // nil: it was given back
}

// Close reads what is left of the results.
func (r *shareResults) Close() (err error) {
	end := r.end
	if end == nil {
		return r.BatchResults.Close()
	}
	r.end = nil
	err = errPanicked
	defer func() { err = end(err) }() // also when a callback of the batch panics
	err = r.BatchResults.Close()
	return err
}

var errPanicked = errors.New("a callback panicked")

// failed are the rows of a query without a connection.
type failed struct{ err error }

func (f failed) Close()                                       {}
func (f failed) Err() error                                   { return f.err }
func (f failed) CommandTag() pgconn.CommandTag                { return pgconn.CommandTag{} }
func (f failed) FieldDescriptions() []pgconn.FieldDescription { return nil }
func (f failed) Next() bool                                   { return false }
func (f failed) Scan(...any) error                            { return f.err }
func (f failed) Values() ([]any, error)                       { return nil, f.err }
func (f failed) RawValues() [][]byte                          { return nil }
func (f failed) Conn() *pgx.Conn                              { return nil }
func (f failed) TypeMap() *pgtype.Map                         { return nil }
