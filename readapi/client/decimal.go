package client

import (
	"encoding/json"
	"fmt"
	"math/big"
	"strings"
)

// Decimal is an exact number, such as an amount of money or a number of hours. It keeps the digits
// that the API wrote, and whether they were a string or a number. The zero value is 0.
type Decimal struct {
	text   string // empty: 0
	number bool   // written without quotes
}

// ParseDecimal reads digits with at most one point and a minus sign, such as -12.50.
func ParseDecimal(text string) (Decimal, error) {
	whole, fraction, point := strings.Cut(strings.TrimPrefix(text, "-"), ".")
	if !digits(whole) || point && !digits(fraction) {
		return Decimal{}, fmt.Errorf("%q is not a decimal number: want digits, such as 12.50", text)
	}
	return Decimal{text: text}, nil
}

func digits(text string) bool {
	return text != "" && strings.Trim(text, "0123456789") == ""
}

// String is the number as the API wrote it.
func (d Decimal) String() string {
	if d.text == "" {
		return "0"
	}
	return d.text
}

// Rat is the number for exact calculations.
func (d Decimal) Rat() *big.Rat {
	r, _ := new(big.Rat).SetString(d.String()) // ParseDecimal has checked the form
	return r
}

// Cmp compares by value, so 7.50 equals 7.5. The result is negative if d is less than other,
// zero if they are equal, and positive if d is greater.
func (d Decimal) Cmp(other Decimal) int { return d.Rat().Cmp(other.Rat()) }

// MarshalJSON writes the number in the form in which it was read: as a string or as a number.
func (d Decimal) MarshalJSON() ([]byte, error) {
	if d.number {
		return []byte(d.String()), nil
	}
	return []byte(`"` + d.String() + `"`), nil
}

// UnmarshalJSON reads a string or a number.
func (d *Decimal) UnmarshalJSON(data []byte) error {
	if string(data) == "null" {
		return nil
	}
	text, quoted := string(data), data[0] == '"'
	if quoted {
		if err := json.Unmarshal(data, &text); err != nil {
			return fmt.Errorf("read a decimal number: %w", err)
		}
	}
	parsed, err := ParseDecimal(text)
	if err != nil {
		return err
	}
	parsed.number = !quoted
	*d = parsed
	return nil
}

// MarshalText writes the number as String does.
func (d Decimal) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText reads what ParseDecimal reads.
func (d *Decimal) UnmarshalText(text []byte) (err error) {
	*d, err = ParseDecimal(string(text))
	return err
}
