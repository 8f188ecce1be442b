package copying

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Database is where the copy is.
type Database struct {
	pool *sql.DB
	dialect
}

// dialect is what differs between the databases.
type dialect interface {
	// begin begins a transaction that changes the copy. The database ends it when it has waited for
	// the copier for so long.
	begin(idle time.Duration) string
	// prepare are statements that come before the first table.
	prepare() []string
	// table is the name of a table in statements.
	table(name string) string
	// typeOf is the type of a column.
	typeOf(k kind) string
	// columns are the names of a table's columns; none: there is no such table.
	columns(ctx context.Context, conn *sql.Conn, table string) ([]string, error)
	// insert inserts rows, which are given one after the other.
	insert(ctx context.Context, conn *sql.Conn, into string, columns []column, cells []cell) error
	// temporary is the name of a table that this connection alone sees.
	temporary(name string) string
	// change runs an action such as DELETE FROM t for each key in columns.
	change(ctx context.Context, conn *sql.Conn, action string, columns []string, keys []cell) error
	// indexOf begins the definition of an index of a temporary table.
	indexOf(table, name string) string
	// shown is the text of a column, as the API writes it.
	shown(c column) string
	// views is how the views for reporting are written.
	views() viewWords
}

// Open opens the database at a target: sqlite:FILE or postgres://…, in which schema holds the copy.
func Open(ctx context.Context, target, schema string) (*Database, error) {
	var (
		d   *Database
		err error
	)
	switch scheme, rest, _ := strings.Cut(target, ":"); {
	case scheme == "sqlite" && rest != "" && schema == "":
		d, err = openSQLite(rest)
	case scheme == "sqlite" && rest != "":
		return nil, errors.New("a schema is for PostgreSQL alone")
	case scheme == "postgres" || scheme == "postgresql":
		d, err = openPostgres(target, schema)
	default:
		return nil, errors.New("want sqlite:FILE or postgres://…")
	}
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	if err := d.pool.PingContext(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("open the copy: %w", err), d.Close())
	}
	return d, nil
}

// openTimeout is for several addresses, one after the other.
const openTimeout = 2 * time.Minute

// Close closes the database.
func (d *Database) Close() error { return d.pool.Close() }

// connected runs work on one connection.
func (d *Database) connected(ctx context.Context, work func(*writer) error) (err error) {
	conn, err := d.pool.Conn(ctx)
	if err != nil {
		return fmt.Errorf("connect to the copy: %w", err)
	}
	defer func() { err = errors.Join(err, unlessGone(conn.Close())) }()
	return work(&writer{Database: d, conn: conn})
}

const (
	rollbackTimeout = 5 * time.Second
	// statementTimeout limits one statement. The longest ones remove all rows of a list.
	statementTimeout = 30 * time.Minute
)

// transaction runs work in one transaction, in which the database may wait so long for the copier.
func (d *Database) transaction(ctx context.Context, idle time.Duration, work func(*writer) error) error {
	return d.connected(ctx, func(w *writer) error {
		if err := w.exec(ctx, d.begin(idle)); err != nil {
			return err
		}
		err := work(w)
		if err == nil {
			err = w.exec(ctx, "COMMIT")
		}
		if err == nil {
			return nil
		}
		// The transaction ends even if ctx has, and without an answer the connection ends.
		ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackTimeout)
		defer cancel()
		_, rollback := w.conn.ExecContext(ending, "ROLLBACK")
		return errors.Join(err, unlessGone(rollback))
	})
}

// unlessGone is an error of ending what a connection had begun; nil if the connection is gone, and all
// of it with it.
func unlessGone(err error) error {
	if errors.Is(err, driver.ErrBadConn) || errors.Is(err, sql.ErrConnDone) {
		return nil
	}
	return err
}

// writer is a connection to the copy.
type writer struct {
	*Database

	conn *sql.Conn
}

func (w *writer) exec(ctx context.Context, statement string, args ...any) error {
	_, err := w.affect(ctx, statement, args...)
	return err
}

// affect runs a statement and returns how many rows it changed.
func (w *writer) affect(ctx context.Context, statement string, args ...any) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, statementTimeout)
	defer cancel()
	result, err := w.conn.ExecContext(ctx, statement, args...)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", firstWords(statement), err)
	}
	return result.RowsAffected() //nolint:wrapcheck // neither driver returns an error
}

// firstWords says what a statement is, without its length.
func firstWords(statement string) string {
	words := strings.Fields(statement)
	return strings.Join(words[:min(4, len(words))], " ")
}

// state is where the copy of a list is.
type state struct {
	workspace, permissions, cursor string
	position                       int64

	// sight has the permissions of a key that sees less than the one before, until the list has been
	// read with it.
	sight string
}

// stateTable has a row for each list.
const stateTable = "_ledgerfeed"

// createState creates the table with the states.
func (w *writer) createState(ctx context.Context) error {
	for _, statement := range w.prepare() {
		if err := w.exec(ctx, statement); err != nil {
			return err
		}
	}
	return w.exec(ctx, `CREATE TABLE IF NOT EXISTS `+w.table(stateTable)+` (
		list text PRIMARY KEY, workspace text NOT NULL, permissions text NOT NULL, cursor text NOT NULL,
		position bigint NOT NULL, fresh_at `+w.typeOf(moment)+`, copied_at `+w.typeOf(moment)+`)`)
}

// states reads where each list is.
func (w *writer) states(ctx context.Context) (map[string]state, error) {
	rows, err := w.conn.QueryContext(ctx, `SELECT list, workspace, permissions, cursor, position FROM `+w.table(stateTable)) //nolint:gosec // a quoted name
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", stateTable, err)
	}
	defer rows.Close()
	states := map[string]state{}
	for rows.Next() {
		var (
			list string
			s    state
		)
		if err := rows.Scan(&list, &s.workspace, &s.permissions, &s.cursor, &s.position); err != nil {
			return nil, fmt.Errorf("read %s: %w", stateTable, err)
		}
		states[list] = s
	}
	return states, rows.Err()
}

// create creates the tables of a list.
func (w *writer) create(ctx context.Context, l *list) error {
	for _, t := range l.tables {
		var columns []string
		for _, c := range t.columns {
			columns = append(columns, quoted(c.name)+" "+w.typeOf(c.kind))
		}
		statement := fmt.Sprintf("CREATE TABLE %s (%s, PRIMARY KEY (%s))", w.table(t.name), strings.Join(columns, ", "), quotedAll(t.keyColumns()))
		if err := w.exec(ctx, statement); err != nil {
			return fmt.Errorf("table %s, which the copy needs, cannot be made: %w", t.name, err)
		}
	}
	return nil
}

// extend adds the columns that the tables of a list do not have yet, and returns their names.
func (w *writer) extend(ctx context.Context, l *list) (added []string, err error) {
	for _, t := range l.tables {
		have, err := w.columns(ctx, w.conn, t.name)
		if err != nil {
			return nil, fmt.Errorf("read the columns of %s: %w", t.name, err)
		}
		known := map[string]bool{}
		for _, name := range have {
			known[name] = true
		}
		if len(known) == 0 {
			added = append(added, t.name)
			if err := w.create(ctx, &list{tables: []*table{t}}); err != nil {
				return nil, err
			}
			continue
		}
		for _, c := range t.columns {
			if known[c.name] {
				continue
			}
			added = append(added, t.name+"."+c.name)
			if err := w.exec(ctx, "ALTER TABLE "+w.table(t.name)+" ADD COLUMN "+quoted(c.name)+" "+w.typeOf(c.kind)); err != nil {
				return nil, err
			}
		}
	}
	return added, nil
}

// empty removes all rows of a list, or notes that they are removed.
func (w *writer) empty(ctx context.Context, l *list, keep bool, now string) error {
	if keep {
		return w.exec(ctx, "UPDATE "+w.table(l.name())+" SET "+removedAt+" = $1 WHERE "+removedAt+" IS NULL", now)
	}
	for _, t := range l.tables {
		if err := w.exec(ctx, "DELETE FROM "+w.table(t.name)); err != nil {
			return err
		}
	}
	return nil
}

// put takes a batch over. fresh says that none of its rows can be there.
func (w *writer) put(ctx context.Context, b *batch, fresh, keep bool, now string) error {
	if !fresh {
		if err := w.remove(ctx, b.list, b.keys()); err != nil {
			return err
		}
	}
	if len(b.removed) > 0 {
		remove := w.remove
		if keep {
			remove = func(ctx context.Context, l *list, keys []cell) error {
				action := "UPDATE " + w.table(l.name()) + " SET " + removedAt + " = '" + now + "'"
				return w.change(ctx, w.conn, action, l.root().keyColumns(), keys)
			}
		}
		if err := remove(ctx, b.list, b.removed); err != nil {
			return err
		}
	}
	for i, t := range b.list.tables {
		if len(b.tables[i]) == 0 {
			continue
		}
		if err := w.insert(ctx, w.conn, w.table(t.name), t.columns, b.tables[i]); err != nil {
			return fmt.Errorf("insert into %s: %w", t.name, err)
		}
	}
	return w.nameInHistory(ctx, b)
}

// nameInHistory gives the rows of credit_history the names that their clients have in credits, after a
// batch of either: the API shows the name of now in both, and a rename moves the rows of credits alone.
func (w *writer) nameInHistory(ctx context.Context, b *batch) error {
	const from, to, client = "credits", "credit_history", "client_id"
	root := b.list.root()
	at := slices.IndexFunc(root.columns, func(c column) bool { return c.name == client })
	if b.rows == 0 || at < 0 || root.name != from && root.name != to {
		return nil
	}
	var keys []cell
	for cells := range slices.Chunk(b.tables[0], len(root.columns)) {
		keys = append(keys, cells[at])
	}
	its := " FROM " + w.table(from) + " AS c WHERE c.client_id = " + to + ".client_id"
	action := "UPDATE " + w.table(to) + " SET client_name = CASE WHEN EXISTS (SELECT 1" + its + ") THEN (SELECT c.client_name" + its + ") ELSE client_name END"
	if err := w.change(ctx, w.conn, action, []string{client}, keys); err != nil {
		return fmt.Errorf("name the clients in %s: %w", to, err)
	}
	return nil
}

// remove removes rows of a list with what belongs to them.
func (w *writer) remove(ctx context.Context, l *list, keys []cell) error {
	if len(keys) == 0 {
		return nil
	}
	for _, t := range l.tables {
		columns := t.keyColumns()
		if t.at > 0 {
			columns = t.parentColumns()
		}
		if err := w.change(ctx, w.conn, "DELETE FROM "+w.table(t.name), columns, keys); err != nil {
			return fmt.Errorf("delete from %s: %w", t.name, err)
		}
	}
	return nil
}

// errOtherWriter is the error of a copy that another process changes, too.
var errOtherWriter = errors.New("another process changes this copy: stop it, or copy to another place")

// step is how a list moves from one cursor to the next.
type step struct {
	from, to string
	position int64
	fresh    string // when the API said that there is nothing more; empty: there is more
	whole    string // when the list was read from its start; empty: it was not
}

// advance moves a list. Its row in the table stays locked until the transaction ends, so two
// processes cannot both go on from the same place.
func (w *writer) advance(ctx context.Context, l *list, s step) error {
	n, err := w.affect(ctx, `UPDATE `+w.table(stateTable)+` SET cursor = $1, position = $2, fresh_at = coalesce($3, fresh_at),
		copied_at = coalesce($4, copied_at) WHERE list = $5 AND cursor = $6`, s.to, s.position, null(s.fresh), null(s.whole), l.name(), s.from)
	if err == nil && n != 1 {
		err = errOtherWriter
	}
	return err
}

// null is a text for a statement; an empty one is NULL.
func null(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

func names(columns []column) []string {
	all := make([]string, len(columns))
	for i, c := range columns {
		all[i] = c.name
	}
	return all
}

func quoted(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }

func quotedAll(names []string) string {
	all := make([]string, len(names))
	for i, name := range names {
		all[i] = quoted(name)
	}
	return strings.Join(all, ", ")
}
