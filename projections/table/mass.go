package table

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/internal/texts"
)

// A mass change updates its rows in slices, one statement each, sized to take about sliceTime.
// Others can wait for short statements, which also show that the work continues and leave little in
// the write-ahead log for the commits of others to flush first. After the first slice, each has at
// least smallestSlice rows: a statement has a fixed cost, which on a busy machine exceeds
// sliceTime, so the smaller the slices, the longer the whole change takes.
const (
	firstSlice, smallestSlice, largestSlice = 100, 500, 5000
	sliceTime                               = 20 * time.Millisecond
)

// nextSlice returns the number of rows in the next slice, from the rows and the duration of the
// last one.
func nextSlice(rows int, took time.Duration) int {
	switch {
	case took < sliceTime/2:
		return min(2*rows, largestSlice)
	case took > 2*sliceTime:
		return max(rows/2, smallestSlice)
	}
	return rows
}

// SlicedFunc is called after each slice of a mass change, with its number of rows and its duration.
// An error ends the change. It may be nil.
type SlicedFunc func(ctx context.Context, rows int, took time.Duration) error

// ChangeAll applies a mass change to a workspace's rows in a table. It reads no rows, only their
// ids and places (ctid): the database puts the new pieces into the stored answers. It is an error
// if a row lacks a field that changes.
func ChangeAll(ctx context.Context, tx pgx.Tx, t *Table, workspaceID string, m *domain.MassChange, sliced SlicedFunc) error {
	fail := func(err error) error {
		return fmt.Errorf("change the rows of %s in %s by the entry at position %d: %w", t.Name, workspaceID, m.Position, err)
	}
	// The cursor does not see the changes made meanwhile, so it returns each row once.
	find, args := findSQL(t, workspaceID, m)
	if _, err := tx.Exec(ctx, "DECLARE mass_change NO SCROLL CURSOR FOR "+find, args...); err != nil {
		return fail(err)
	}
	set, args := changeSQL(t, m)
	for size := firstSlice; ; {
		began := time.Now()
		ids, places, err := fetch(ctx, tx, size)
		if err != nil {
			return fail(err)
		}
		if len(ids) == 0 {
			break
		}
		args[0] = places
		tag, err := tx.Exec(ctx, set, args...)
		if err != nil {
			return fail(err)
		}
		if n := tag.RowsAffected(); n != int64(len(ids)) {
			return fail(fmt.Errorf("of the rows from %s to %s, %s not have the fields that change; ledgerfeed rebuild repairs this", ids[0], ids[len(ids)-1], texts.Count(int64(len(ids))-n, "does", "do")))
		}
		took := time.Since(began)
		if sliced != nil {
			if err := sliced(ctx, len(ids), took); err != nil {
				return err
			}
		}
		size = nextSlice(size, took)
	}
	if _, err := tx.Exec(ctx, "CLOSE mass_change"); err != nil {
		return fail(err)
	}
	return nil
}

// fetch reads the ids and places of the next rows of the cursor. changeSQL finds rows by their
// places.
func fetch(ctx context.Context, tx pgx.Tx, rows int) (ids, places []string, err error) {
	found, _ := tx.Query(ctx, fmt.Sprintf("FETCH %d FROM mass_change", rows)) // ForEachRow returns its error
	var id, place string
	_, err = pgx.ForEachRow(found, []any{&id, &place}, func() error {
		ids, places = append(ids, id), append(places, place)
		return nil
	})
	if err != nil {
		return nil, nil, fmt.Errorf("fetch: %w", err)
	}
	return ids, places, nil
}

// findSQL selects the ids and places of the rows that a mass change reaches. It reads them
// along an index of the first reference, as alongKey does.
func findSQL(t *Table, workspaceID string, m *domain.MassChange) (sql string, args []any) {
	args = []any{workspaceID, m.Position}
	parameter := func(v any) string {
		args = append(args, v)
		return fmt.Sprintf("$%d", len(args))
	}
	along := "t." + m.References[0].Column
	id := parameter(m.References[0].ID)
	where := []string{"t.workspace_id = $1", "t.position < $2", along + " >= " + id, along + " <= " + id}
	for _, ref := range m.References[1:] {
		where = append(where, "t."+ref.Column+" = "+parameter(ref.ID))
	}
	for _, p := range m.Where {
		var holds []string
		for _, text := range p.Texts {
			holds = append(holds, "strpos(t."+partColumns()[p.Part]+", "+parameter(text)+") > 0")
		}
		where = append(where, "("+strings.Join(holds, " OR ")+")")
	}
	return "SELECT t.id, t.ctid::text FROM " + t.Name + " t WHERE " + strings.Join(where, " AND ") + " ORDER BY " + along, args
}

// partColumns returns the columns of the parts of an answer, indexed by part.
func partColumns() []string {
	return []string{domain.Base: "base", domain.Pay: "pay", domain.Margin: "margin"}
}

// changeSQL changes rows by their places, which are the first argument. A place needs no index, so
// there is one plan whatever the statistics say. Nothing else moves the rows, because the
// checkpoint of the workspace is locked.
func changeSQL(t *Table, m *domain.MassChange) (sql string, args []any) {
	args = []any{nil}
	var set []string
	if !m.InPlace {
		args = append(args, m.Position)
		set = append(set, "position = $2")
	}
	where := []string{"t.ctid = ANY ($1::text[]::tid[])"}
	for part, column := range partColumns() {
		at := func(name string) string { return "strpos(t." + column + ", '" + name + "')" }
		var pieces []string
		from := "1" // start of the text to keep before the next splice
		for _, s := range m.Splices {
			if int(s.Part) != part {
				continue
			}
			args = append(args, s.Text)
			pieces = append(pieces,
				fmt.Sprintf("substr(t.%s, %s, %s - %s)", column, from, at(s.From), from),
				fmt.Sprintf("$%d::text", len(args)))
			where = append(where, at(s.From)+" > 0")
			from = ""
			if s.Until != "" {
				where = append(where, at(s.Until)+" > 0")
				from = at(s.Until)
			}
		}
		if len(pieces) == 0 {
			continue
		}
		if from != "" {
			pieces = append(pieces, fmt.Sprintf("substr(t.%s, %s)", column, from))
		}
		set = append(set, column+" = "+strings.Join(pieces, " || "))
	}
	for _, c := range t.Columns {
		for _, s := range m.Splices {
			if !c.Fragment && c.typ == typeText && c.Name == s.Field {
				args = append(args, s.Value)
				set = append(set, fmt.Sprintf("%s = nullif($%d, '')", c.Name, len(args)))
			}
		}
	}
	return "UPDATE " + t.Name + " t SET " + strings.Join(set, ", ") + " WHERE " + strings.Join(where, " AND "), args
}
