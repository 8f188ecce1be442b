package replay

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/ledgerfeed/ledgerfeed/domain/jsonform"
	"github.com/ledgerfeed/ledgerfeed/projections/table"
)

// mismatch is called for every row of a table that differs from the fold. stored is nil if the row
// is missing; expected is nil if it must not be there.
type mismatch func(t *table.Table, k table.Key, stored [][]byte, expected []string) error

// errCheckpointMoved says that the checkpoint moved during a comparison in a way that a working
// projector does not move it.
var errCheckpointMoved = errors.New("the checkpoint moved back, or moved while it was expected to stay, during the comparison")

// compareAll compares every table that is included.
func (f *workspaceFold) compareAll(ctx context.Context, included func(*table.Table) bool, visit mismatch) error {
	for _, t := range f.tables {
		if !included(t) {
			continue
		}
		if err := f.compareTable(ctx, t, visit); err != nil {
			return err
		}
	}
	return nil
}

func everyTable(*table.Table) bool { return true }

// firstPageRows is how many rows are read at first, while their size is not known.
const firstPageRows = 250

// compareTable compares a read table with the fold, page by page. The projector may continue
// meanwhile: every page is compared with the fold up to the checkpoint of the snapshot in which the
// page was read.
func (f *workspaceFold) compareTable(ctx context.Context, t *table.Table, visit mismatch) error {
	list := f.rows.list(t)
	after, rows := t.First(), firstPageRows
	for {
		page, err := t.ReadPage(ctx, f.cfg.Pool, f.workspaceID, after, rows)
		if err != nil {
			return err
		}
		if err := f.catchUp(ctx, page.Checkpoint); err != nil {
			return err
		}
		if err := f.comparePage(ctx, t, page, visit); err != nil {
			return err
		}
		last := page.Last()
		err = list(ctx, after, last, func(keys []table.Key) error { return f.findMissing(ctx, t, page, keys, visit) })
		if err != nil {
			return err
		}
		f.cfg.Progress.RowsCompared.Add(int64(len(page.Keys)))
		if err := f.limitRate(ctx, len(page.Keys)); err != nil {
			return err
		}
		if last == nil {
			return nil
		}
		after, rows = *last, page.NextRows()
	}
}

// comparePage compares the stored rows of a page.
func (f *workspaceFold) comparePage(ctx context.Context, t *table.Table, page *table.Page, visit mismatch) error {
	return f.rows.expected(ctx, t, page.Keys, func(i int, expected []string) error {
		if expected != nil && table.Equal(page.Values[i], expected) {
			return nil
		}
		return visit(t, page.Keys[i], page.Values[i], expected)
	})
}

// findMissing calls visit for the keys whose rows must be on the page but are missing.
func (f *workspaceFold) findMissing(ctx context.Context, t *table.Table, page *table.Page, keys []table.Key, visit mismatch) error {
	keys = slices.DeleteFunc(keys, page.Holds)
	err := f.rows.expected(ctx, t, keys, func(i int, expected []string) error {
		if expected == nil {
			return nil
		}
		return visit(t, keys[i], nil, expected)
	})
	if err != nil {
		return err
	}
	return f.limitRate(ctx, len(keys))
}

// catchUp folds up to the checkpoint at which rows were read.
func (f *workspaceFold) catchUp(ctx context.Context, checkpoint int64) error {
	if f.frozenAt != nil {
		if checkpoint != *f.frozenAt {
			return errCheckpointMoved
		}
		return nil
	}
	if checkpoint < f.position {
		return errCheckpointMoved
	}
	return f.foldTo(ctx, checkpoint)
}

// diagnosis says whether the rows or the checkpoint are wrong.
type diagnosis struct {
	checkpoint   *Difference // nil: nothing shows that the checkpoint is wrong
	explainsRows bool        // the rows are right for another position, so only the checkpoint is wrong
}

// diagnoseCheckpoint finds out whether the checkpoint is wrong: it is above the log, or the rows
// match another position.
//
// Rows that an entry after the checkpoint changed prove that the checkpoint was moved back. If the
// newest row is older than the checkpoint, later rows may also have been deleted; then both the
// checkpoint and the rows are reported.
func (f *workspaceFold) diagnoseCheckpoint(ctx context.Context, rowsDiffer bool) (diagnosis, error) {
	h, err := f.readHead(ctx)
	if err != nil {
		return diagnosis{}, err
	}
	wrong := func(position int64) *Difference {
		return &Difference{
			WorkspaceID: f.workspaceID, Resource: resourceCheckpoint, ID: "read_models", Field: "position",
			Stored: shown(fmt.Sprint(h.checkpoint)), Folded: shown(fmt.Sprint(position)),
		}
	}
	if h.checkpoint > h.end() {
		return diagnosis{checkpoint: wrong(h.end())}, nil
	}
	if !rowsDiffer {
		return diagnosis{}, nil
	}
	stored, err := table.NewestPosition(ctx, f.cfg.Pool, f.tables, f.workspaceID)
	if err != nil || stored > h.end() {
		return diagnosis{}, err
	}
	folded, err := f.rows.newest(ctx)
	if err != nil {
		return diagnosis{}, err
	}
	other := f
	switch {
	case stored > h.checkpoint: // this fold can continue to that position
	case stored < folded: // a fold cannot go back, so a new one begins
		if other, err = f.fold(ctx, f.size, nil); err != nil {
			return diagnosis{}, err
		}
		defer other.rows.close(ctx)
	default:
		return diagnosis{}, nil
	}
	match, err := other.matchAt(ctx, stored, h.checkpoint)
	if err != nil || !match {
		return diagnosis{}, err
	}
	return diagnosis{checkpoint: wrong(stored), explainsRows: stored > h.checkpoint}, nil
}

// matchAt reports whether the stored rows match a position. It returns false if the checkpoint
// moves meanwhile.
func (f *workspaceFold) matchAt(ctx context.Context, position, checkpoint int64) (bool, error) {
	if err := f.foldTo(ctx, position); err != nil {
		return false, err
	}
	f.freeze()
	f.frozenAt = &checkpoint
	defer func() { f.frozenAt = nil }()
	match := true
	err := f.compareAll(ctx, everyTable, func(*table.Table, table.Key, [][]byte, []string) error {
		match = false
		return nil
	})
	if errors.Is(err, errCheckpointMoved) {
		return false, nil
	}
	return match, err
}

// Difference is one deviation of what is stored from a fold of the log.
type Difference struct {
	WorkspaceID string `json:"workspace_id"`

	// Resource says where: one of Resources, removed time-entries, removed charges, closed-periods,
	// anomalies, checkpoint, event-trees, event-tiles, kept-checkpoint (an event tree's checkpoint
	// that somebody kept), or log, if an entry itself is not what was appended.
	Resource string  `json:"resource"`
	ID       string  `json:"id"`     // of the row or the entry
	Field    string  `json:"field"`  // a field of the answer, a column of the row, or "row" for all of it
	Stored   *string `json:"stored"` // the stored value, as JSON if it is part of an answer; null: not there
	Folded   *string `json:"folded"` // the expected value; null: must not be there
}

// The resources of differences that are not about read rows.
const (
	resourceLog        = "log"
	resourceCheckpoint = "checkpoint"
	resourceTrees      = "event-trees"
	resourceTiles      = "event-tiles"
	ResourceKept       = "kept-checkpoint"
)

const fieldRow = "row"

// dependsOnRules reports whether other rules may explain the difference. They never explain one in
// the log or its event trees.
func (d *Difference) dependsOnRules() bool {
	switch d.Resource {
	case resourceLog, resourceTrees, resourceTiles, ResourceKept:
		return false
	}
	return true
}

// String writes the difference as a line for people.
func (d *Difference) String() string {
	return fmt.Sprintf("%s: %s %s, %s: stored %s, folded %s", d.WorkspaceID, d.Resource, d.ID, d.Field, orNothing(d.Stored), orNothing(d.Folded))
}

func orNothing(s *string) string {
	if s == nil {
		return "nothing"
	}
	return *s
}

// maxShown is how much of a value a difference shows, in bytes.
const maxShown = 2000

// shown prepares a value for a difference: truncated, and valid UTF-8.
func shown(text string) *string {
	if len(text) > maxShown {
		text = strings.ToValidUTF8(text[:maxShown], "") + "…"
	}
	if !utf8.ValidString(text) {
		text = strings.ToValidUTF8(text, "\uFFFD")
	}
	return &text
}

// fieldDifference gets a field or column with its stored and its folded value; nil means no value.
type fieldDifference func(field string, stored, folded *string)

// compareValues calls each for every field in which a stored row differs from the expected one.
func compareValues(t *table.Table, stored [][]byte, expected []string, each fieldDifference) {
	for i, c := range t.Columns {
		if string(stored[i]) == expected[i] && stored[i] == nil == (expected[i] == "") {
			continue
		}
		if c.Fragment && stored[i] != nil {
			compareFragments(c.Name, string(stored[i]), expected[i], each)
			continue
		}
		var is, must *string
		if stored[i] != nil {
			is = shown(string(stored[i]))
		}
		if expected[i] != "" {
			must = shown(expected[i])
		}
		each(c.Name, is, must)
	}
}

// compareFragments calls each for the fields of a fragment that differ, or for the column of the
// fragment if its bytes differ but no field does.
func compareFragments(column, stored, folded string, each fieldDifference) {
	is, isNames, ok1 := fieldsOf(stored)
	must, mustNames, ok2 := fieldsOf(folded)
	if !ok1 || !ok2 {
		showExcerpts(column, stored, folded, each)
		return
	}
	found := false
	for _, name := range mustNames {
		text, there := is[name]
		if there && text == must[name] {
			continue
		}
		found = true
		if there {
			each(name, shown(text), shown(must[name]))
		} else {
			each(name, nil, shown(must[name]))
		}
	}
	for _, name := range isNames {
		if _, there := must[name]; !there {
			found = true
			each(name, shown(is[name]), nil)
		}
	}
	if !found {
		showExcerpts(column, stored, folded, each)
	}
}

// fieldsOf parses a fragment: the JSON of every field, and the names in order.
func fieldsOf(fragment string) (values map[string]string, names []string, ok bool) {
	text := fragment + "}"
	if strings.HasPrefix(fragment, ",") {
		text = "{" + text[1:]
	}
	members, err := jsonform.Members(text)
	values = map[string]string{}
	for _, m := range members {
		names = append(names, m.Name)
		values[m.Name] = m.JSON
	}
	return values, names, err == nil && utf8.ValidString(text)
}

// showExcerpts shows the first place at which two texts differ.
func showExcerpts(column, stored, folded string, each fieldDifference) {
	const around = 40
	i := 0
	for i < len(stored) && i < len(folded) && stored[i] == folded[i] {
		i++
	}
	excerpt := func(s string) *string {
		return shown(fmt.Sprintf("from byte %d: %s", i+1, s[max(0, min(i, len(s))-around):min(len(s), i+around)]))
	}
	each(column, excerpt(stored), excerpt(folded))
}
