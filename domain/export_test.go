package domain

import "crypto/sha256"

// EntryAt returns the entry that the draft becomes at a position, after the entry
// with chain value before.
func (d *Draft) EntryAt(position int64, before [sha256.Size]byte) Entry {
	if d.Value() != "" && d.Salt.IsZero() {
		d.Salt = Salt(sha256.Sum256([]byte(d.ID))) // the same in every run
	}
	e := d.Entry()
	e.Position = position
	e.Chain = e.ChainAfter(before)
	return e
}

// ParseMoney is parseMoney.
var ParseMoney = parseMoney

// Type is a row of the catalogue. Only tests look at the catalogue as a whole.
type Type struct {
	Name, Object string
	Public       bool
	Fields       []TypeField
	Detached     []string
}

// TypeField is a field that entries of a type may have.
type TypeField struct {
	Name     string
	Form     Form
	Required bool
	Values   []string
}

func (t *entryType[D]) describe() *Type {
	d := &Type{Name: t.name, Object: t.object, Public: t.public, Detached: t.detached}
	for i := range t.table {
		f := &t.table[i]
		d.Fields = append(d.Fields, TypeField{f.Name, f.Form.(Form), f.Required, f.Values})
	}
	return d
}

// Types returns the catalogue in its order.
func Types() (list []*Type) {
	for _, k := range catalogue {
		list = append(list, k.(interface{ describe() *Type }).describe())
	}
	return list
}

// TypeNamed returns a type of the catalogue.
func TypeNamed(name string) *Type {
	return kindNamed(name).(interface{ describe() *Type }).describe()
}

// MeaningKeys returns the keys of all meanings.
func MeaningKeys() Set {
	keys := Set{}
	for key := range meanings {
		keys.add(key)
	}
	return keys
}

// MeaningKey is meaningKey for a type by its name.
func MeaningKey(typ, field string) string { return meaningKey(kindNamed(typ).head(), field) }
