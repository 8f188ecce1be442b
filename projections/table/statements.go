package table

import (
	"fmt"
	"strings"
)

// PageRows is the most rows that replay reads and compares at a time. Reading a page holds a
// snapshot for some milliseconds.
const PageRows = 1000

// statements holds the statements of a table. Parameters are texts, with "" for NULL. Results are
// texts, too, with NULL as NULL, except those of load.
type statements struct {
	load string // the columns that are loaded, see loadBy
	save string // inserts rows, or updates those that exist
	add  string // inserts new rows
	drop string // deletes rows of a workspace by key

	// The rest is for replay, always in one workspace.
	page  string // rows in key order after a key, with the checkpoint
	pick  string // rows by key, in no particular order
	since string // keys of rows changed after a position
	after string // a page of keys in key order after a key
	until string // the same, up to a key
}

func (t *Table) statements() statements {
	key, all := t.primaryKey(), t.allColumns()
	insert := "INSERT INTO " + t.Name + " (" + join(all, columnName("")) + ")" +
		"\nSELECT " + join(all, func(i int, c *Column) string {
		if i < len(key) {
			return c.cast("k." + c.Name)
		}
		return c.cast("nullif(k." + c.Name + ", '')")
	}) + "\n  FROM " + rowsOf(all, 1) + " AS " + named(all)
	keysAfter := "SELECT " + readKeys(t.Keys) + " FROM " + t.Name + " t WHERE t.workspace_id = $1 AND " + keyIs(t.Keys, ">", 2)
	inOrder := " ORDER BY " + join(t.Keys, columnName("t.")) + fmt.Sprintf(" LIMIT %d", PageRows)
	return statements{
		load: "t.workspace_id, t." + strings.Join(t.loadedColumns(), ", t."),
		save: insert + "\nON CONFLICT (" + join(key, columnName("")) + ") DO UPDATE SET " +
			join(t.Columns, func(_ int, c *Column) string { return c.Name + " = excluded." + c.Name }),
		add:  insert,
		drop: t.dropSQL(),

		page:  t.pageSQL(),
		pick:  "SELECT p.* FROM " + rowsOf(t.Keys, 2) + " AS " + named(t.Keys) + " CROSS JOIN LATERAL (" + t.rowSQL() + alongKey("$1", t.Keys) + ") AS p",
		since: "SELECT " + readKeys(t.Keys) + " FROM " + t.Name + " t WHERE t.workspace_id = $1 AND t.position > $2::bigint",
		after: keysAfter + inOrder,
		until: keysAfter + " AND " + keyIs(t.Keys, "<=", 2+len(t.Keys)) + inOrder,
	}
}

// alongKey returns the rest of a SELECT of a workspace's rows t whose columns by have the values of
// k. It reads them along an index that begins with the workspace and these columns, whatever the
// statistics say.
//
// With "t.id = k.id" PostgreSQL may take any index that begins with the workspace. As long as its
// statistics do not know the workspace, it expects one row there. All of these indexes then look
// the same to it, and it may read all rows of the workspace for each k. So the last column is
// limited to a range of one value, and the rows are in its order. Connections have enable_sort off
// (projections.PoolSettings), and only the right index gives this order.
func alongKey(workspace string, by []Column) string {
	last := len(by) - 1
	c := &by[last]
	where := append([]string{"t.workspace_id = " + workspace}, textOfEach(by[:last], match)...)
	for _, operator := range []string{" >= ", " <= "} {
		where = append(where, "t."+c.Name+operator+c.cast("k."+c.Name))
	}
	return " WHERE " + strings.Join(where, " AND ") + " ORDER BY t." + c.Name
}

// dropSQL deletes rows by their places (ctid), which a SELECT with alongKey finds: a DELETE has no
// order. Nothing else moves the rows, because the checkpoint of the workspace is locked.
func (t *Table) dropSQL() string {
	return "DELETE FROM " + t.Name + " t WHERE t.ctid = ANY (ARRAY(SELECT f.ctid FROM " + rowsOf(t.Keys, 2) + " AS " + named(t.Keys) +
		" CROSS JOIN LATERAL (SELECT t.ctid FROM " + t.Name + " t" + alongKey("$1", t.Keys) + ") AS f))"
}

// loadBy returns the statement that loads the rows of a lookup by workspace and other columns,
// which must be texts. Parameters: an array for each.
func (t *Table) loadBy(l *Lookup) string {
	by := textColumns(l.columns)
	each := append([]Column{workspaceColumn()}, by...)
	along := " CROSS JOIN LATERAL (SELECT * FROM " + t.Name + " t" + alongKey("k.workspace_id", by)
	if l.large == nil {
		return "SELECT 0::bigint, " + t.sql.load + " FROM " + rowsOf(each, 1) + " AS " + named(each) + along + ") AS t"
	}
	return "SELECT k.n, " + t.sql.load + " FROM " + rowsOf(each, 1) + " WITH ORDINALITY AS " + named(append(each, Column{Name: "n"})) +
		along + fmt.Sprintf(" LIMIT %d) AS t LIMIT %d", l.most+1, bounded+1)
}

// loadIn is loadBy in one workspace, $1. The other parameters: an array for each column.
func loadIn(t *Table, l *Lookup) string {
	by := textColumns(l.columns)
	return "SELECT 0::bigint, " + t.sql.load + " FROM " + rowsOf(by, 2) + " AS " + named(by) +
		" CROSS JOIN LATERAL (SELECT * FROM " + t.Name + " t" + alongKey("$1", by) + ") AS t"
}

// loadBounded is loadIn for a bounded lookup. An array that numbers the values follows the
// workspace.
func loadBounded(t *Table, l *Lookup) string {
	by := textColumns(l.columns)
	return "SELECT k.n, " + t.sql.load + " FROM unnest($2::bigint[], " + strings.TrimPrefix(rowsOf(by, 3), "unnest(") +
		" AS " + named(append([]Column{{Name: "n"}}, by...)) +
		" CROSS JOIN LATERAL (SELECT * FROM " + t.Name + " t" + alongKey("$1", by) +
		fmt.Sprintf(" LIMIT %d) AS t LIMIT %d", l.most+1, bounded+1)
}

// textColumns returns text columns with these names.
func textColumns(names []string) (columns []Column) {
	for _, name := range names {
		columns = append(columns, Column{Name: name, typ: typeText})
	}
	return columns
}

func workspaceColumn() Column { return Column{Name: "workspace_id", typ: typeText} }

func (t *Table) primaryKey() []Column { return append([]Column{workspaceColumn()}, t.Keys...) }

func (t *Table) allColumns() []Column { return append(t.primaryKey(), t.Columns...) }

// join calls text for each of the columns and joins the results with commas.
func join(columns []Column, text func(i int, c *Column) string) string {
	return strings.Join(textOfEach(columns, text), ", ")
}

func textOfEach(columns []Column, text func(i int, c *Column) string) []string {
	list := make([]string, len(columns))
	for i := range columns {
		list[i] = text(i, &columns[i])
	}
	return list
}

// columnName returns a function for join that gives the name of a column after a prefix.
func columnName(prefix string) func(int, *Column) string {
	return func(_ int, c *Column) string { return prefix + c.Name }
}

// match compares a column of t with the text of k.
func match(_ int, c *Column) string { return "t." + c.Name + " = " + c.cast("k."+c.Name) }

// rowsOf makes rows from parameters: an array of texts for each column. The first parameter has the
// number from.
func rowsOf(columns []Column, from int) string {
	array := func(i int, _ *Column) string { return fmt.Sprintf("$%d::text[]", from+i) }
	return "unnest(" + join(columns, array) + ")"
}

// named returns the alias k with the names of columns.
func named(columns []Column) string { return "k (" + join(columns, columnName("")) + ")" }

// cast converts a text to the column's type.
func (c *Column) cast(text string) string {
	if c.typ == typeText {
		return text
	}
	return text + "::" + string(c.typ)
}

// readKeys selects the key columns in the form that a Key holds.
func readKeys(key []Column) string {
	return join(key, func(_ int, c *Column) string {
		if c.typ == typeBigint {
			return "lpad(t." + c.Name + "::text, 19, '0') AS " + c.Name
		}
		return "t." + c.Name
	})
}

// keyIs compares the key with parameters. The first parameter has the number from.
func keyIs(key []Column, operator string, from int) string {
	parameter := func(i int, c *Column) string { return c.cast(fmt.Sprintf("$%d::text", from+i)) }
	return "(" + join(key, columnName("t.")) + ") " + operator + " (" + join(key, parameter) + ")"
}

// rowSQL selects the key and all columns, which it names v0, v1, ….
func (t *Table) rowSQL() string {
	value := func(i int, c *Column) string { return fmt.Sprintf("t.%s::text AS v%d", c.Name, i) }
	return "SELECT " + readKeys(t.Keys) + ", " + join(t.Columns, value) + " FROM " + t.Name + " t"
}

// pageSQL is one statement, so that rows and checkpoint come from one snapshot.
// Parameters: workspace, key, limit.
func (t *Table) pageSQL() string {
	value := func(i int, _ *Column) string { return fmt.Sprintf("p.v%d", i) }
	return "SELECT c.position, " + join(t.Keys, columnName("p.")) + ", " + join(t.Columns, value) + `
		  FROM log_checkpoint c LEFT JOIN LATERAL (
		       ` + t.rowSQL() + ` WHERE t.workspace_id = $1 AND ` + keyIs(t.Keys, ">", 2) +
		" ORDER BY " + join(t.Keys, columnName("t.")) + fmt.Sprintf(" LIMIT $%d", 2+len(t.Keys)) + `) p ON true
		 WHERE c.workspace_id = $1 AND c.consumer = 'read_models'`
}

// copySQL takes rows in the text format of COPY.
func (t *Table) copySQL() string {
	return "COPY " + t.Name + " (" + join(t.allColumns(), columnName("")) + ") FROM STDIN"
}
