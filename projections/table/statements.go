package table

import (
	"fmt"
	"strings"
)

// PageRows is the most rows that replay reads and compares at a time: a page takes
// some milliseconds of a snapshot.
const PageRows = 1000

// statements of a table. Parameters are texts, with "" for NULL, and so are the
// results, with NULL, except those of load.
type statements struct {
	load string // what load reads, see loadBy
	save string // inserts rows, or changes those that are there
	add  string // inserts rows that are not there
	drop string // deletes rows of a workspace by key

	// The rest is for replay and names one workspace.
	page  string // rows in key order after a key, with the checkpoint
	pick  string // rows by key, in no order
	since string // keys of rows changed after a position
	after string // a page of keys in key order after a key
	until string // the same, up to a key
}

func (t *Table) statements() statements {
	key, all := t.primaryKey(), t.allColumns()
	insert := "INSERT INTO " + t.Name + " (" + join(all, ", ", columnName("")) + ")" +
		"\nSELECT " + join(all, ", ", func(i int, c *Column) string {
		if i < len(key) {
			return c.cast("k." + c.Name)
		}
		return c.cast("nullif(k." + c.Name + ", '')")
	}) + "\n  FROM " + rowsOf(all, 1) + " AS " + named(all)
	keysAfter := "SELECT " + readKeys(t.Keys) + " FROM " + t.Name + " t WHERE t.workspace_id = $1 AND " + keyIs(t.Keys, ">", 2)
	inOrder := " ORDER BY " + join(t.Keys, ", ", columnName("t.")) + fmt.Sprintf(" LIMIT %d", PageRows)
	return statements{
		load: "t.workspace_id, t." + strings.Join(t.loadedColumns(), ", t."),
		save: insert + "\nON CONFLICT (" + join(key, ", ", columnName("")) + ") DO UPDATE SET " +
			join(t.Columns, ", ", func(_ int, c *Column) string { return c.Name + " = excluded." + c.Name }),
		add:  insert,
		drop: "DELETE FROM " + t.Name + " t USING " + rowsOf(t.Keys, 2) + " AS " + named(t.Keys) + " WHERE t.workspace_id = $1 AND " + join(t.Keys, " AND ", match),

		page:  t.pageSQL(),
		pick:  t.rowSQL() + " JOIN " + rowsOf(t.Keys, 2) + " AS " + named(t.Keys) + " ON t.workspace_id = $1 AND " + join(t.Keys, " AND ", match),
		since: "SELECT " + readKeys(t.Keys) + " FROM " + t.Name + " t WHERE t.workspace_id = $1 AND t.position > $2::bigint",
		after: keysAfter + inOrder,
		until: keysAfter + " AND " + keyIs(t.Keys, "<=", 2+len(t.Keys)) + inOrder,
	}
}

// loadBy is the statement that loads the rows of a lookup, found by their
// workspace and other columns, which must be texts. Parameters: an array for each.
func (t *Table) loadBy(l *Lookup) string {
	by := append([]Column{workspaceColumn()}, textColumns(l.columns)...)
	if l.large == nil {
		return "SELECT 0::bigint, " + t.sql.load + " FROM " + t.Name + " t JOIN " + rowsOf(by, 1) + " AS " + named(by) + " ON " + join(by, " AND ", match)
	}
	return "SELECT k.n, " + t.sql.load + " FROM " + rowsOf(by, 1) + " WITH ORDINALITY AS " + named(append(by, Column{Name: "n"})) +
		" CROSS JOIN LATERAL (SELECT * FROM " + t.Name + " t WHERE " + join(by, " AND ", match) +
		fmt.Sprintf(" LIMIT %d) AS t LIMIT %d", l.most+1, bounded+1)
}

// loadIn is loadBy in the one workspace $1: on distributed tables, its node alone is asked. The
// other parameters: an array for each column.
func loadIn(t *Table, l *Lookup) string {
	by := textColumns(l.columns)
	return "SELECT 0::bigint, " + t.sql.load + " FROM " + t.Name + " t JOIN " + rowsOf(by, 2) + " AS " + named(by) + " ON " + join(by, " AND ", match) +
		" WHERE t.workspace_id = $1"
}

// loadBounded is loadIn of a bounded lookup, after the workspace with an array of the values'
// numbers.
func loadBounded(t *Table, l *Lookup) string {
	by := textColumns(l.columns)
	return "SELECT k.n, " + t.sql.load + " FROM unnest($2::bigint[], " + strings.TrimPrefix(rowsOf(by, 3), "unnest(") +
		" AS " + named(append([]Column{{Name: "n"}}, by...)) +
		" CROSS JOIN LATERAL (SELECT * FROM " + t.Name + " t WHERE t.workspace_id = $1 AND " + join(by, " AND ", match) +
		fmt.Sprintf(" LIMIT %d) AS t LIMIT %d", l.most+1, bounded+1)
}

// textColumns are columns of texts with some names.
func textColumns(names []string) (columns []Column) {
	for _, name := range names {
		columns = append(columns, Column{Name: name, typ: typeText})
	}
	return columns
}

func workspaceColumn() Column { return Column{Name: "workspace_id", typ: typeText} }

func (t *Table) primaryKey() []Column { return append([]Column{workspaceColumn()}, t.Keys...) }

func (t *Table) allColumns() []Column { return append(t.primaryKey(), t.Columns...) }

// join is a text for each of the columns, with a separator in between.
func join(columns []Column, separator string, text func(i int, c *Column) string) string {
	texts := make([]string, len(columns))
	for i := range columns {
		texts[i] = text(i, &columns[i])
	}
	return strings.Join(texts, separator)
}

// columnName is the name of a column, after a prefix.
func columnName(prefix string) func(int, *Column) string {
	return func(_ int, c *Column) string { return prefix + c.Name }
}

// match compares a column of t with the text of k.
func match(_ int, c *Column) string { return "t." + c.Name + " = " + c.cast("k."+c.Name) }

// rowsOf makes rows of parameters: an array of texts for each column, the
// first one numbered from.
func rowsOf(columns []Column, from int) string {
	array := func(i int, _ *Column) string { return fmt.Sprintf("$%d::text[]", from+i) }
	return "unnest(" + join(columns, ", ", array) + ")"
}

// named is the name k with those of columns.
func named(columns []Column) string { return "k (" + join(columns, ", ", columnName("")) + ")" }

// cast makes a value of the column's type of a text.
func (c *Column) cast(text string) string {
	if c.typ == typeText {
		return text
	}
	return text + "::" + string(c.typ)
}

// readKeys selects the key as a Key has it.
func readKeys(key []Column) string {
	return join(key, ", ", func(_ int, c *Column) string {
		if c.typ == typeBigint {
			return "lpad(t." + c.Name + "::text, 19, '0') AS " + c.Name
		}
		return "t." + c.Name
	})
}

// keyIs compares the key with that of the parameters, the first one numbered
// from.
func keyIs(key []Column, operator string, from int) string {
	parameter := func(i int, c *Column) string { return c.cast(fmt.Sprintf("$%d::text", from+i)) }
	return "(" + join(key, ", ", columnName("t.")) + ") " + operator + " (" + join(key, ", ", parameter) + ")"
}

// rowSQL selects the key and all columns, which it names v0, v1, ….
func (t *Table) rowSQL() string {
	value := func(i int, c *Column) string { return fmt.Sprintf("t.%s::text AS v%d", c.Name, i) }
	return "SELECT " + readKeys(t.Keys) + ", " + join(t.Columns, ", ", value) + " FROM " + t.Name + " t"
}

// pageSQL is one statement, so that rows and checkpoint come from one snapshot.
// Parameters: workspace, key, limit.
func (t *Table) pageSQL() string {
	value := func(i int, _ *Column) string { return fmt.Sprintf("p.v%d", i) }
	return "SELECT c.position, " + join(t.Keys, ", ", columnName("p.")) + ", " + join(t.Columns, ", ", value) + `
		  FROM log_checkpoint c LEFT JOIN LATERAL (
		       ` + t.rowSQL() + ` WHERE t.workspace_id = $1 AND ` + keyIs(t.Keys, ">", 2) +
		" ORDER BY " + join(t.Keys, ", ", columnName("t.")) + fmt.Sprintf(" LIMIT $%d", 2+len(t.Keys)) + `) p ON true
		 WHERE c.workspace_id = $1 AND c.consumer = 'read_models'`
}

// copySQL takes rows in the text format of COPY.
func (t *Table) copySQL() string {
	return "COPY " + t.Name + " (" + join(t.allColumns(), ", ", columnName("")) + ") FROM STDIN"
}
