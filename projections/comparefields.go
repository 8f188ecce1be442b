package projections

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Difference is one thing that is not as a fold of the log says.
type Difference struct {
	WorkspaceID string `json:"workspace_id"`

	// Resource is where: one of Resources, closed-periods, anomalies,
	// checkpoint, or log: then an entry itself is not what was appended.
	Resource string  `json:"resource"`
	ID       string  `json:"id"`     // of the row or the entry
	Field    string  `json:"field"`  // of the answer, a column of the row, or row: all of it
	Stored   *string `json:"stored"` // as it is, in JSON where it is an answer's; null: not there
	Folded   *string `json:"folded"` // as it must be; null: must not be there
}

// The resources of differences that are no read rows.
const (
	resourceLog        = "log"
	resourceCheckpoint = "checkpoint"
)

const fieldRow = "row"

// String writes the difference as a line for people.
func (d *Difference) String() string {
	say := func(s *string) string {
		if s == nil {
			return "nothing"
		}
		return *s
	}
	return fmt.Sprintf("%s: %s %s, %s: stored %s, folded %s", d.WorkspaceID, d.Resource, d.ID, d.Field, say(d.Stored), say(d.Folded))
}

// mostShown bounds a value in a difference, in bytes.
const mostShown = 2000

func shown(text string) *string {
	if len(text) > mostShown {
		text = strings.ToValidUTF8(text[:mostShown], "") + "…"
	}
	if !utf8.ValidString(text) {
		text = strings.ToValidUTF8(text, "\uFFFD")
	}
	return &text
}

// same tells whether a stored row is its image: an empty text in the image is
// an absent value.
func same(stored [][]byte, image []string) bool {
	for i, want := range image {
		if string(stored[i]) != want || stored[i] == nil != (want == "") {
			return false
		}
	}
	return true
}

// differing names every field in which a stored row is not its image.
func (s *sheet) differing(stored [][]byte, image []string, each func(field string, stored, folded *string)) {
	for i, c := range s.columns {
		if string(stored[i]) == image[i] && stored[i] == nil == (image[i] == "") {
			continue
		}
		if c.fragment && stored[i] != nil {
			differingFragment(c.name, string(stored[i]), image[i], each)
			continue
		}
		var is, must *string
		if stored[i] != nil {
			is = shown(string(stored[i]))
		}
		if image[i] != "" {
			must = shown(image[i])
		}
		each(c.name, is, must)
	}
}

// differingFragment names the fields of an answer's part that differ, or the
// part itself where its bytes differ and no field does.
func differingFragment(part, stored, folded string, each func(field string, stored, folded *string)) {
	is, isNames, ok1 := fieldsOf(stored)
	must, mustNames, ok2 := fieldsOf(folded)
	if !ok1 || !ok2 {
		excerpts(part, stored, folded, each)
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
		excerpts(part, stored, folded, each)
	}
}

// fieldsOf reads a fragment: the text of every field, and the fields in order.
func fieldsOf(fragment string) (values map[string]string, names []string, ok bool) {
	text := fragment + "}"
	if strings.HasPrefix(fragment, ",") {
		text = "{" + text[1:]
	}
	d := json.NewDecoder(strings.NewReader(text))
	if open, err := d.Token(); err != nil || open != json.Delim('{') {
		return nil, nil, false
	}
	values = map[string]string{}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return nil, nil, false
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return nil, nil, false
		}
		names = append(names, name.(string)) //nolint:forcetypeassert // a decoder has no other names
		values[names[len(names)-1]] = string(value)
	}
	_, err := d.Token()
	return values, names, err == nil && d.InputOffset() == int64(len(text)) && utf8.ValidString(text)
}

// excerpts shows where two texts part.
func excerpts(part, stored, folded string, each func(field string, stored, folded *string)) {
	const around = 40
	i := 0
	for i < len(stored) && i < len(folded) && stored[i] == folded[i] {
		i++
	}
	cut := func(s string) *string {
		text := fmt.Sprintf("from byte %d: %s", i+1, s[max(0, min(i, len(s))-around):min(len(s), i+around)])
		return shown(text)
	}
	each(part, cut(stored), cut(folded))
}
