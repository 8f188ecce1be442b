package domain

import "github.com/ledgerfeed/ledgerfeed/domain/jsonform"

// GivenField is a field that an entry gives.
type GivenField struct {
	jsonform.FieldDescription

	JSON string // its value
}

// Given returns the fields that the entry gives, in the order of the catalogue. Those of
// the parts Pay and Margin are only for readers who may see them; payOnly says that
// nothing of the entry is for readers who may not see pay. An entry that this version
// cannot read gives nothing.
func (e *Entry) Given() (fields []GivenField, payOnly bool) {
	c := e.read()
	if c == nil {
		return nil, false
	}
	members, err := jsonform.Members(e.Data)
	if err != nil { // the data was decoded, so it is an object
		return nil, false
	}
	described := kindNamed(e.Type).descriptions()
	for _, m := range members {
		for i := range described {
			if described[i].Name == m.Name {
				fields = append(fields, GivenField{described[i], m.JSON})
			}
		}
	}
	return fields, c.payOnly()
}
