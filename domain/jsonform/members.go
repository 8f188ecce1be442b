package jsonform

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// Member is one member of a JSON object.
type Member struct {
	Name string
	JSON string // the value, as it was written
}

var errNoObject = errors.New("it is no JSON object")

// Members returns the members of a JSON object, which nothing follows, in their order.
func Members(object string) ([]Member, error) {
	d := json.NewDecoder(strings.NewReader(object))
	if open, err := d.Token(); err != nil || open != json.Delim('{') {
		return nil, errors.Join(errNoObject, err)
	}
	var list []Member
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return nil, fmt.Errorf("%w: %w", errNoObject, err)
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return nil, fmt.Errorf("%w: %w", errNoObject, err)
		}
		text, _ := name.(string) // names are always strings
		list = append(list, Member{text, string(value)})
	}
	if _, err := d.Token(); err != nil || d.InputOffset() != int64(len(object)) {
		return nil, errors.Join(errNoObject, err)
	}
	return list, nil
}
