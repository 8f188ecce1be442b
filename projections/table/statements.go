package table

import (
	"fmt"
	"strings"
)

// PageRows is how many rows replay reads and compares at a time: a page takes
// some milliseconds of a snapshot.
const PageRows = 1000

// statements of a table. All values go in and out as text, NULL as NULL or "".
type statements struct {
	load string // what load reads; add the columns to join on with loadBy
	save string // inserts rows, or changes those that are there
	add  string // inserts rows that are not there
	drop string // deletes rows by key

	// The rest is for replay and names one workspace.
	page  string // rows in key order after a key, with the checkpoint
	pick  string // rows by key, in no order
	since string // keys of rows changed after a position
	after string // a page of keys in key order after a key
	until string // the same, up to a key
}

func (t *Table) statements(loaded []string) statements {
	return statements{
		load: "SELECT " + list(of("t", append([]string{"workspace_id"}, loaded...))) + " FROM " + t.Name + " t",
		save: t.insertSQL() + "\nON CONFLICT " + tuple(t.primaryKey()) + " DO UPDATE SET " + list(t.assignments()),
		add:  t.insertSQL(),
		drop: t.dropSQL(),

		page:  t.pageSQL(),
		pick:  t.pickSQL(),
		since: "SELECT " + list(t.readKeys()) + " FROM " + t.Name + " t WHERE t.workspace_id = $1 AND t.position > $2::bigint",
		after: t.keysSQL(false),
		until: t.keysSQL(true),
	}
}

// list and tuple join names, values or parameters.
func list(names []string) string  { return strings.Join(names, ", ") }
func tuple(names []string) string { return "(" + list(names) + ")" }

// of names columns as those of a table's alias.
func of(alias string, names []string) []string {
	out := make([]string, len(names))
	for i, name := range names {
		out[i] = alias + "." + name
	}
	return out
}

func names(columns []Column) []string {
	out := make([]string, len(columns))
	for i, c := range columns {
		out[i] = c.Name
	}
	return out
}

// textArrays are n parameters, each an array of texts.
func textArrays(from, n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprintf("$%d::text[]", from+i)
	}
	return out
}

func (t *Table) primaryKey() []string {
	return append([]string{"workspace_id"}, names(t.Keys)...)
}

// allColumns are those of the primary key and the others.
func (t *Table) allColumns() []string { return append(t.primaryKey(), names(t.Columns)...) }

// loadBy completes the load statement: it finds rows by their workspace and
// other columns, which must be texts. Parameters: an array for each.
func (t *Table) loadBy(columns []string) string {
	by := []Column{{Name: "workspace_id", Type: Text}}
	for _, name := range columns {
		by = append(by, Column{Name: name, Type: Text})
	}
	return t.sql.load + " JOIN unnest" + tuple(textArrays(1, len(by))) + " AS k " + tuple(names(by)) + " ON " + matching(by)
}

// matching compares columns of t with the texts of k.
func matching(columns []Column) string {
	out := make([]string, len(columns))
	for i, c := range columns {
		out[i] = "t." + c.Name + " = " + c.cast("k."+c.Name)
	}
	return strings.Join(out, " AND ")
}

// insertSQL takes an array a column, in the order of allColumns.
func (t *Table) insertSQL() string {
	all := t.allColumns()
	values := []string{"k.workspace_id"}
	for _, c := range t.Keys {
		values = append(values, c.cast("k."+c.Name))
	}
	for _, c := range t.Columns {
		values = append(values, c.cast("nullif(k."+c.Name+", '')"))
	}
	return "INSERT INTO " + t.Name + " " + tuple(all) + "\nSELECT " + list(values) +
		"\n  FROM unnest" + tuple(textArrays(1, len(all))) + " AS k " + tuple(all)
}

// cast makes a value of the column's type of a text.
func (c *Column) cast(text string) string {
	if c.Type == Text {
		return text
	}
	return text + "::" + string(c.Type)
}

func (t *Table) assignments() []string {
	out := names(t.Columns)
	for i, name := range out {
		out[i] = name + " = excluded." + name
	}
	return out
}

// dropSQL takes an array a column of the primary key.
func (t *Table) dropSQL() string {
	key := t.primaryKey()
	return "DELETE FROM " + t.Name + " t USING unnest" + tuple(textArrays(1, len(key))) + " AS k " + tuple(key) +
		" WHERE t.workspace_id = k.workspace_id AND " + matching(t.Keys)
}

// readKeys selects the key as replay reads it.
func (t *Table) readKeys() []string {
	out := make([]string, len(t.Keys))
	for i, c := range t.Keys {
		out[i] = "t." + c.Name
		if c.Type == Bigint {
			out[i] = "lpad(t." + c.Name + "::text, 19, '0') AS " + c.Name // see Key
		}
	}
	return out
}

// keyParameters are the parameters of a key, the first one numbered from.
func (t *Table) keyParameters(from int) []string {
	out := make([]string, len(t.Keys))
	for i, c := range t.Keys {
		out[i] = c.cast(fmt.Sprintf("$%d::text", from+i))
	}
	return out
}

// rowSQL selects the key and all columns, which it names v0, v1, ….
func (t *Table) rowSQL() string {
	read := t.readKeys()
	for i, c := range t.Columns {
		read = append(read, fmt.Sprintf("t.%s::text AS v%d", c.Name, i))
	}
	return "SELECT " + list(read) + " FROM " + t.Name + " t"
}

// pageSQL is one statement, so that rows and checkpoint come from one snapshot.
// Parameters: workspace, key, limit.
func (t *Table) pageSQL() string {
	keys := of("t", names(t.Keys))
	out := of("p", names(t.Keys))
	for i := range t.Columns {
		out = append(out, fmt.Sprintf("p.v%d", i))
	}
	return "SELECT c.position, " + list(out) + `
		  FROM log_checkpoint c LEFT JOIN LATERAL (
		       ` + t.rowSQL() + ` WHERE t.workspace_id = $1 AND ` + tuple(keys) + " > " + tuple(t.keyParameters(2)) +
		" ORDER BY " + list(keys) + fmt.Sprintf(" LIMIT $%d", len(keys)+2) + `) p ON true
		 WHERE c.workspace_id = $1 AND c.consumer = 'read_models'`
}

// pickSQL takes a workspace and an array a key column.
func (t *Table) pickSQL() string {
	return t.rowSQL() + " JOIN unnest" + tuple(textArrays(2, len(t.Keys))) + " AS k " + tuple(names(t.Keys)) +
		" ON t.workspace_id = $1 AND " + matching(t.Keys)
}

// keysSQL takes a workspace and a key, and another one for the end.
func (t *Table) keysSQL(end bool) string {
	keys := of("t", names(t.Keys))
	sql := "SELECT " + list(t.readKeys()) + " FROM " + t.Name + " t WHERE t.workspace_id = $1 AND " +
		tuple(keys) + " > " + tuple(t.keyParameters(2))
	if end {
		sql += " AND " + tuple(keys) + " <= " + tuple(t.keyParameters(2+len(keys)))
	}
	return sql + " ORDER BY " + list(keys) + fmt.Sprintf(" LIMIT %d", PageRows)
}

// copySQL takes rows in the text format of COPY.
func (t *Table) copySQL() string {
	return "COPY " + t.Name + " " + tuple(t.allColumns()) + " FROM STDIN"
}
