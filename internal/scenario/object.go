package scenario

import (
	"strconv"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/domain/jsonform"
)

// object builds one JSON object in canonical form. Each method appends a field, so a
// function that writes a type calls them in the order of the catalogue.
// encoding/json would do too, but is too slow to make a benchmark's input.
type object struct {
	b []byte
}

// reset starts a new object in the same memory.
func (o *object) reset() *object {
	o.b = append(o.b[:0], '{')
	return o
}

// finish closes the object and returns its bytes, which are valid until the next
// reset.
func (o *object) finish() []byte {
	o.b = append(o.b, '}')
	return o.b
}

// separate appends the comma between two members or elements.
func (o *object) separate() {
	if c := o.b[len(o.b)-1]; c != '{' && c != '[' {
		o.b = append(o.b, ',')
	}
}

func (o *object) name(name string) {
	o.separate()
	o.b = append(o.b, '"')
	o.b = append(o.b, name...)
	o.b = append(o.b, '"', ':')
}

// text writes a string field, or nothing where the value is empty: the contract has
// no empty texts, so "" means absent throughout this package.
func (o *object) text(name, value string) {
	if value == "" {
		return
	}
	o.name(name)
	o.b = jsonform.AppendString(o.b, value)
}

// money writes cents as a decimal string.
func (o *object) money(name string, cents int64) {
	o.name(name)
	amount := domain.Money(cents)
	o.b = amount.AppendJSON(o.b)
}

// hours writes quarters of an hour as a number in shortest form.
func (o *object) hours(name string, quarters int64) { o.hundredths(name, quarters*25) }

// hundredths writes a number given in hundredths in shortest form.
func (o *object) hundredths(name string, v int64) {
	o.name(name)
	number := domain.OptDecimal{Decimal: domain.Decimal(100 * v)}
	o.b = number.AppendGiven(o.b)
}

func (o *object) integer(name string, v int64) {
	o.name(name)
	o.b = strconv.AppendInt(o.b, v, 10)
}

func (o *object) flag(name string, v bool) {
	o.name(name)
	o.b = strconv.AppendBool(o.b, v)
}

func (o *object) date(name string, d day) {
	o.name(name)
	o.b = append(o.b, '"')
	o.b = d.append(o.b)
	o.b = append(o.b, '"')
}

func (o *object) instant(name string, ms int64) {
	o.name(name)
	o.b = append(o.b, '"')
	o.b = appendInstant(o.b, ms)
	o.b = append(o.b, '"')
}

// open starts a nested object, which close ends.
func (o *object) open(name string) {
	o.name(name)
	o.b = append(o.b, '{')
}

func (o *object) close() { o.b = append(o.b, '}') }

// openArray starts an array of objects, which closeArray ends.
func (o *object) openArray(name string) {
	o.name(name)
	o.b = append(o.b, '[')
}

// openElement starts an object in an array, which close ends.
func (o *object) openElement() {
	o.separate()
	o.b = append(o.b, '{')
}

func (o *object) closeArray() { o.b = append(o.b, ']') }
