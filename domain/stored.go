package domain

import (
	"errors"
	"fmt"
)

// The fold reads rows back from the fragments that readers get: there is one
// stored form of a row, and so nothing that could disagree with it.

// errFragment is wrapped by every complaint about a stored fragment.
var errFragment = errors.New("a stored fragment is damaged")

// scanFragment reads one part of a row, as appendPart wrote it.
func scanFragment[R any](fragment string, fields []Field[R], r *R, part Part) error {
	s := &scanner{b: fragment}
	if err := scanPart(s, fields, r, part); err != nil {
		return err
	}
	if s.i != len(s.b) {
		return fmt.Errorf("%w: text after the last field", errFragment)
	}
	return nil
}

// scanObject reads a nested object.
func scanObject[R any](s *scanner, fields []Field[R], r *R) error {
	if err := scanPart(s, fields, r, Base); err != nil {
		return err
	}
	if !s.literal("}") {
		return fmt.Errorf("%w: an object without an end", errFragment)
	}
	return nil
}

func scanPart[R any](s *scanner, fields []Field[R], r *R, part Part) error {
	separator := ","
	if part == Base {
		separator = "{"
	}
	for i := range fields {
		f := &fields[i]
		if f.Part != part {
			continue
		}
		if !s.literal(separator) || !s.literal(f.key) {
			return fmt.Errorf("%w: no %s at byte %d", errFragment, f.Name, s.i+1)
		}
		separator = ","
		var err error
		if f.derive != nil {
			_, err = s.skip()
		} else {
			err = scanValue(s, f.at(r))
		}
		if err != nil {
			return fmt.Errorf("%w: %s: %w", errFragment, f.Name, err)
		}
	}
	return nil
}

// scanValue reads a value as appendValue wrote it.
func scanValue(s *scanner, v any) error {
	if c, ok := v.(composite); ok {
		return c.scanStored(s)
	}
	if s.literal("null") {
		return nil
	}
	switch p := v.(type) {
	case *string:
		text, err := s.str()
		*p = text
		return err
	case *Money:
		return scanMoney(s, p)
	case *OptMoney:
		p.Set = true
		return scanMoney(s, &p.Money)
	case *MoneyTotal:
		text, err := s.str()
		if err != nil {
			return err
		}
		return scanTotal(s, text, moneyPlaces, &p.total)
	case *OptDecimal:
		p.Set = true
		return scanNumber(s, decimalPlaces, (*int64)(&p.Decimal))
	case *OptDecimalTotal:
		p.Set = true
		text, err := s.number()
		if err != nil {
			return err
		}
		return scanTotal(s, text, decimalPlaces, &p.total)
	case *OptInt:
		p.Set = true
		return scanNumber(s, 0, &p.Int)
	case *bool:
		*p = s.literal("true")
		if !*p && !s.literal("false") {
			return s.fail("expected true or false")
		}
		return nil
	case *OptBool:
		p.Set = true
		return scanValue(s, &p.Bool)
	case *Party:
		return p.scan(s)
	}
	return fmt.Errorf("no stored form for %T", v)
}

func scanMoney(s *scanner, m *Money) error {
	text, err := s.str()
	if err != nil {
		return err
	}
	negative := text != "" && text[0] == '-'
	if negative {
		text = text[1:]
	}
	v, ok := parseHundredths(text)
	if !ok {
		return s.fail("expected an amount")
	}
	if negative {
		v = -v
	}
	*m = v
	return nil
}

func scanTotal(s *scanner, text string, places int, t *total) error {
	v, ok := parseTotal(text, places)
	if !ok {
		return s.fail("expected a sum")
	}
	*t = v
	return nil
}

func scanNumber(s *scanner, places int, n *int64) error {
	text, err := s.number()
	if err != nil {
		return err
	}
	v, ok := parseDecimal(text, places, maxInt64Digits)
	if !ok {
		return s.fail("expected a number")
	}
	*n = v
	return nil
}
