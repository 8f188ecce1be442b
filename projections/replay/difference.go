package replay

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/ledgerfeed/ledgerfeed/domain/jsonform"
	"github.com/ledgerfeed/ledgerfeed/projections/table"
)

// Difference is one thing that is not as a fold of the log says.
type Difference struct {
	WorkspaceID string `json:"workspace_id"`

	// Resource is where: one of Resources, closed-periods, anomalies,
	// checkpoint, event-trees, event-tiles, kept-checkpoint, which is one of an event
	// tree that somebody kept, or log, when an entry itself is not what was appended.
	Resource string  `json:"resource"`
	ID       string  `json:"id"`     // of the row or the entry
	Field    string  `json:"field"`  // of the answer, a column of the row, or row: all of it
	Stored   *string `json:"stored"` // as it is, in JSON when it is part of an answer; null: not there
	Folded   *string `json:"folded"` // as it must be; null: must not be there
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

// dependsOnRules reports whether other rules explain the difference: those of the log and its
// event trees are none.
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

// maxShown is the most of a value that a difference shows, in bytes.
const maxShown = 2000

// shown is a value as a difference shows it: cut, and valid UTF-8.
func shown(text string) *string {
	if len(text) > maxShown {
		text = strings.ToValidUTF8(text[:maxShown], "") + "…"
	}
	if !utf8.ValidString(text) {
		text = strings.ToValidUTF8(text, "\uFFFD")
	}
	return &text
}

// fieldDifference names a field or column with the value that is stored and the
// one that was folded; nil stands for no value.
type fieldDifference func(field string, stored, folded *string)

// compareValues names every field in which a stored row is not the expected
// one.
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

// compareFragments names the fields of a fragment that differ, or the column of
// the fragment where its bytes differ and no field does.
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
