package projections

import (
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/domain"
)

// record is a read row of the domain.
type record interface {
	comparable
	Fragments() domain.Fragments
	Read(f domain.Fragments) error
}

// rows is the table of one resource in a domain.State.
type rows[P record] interface {
	Get(id string) P
	All(each func(P))
	Load(row P)
	Changed() []P
	Gone() []string
}

// table says how the rows of a resource are kept: as their answer, in parts
// by permission, beside the columns that lists filter by.
type table[P record] struct {
	name  string
	rows  func(*domain.State) rows[P]
	fresh func() P
	meta  func(P) *domain.Row
	parts []string // of base, pay, margin

	flag     string // a column that says who may see the row, if there is one
	flagOf   func(P) bool
	loadFlag func(P, bool)

	columns []column[P]

	loadSQL, saveSQL, deleteSQL string
}

// column is a text that lists filter by; empty text is null.
type column[P record] struct {
	name string
	of   func(P) string
}

// prepared completes a table with its statements.
func (t table[P]) prepared() *table[P] {
	read := []string{"t.workspace_id", "t.id", "t.position"}
	names := []string{"workspace_id", "id", "position"}
	types := []string{"text", "text", "bigint"}
	values := []string{"k.workspace_id", "k.id", "k.position"}
	if t.flag != "" {
		read = append(read, "t."+t.flag)
		names = append(names, t.flag)
		types = append(types, "boolean")
		values = append(values, "k."+t.flag)
	}
	for _, c := range t.columns {
		names = append(names, c.name)
		types = append(types, "text")
		values = append(values, "nullif(k."+c.name+", '')")
	}
	for _, part := range t.parts {
		read = append(read, "t."+part)
		names = append(names, part)
		types = append(types, "text")
		values = append(values, "k."+part)
	}
	t.loadSQL = "SELECT " + strings.Join(read, ", ") + " FROM " + t.name + ` t
		  JOIN unnest($1::text[], $2::text[]) AS k (workspace_id, key)
		    ON t.workspace_id = k.workspace_id AND t.%s = k.key`
	arrays := make([]string, len(types))
	for i, typ := range types {
		arrays[i] = fmt.Sprintf("$%d::%s[]", i+1, typ)
	}
	var set []string
	for _, name := range names[2:] {
		set = append(set, name+" = excluded."+name)
	}
	t.saveSQL = "INSERT INTO " + t.name + " (" + strings.Join(names, ", ") + ")" +
		"\nSELECT " + strings.Join(values, ", ") +
		"\n  FROM unnest(" + strings.Join(arrays, ", ") + ") AS k (" + strings.Join(names, ", ") + ")" +
		"\nON CONFLICT (workspace_id, id) DO UPDATE SET " + strings.Join(set, ", ")
	t.deleteSQL = "DELETE FROM " + t.name + ` t USING unnest($1::text[], $2::text[]) AS k (workspace_id, id)
		 WHERE t.workspace_id = k.workspace_id AND t.id = k.id`
	return &t
}

// queueLoad asks for the rows whose column by (id, or what they refer to) is
// one of keys, and puts them into the states of their workspaces.
func (t *table[P]) queueLoad(b *pgx.Batch, by string, keys *keys, states map[string]*domain.State) {
	if keys.empty() {
		return
	}
	b.Queue(fmt.Sprintf(t.loadSQL, by), keys.workspaces, keys.ids).Query(func(found pgx.Rows) error {
		return t.scan(found, states)
	})
}

func (t *table[P]) scan(found pgx.Rows, states map[string]*domain.State) error {
	var (
		workspaceID string
		flag        bool
		f           domain.Fragments
	)
	for found.Next() {
		row := t.fresh()
		meta := t.meta(row)
		dest := []any{&workspaceID, &meta.ID, &meta.Position}
		if t.flag != "" {
			dest = append(dest, &flag)
		}
		dest = append(dest, []any{&f.Base, &f.Pay, &f.Margin}[:len(t.parts)]...)
		if err := found.Scan(dest...); err != nil {
			return fmt.Errorf("load from %s: %w", t.name, err)
		}
		id := meta.ID
		if err := row.Read(f); err != nil {
			return fmt.Errorf("the row %s of %s in workspace %s (ledgerfeed rebuild repairs it, or brings it over when another version made it): %w",
				id, t.name, workspaceID, err)
		}
		t.meta(row).ID = id
		if t.flag != "" {
			t.loadFlag(row, flag)
		}
		t.rows(states[workspaceID]).Load(row)
	}
	if err := found.Err(); err != nil {
		return fmt.Errorf("load from %s: %w", t.name, err)
	}
	return nil
}

// queueSave asks for the changed rows of all workspaces to be written and the
// deleted ones to be deleted.
func (t *table[P]) queueSave(b *pgx.Batch, order []string, states map[string]*domain.State) {
	var gone keys
	columns := make([][]string, 2+len(t.columns)+len(t.parts))
	var (
		positions []int64
		flags     []bool
	)
	for _, workspaceID := range order {
		table := t.rows(states[workspaceID])
		for _, id := range table.Gone() {
			gone.add(workspaceID, id)
		}
		for _, row := range table.Changed() {
			meta := t.meta(row)
			positions = append(positions, meta.Position)
			if t.flag != "" {
				flags = append(flags, t.flagOf(row))
			}
			columns[0] = append(columns[0], workspaceID)
			columns[1] = append(columns[1], meta.ID)
			for i, c := range t.columns {
				columns[2+i] = append(columns[2+i], c.of(row))
			}
			f := row.Fragments()
			for i, part := range []string{f.Base, f.Pay, f.Margin}[:len(t.parts)] {
				columns[2+len(t.columns)+i] = append(columns[2+len(t.columns)+i], part)
			}
		}
	}
	if !gone.empty() {
		b.Queue(t.deleteSQL, gone.workspaces, gone.ids)
	}
	if len(positions) == 0 {
		return
	}
	args := []any{columns[0], columns[1], positions}
	if t.flag != "" {
		args = append(args, flags)
	}
	for _, c := range columns[2:] {
		args = append(args, c)
	}
	b.Queue(t.saveSQL, args...)
}

// keys are pairs of a workspace and an id in it, as two arrays.
type keys struct{ workspaces, ids []string }

func (k *keys) add(workspaceID, id string) {
	k.workspaces = append(k.workspaces, workspaceID)
	k.ids = append(k.ids, id)
}

func (k *keys) addSet(workspaceID string, ids domain.Set) {
	for id := range ids {
		k.add(workspaceID, id)
	}
}

func (k *keys) empty() bool { return len(k.ids) == 0 }
