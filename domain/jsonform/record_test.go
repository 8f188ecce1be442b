package jsonform_test

import (
	"strings"

	"github.com/ledgerfeed/ledgerfeed/domain/jsonform"
)

// form is a Form that is its own description. Of texts it knows "a word": lower-case
// letters, whose canonical form has no spaces around them.
type form string

func (f form) Description() string { return string(f) }

func (f form) CanonicalText(text string) (string, bool) {
	text = strings.TrimSpace(text)
	return text, f == "a word" && text != "" && strings.Trim(text, "abcdefghijklmnopqrstuvwxyz") == ""
}

// grams is a value type of a user of the package: a weight, written as so many
// letters g.
type grams struct {
	n   int64
	set bool
}

func (g *grams) Given() bool { return g.set }

func (g *grams) AppendGiven(b []byte) []byte { return g.AppendJSON(b) }

func (g *grams) AppendJSON(b []byte) []byte {
	if !g.set {
		return append(b, "null"...)
	}
	return jsonform.AppendString(b, strings.Repeat("g", int(g.n)))
}

func (g *grams) DecodeJSON(s *jsonform.Scanner, _ jsonform.Form) (bool, error) {
	text, ok, err := s.TextOrSkip()
	if !ok || strings.Trim(text, "g") != "" {
		return false, err
	}
	*g = grams{int64(len(text)), true}
	return true, nil
}

func (g *grams) ScanJSON(s *jsonform.Scanner) error {
	text, err := s.Text()
	*g = grams{int64(len(text)), true}
	return err
}

// parcel is a record with a field of every kind.
type parcel struct {
	Name    string
	Size    string
	Pieces  jsonform.OptInt
	Fragile jsonform.OptBool
	Weight  grams
	Sender  *sender
	Stops   []stop
	Extra   jsonform.Raw
	Open    bool
	Price   string
}

type sender struct{ Name, Street string }

type stop struct {
	Town   string
	Nights jsonform.OptInt
}

var (
	senderFields = jsonform.Define([]jsonform.Field[sender]{
		{Name: "name", Form: form("a word"), Required: true, Example: `"ada"`, At: func(s *sender) any { return &s.Name }},
		{Name: "street", Form: form("a word"), Nullable: true, Example: "null", At: func(s *sender) any { return &s.Street }},
	})

	stopFields = jsonform.Define([]jsonform.Field[stop]{
		{Name: "town", Form: form("a word"), Required: true, Example: `"bath"`, At: func(s *stop) any { return &s.Town }},
		{Name: "nights", Form: form("a number"), Example: `2`, At: func(s *stop) any { return &s.Nights }},
	})

	inputFields = jsonform.Define(
		[]jsonform.Field[parcel]{
			{Name: "name", Form: form("a word"), Required: true, At: func(p *parcel) any { return &p.Name }},
			{Name: "size", Form: form("a word"), Values: []string{"S", "L"}, At: func(p *parcel) any { return &p.Size }},
			{Name: "pieces", Form: form("a number"), At: func(p *parcel) any { return &p.Pieces }},
			{Name: "fragile", Form: form("a boolean"), At: func(p *parcel) any { return &p.Fragile }},
		},
		[]jsonform.Field[parcel]{
			{Name: "weight", Form: form("a weight"), At: func(p *parcel) any { return &p.Weight }},
			{Name: "sender", Form: form("a sender"), At: func(p *parcel) any { return jsonform.ObjectOf(&p.Sender, senderFields) }},
			{Name: "stops", Form: form("stops"), At: func(p *parcel) any { return jsonform.ArrayOf(&p.Stops, stopFields) }},
			{Name: "extra", Form: form("anything"), At: func(p *parcel) any { return &p.Extra }},
		},
	)

	rowFields = jsonform.Define([]jsonform.Field[parcel]{
		{Name: "name", Form: form("a word"), Known: []string{"book"}, Example: `"book"`, Doc: "What it is.", At: func(p *parcel) any { return &p.Name }},
		{Name: "upper_name", Form: form("a text"), Example: `"BOOK"`, Derive: func(b []byte, p *parcel) []byte {
			return jsonform.AppendText(b, strings.ToUpper(p.Name))
		}},
		{Name: "pieces", Form: form("a number"), Nullable: true, Example: `3`, At: func(p *parcel) any { return &p.Pieces }},
		{Name: "price", Part: 1, Form: form("a text"), Example: `"1.00"`, At: func(p *parcel) any { return &p.Price }},
		{Name: "fragile", Form: form("a boolean"), Example: `true`, At: func(p *parcel) any { return &p.Fragile }},
		{Name: "open", Form: form("a boolean"), Example: `true`, At: func(p *parcel) any { return &p.Open }},
		{Name: "sender", Form: form("a sender"), At: func(p *parcel) any { return jsonform.ObjectOf(&p.Sender, senderFields) }},
		{Name: "weight", Part: 1, Form: form("a weight"), Example: `"gg"`, At: func(p *parcel) any { return &p.Weight }},
		{Name: "stops", Form: form("stops"), At: func(p *parcel) any { return jsonform.ArrayOf(&p.Stops, stopFields) }},
		{Name: "extra", Form: form("anything"), At: func(p *parcel) any { return &p.Extra }},
	})
)
