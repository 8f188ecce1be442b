package openapi

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// object is a JSON object whose members keep their order, so that the description
// is the same each time and can be read from top to bottom.
type object []member

type member struct {
	name  string
	value any
}

// with adds a member.
func (o object) with(name string, value any) object { return append(o, member{name, value}) }

// MarshalJSON writes the members in order.
func (o object) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	for i, m := range o {
		if i > 0 {
			b.WriteByte(',')
		}
		if err := encoder.Encode(m.name); err != nil {
			return nil, fmt.Errorf("write %q: %w", m.name, err)
		}
		b.WriteByte(':')
		if err := encoder.Encode(m.value); err != nil {
			return nil, fmt.Errorf("write %q: %w", m.name, err)
		}
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

func reference(kind, name string) object {
	return object{{"$ref", "#/components/" + kind + "/" + name}}
}
