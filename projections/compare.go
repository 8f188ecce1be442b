package projections

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/ledgerfeed/ledgerfeed/domain"
)

// key is what tells a row from others of its workspace: an id, or a pair.
type key [2]string

func compareKeys(a, b key) int { return cmp.Or(cmp.Compare(a[0], b[0]), cmp.Compare(a[1], b[1])) }

// sheet is a read table as replay sees it: every column as text, an absent
// value as empty, and beside it the rows that a fold says it must hold.
type sheet struct {
	resource string // as in the paths of the API
	table    string
	keys     []sheetKey
	columns  []sheetColumn

	each    func(m *memoryRows, visit func(key))        // the rows that must be there
	changed func(s *domain.State, visit func(key))      // those made, changed or deleted since the last Reset
	image   func(m *memoryRows, k key, v []string) bool // writes the columns of a row; false when it must not be there
	place   func(m *memoryRows, k key) int64            // position of the entry that last changed a row, 0 when it is not there; nil but for answers with an id

	pageSQL, pickSQL, sinceSQL, rangeSQL, restSQL, deleteSQL, upsertSQL string
}

// sheetKey is a column of the primary key after workspace_id.
type sheetKey struct{ name, typ string }

// sheetColumn is a column beside the key. Fragments hold parts of the answer.
type sheetColumn struct {
	name, typ string
	fragment  bool
}

const (
	typeText    = "text"
	typeBigint  = "bigint"
	typeBoolean = "boolean"
)

// selected is the key as it is read. Numbers are padded, so that they compare
// as texts do.
func (k sheetKey) selected() string {
	if k.typ == typeBigint {
		return "lpad(t." + k.name + "::text, 19, '0')"
	}
	return "t." + k.name
}

// param is the key as the n-th parameter.
func (k sheetKey) param(n int) string {
	if k.typ == typeBigint {
		return fmt.Sprintf("$%d::text::bigint", n)
	}
	return fmt.Sprintf("$%d::text", n)
}

func padded(position int64) string { return fmt.Sprintf("%019d", position) }

// first is below every key.
func (s *sheet) first() key {
	if s.keys[0].typ == typeBigint {
		return key{padded(0)}
	}
	return key{}
}

// keyArgs are the parameters of a key.
func (s *sheet) keyArgs(k key) []any {
	args := []any{k[0]}
	if len(s.keys) > 1 {
		args = append(args, k[1])
	}
	return args
}

// name is a row's key as people write it.
func (s *sheet) name(k key) string {
	if s.keys[0].typ == typeBigint {
		k[0] = strings.TrimLeft(k[0], "0")
	}
	return strings.TrimSuffix(k[0]+"/"+k[1], "/")
}

// prepared completes a sheet with its statements.
func (s sheet) prepared() *sheet {
	var keyNames, keyReads, keyParams, endParams, keyMatches, keyUnnest []string
	for i, k := range s.keys {
		keyNames = append(keyNames, k.name)
		keyReads = append(keyReads, k.selected()+" AS "+k.name)
		keyParams = append(keyParams, k.param(i+2))
		endParams = append(endParams, k.param(i+2+len(s.keys)))
		keyMatches = append(keyMatches, "t."+k.name+" = k."+k.name+"::"+k.typ)
		keyUnnest = append(keyUnnest, fmt.Sprintf("$%d::text[]", i+2))
	}
	reads := slices.Clone(keyReads)
	var names, sets, news []string
	for i, c := range s.columns {
		reads = append(reads, fmt.Sprintf("t.%s::text AS v%d", c.name, i))
		names = append(names, c.name)
		sets = append(sets, c.name+" = excluded."+c.name)
		value := "nullif(k." + c.name + ", '')"
		if c.typ != typeText {
			value += "::" + c.typ
		}
		news = append(news, value)
	}
	out := make([]string, 0, len(s.keys)+len(s.columns))
	for _, k := range s.keys {
		out = append(out, "p."+k.name)
	}
	for i := range s.columns {
		out = append(out, fmt.Sprintf("p.v%d", i))
	}
	tuple := func(list []string) string { return "(" + strings.Join(list, ", ") + ")" }
	read := "SELECT " + strings.Join(reads, ", ") + " FROM " + s.table + " t"
	next := len(s.keys) + 2

	// One statement, so one snapshot: the rows stand at the checkpoint that
	// comes with them.
	s.pageSQL = "SELECT c.position, " + strings.Join(out, ", ") + `
		  FROM log_checkpoint c LEFT JOIN LATERAL (
		       ` + read + ` WHERE t.workspace_id = $1 AND ` + tuple(ofTable(keyNames)) + " > " + tuple(keyParams) +
		" ORDER BY " + strings.Join(ofTable(keyNames), ", ") + fmt.Sprintf(" LIMIT $%d", next) + `) p ON true
		 WHERE c.workspace_id = $1 AND c.consumer = 'read_models'`
	s.pickSQL = read + " JOIN unnest(" + strings.Join(keyUnnest, ", ") + ") AS k " + tuple(keyNames) +
		" ON t.workspace_id = $1 AND " + strings.Join(keyMatches, " AND ")
	s.sinceSQL = "SELECT " + strings.Join(keyReads, ", ") + " FROM " + s.table + " t WHERE t.workspace_id = $1 AND t.position > $2::bigint"
	after := "SELECT " + strings.Join(keyReads, ", ") + " FROM " + s.table + " t WHERE t.workspace_id = $1 AND " +
		tuple(ofTable(keyNames)) + " > " + tuple(keyParams)
	inOrder := " ORDER BY " + strings.Join(ofTable(keyNames), ", ") + fmt.Sprintf(" LIMIT %d", rowPage)
	s.rangeSQL = after + " AND " + tuple(ofTable(keyNames)) + " <= " + tuple(endParams) + inOrder
	s.restSQL = after + inOrder
	s.deleteSQL = "DELETE FROM " + s.table + " t USING unnest(" + strings.Join(keyUnnest, ", ") + ") AS k " + tuple(keyNames) +
		" WHERE t.workspace_id = $1 AND " + strings.Join(keyMatches, " AND ")

	all := append(slices.Clone(keyNames), names...)
	arrays := make([]string, len(all))
	values := []string{"$1"}
	for i := range all {
		arrays[i] = fmt.Sprintf("$%d::text[]", i+2)
	}
	for _, k := range s.keys {
		values = append(values, "k."+k.name+"::"+k.typ)
	}
	s.upsertSQL = "INSERT INTO " + s.table + " (workspace_id, " + strings.Join(all, ", ") + ")" +
		"\nSELECT " + strings.Join(append(values, news...), ", ") +
		"\n  FROM unnest(" + strings.Join(arrays, ", ") + ") AS k " + tuple(all) +
		"\nON CONFLICT (workspace_id, " + strings.Join(keyNames, ", ") + ") DO UPDATE SET " + strings.Join(sets, ", ")
	return &s
}

// ofTable names columns as those of t.
func ofTable(names []string) []string {
	list := make([]string, len(names))
	for i, n := range names {
		list[i] = "t." + n
	}
	return list
}
