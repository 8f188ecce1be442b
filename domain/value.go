package domain

import (
	"fmt"
	"slices"
	"strconv"
)

// Values of fields live in records as these types, absent ones as their zero:
// *string (texts, ids, dates, times and periods are never empty, so empty is
// absent), *Money, *OptMoney, *MoneyTotal, *OptDecimal, *OptDecimalTotal, *OptInt,
// *bool, *OptBool, *Party, and composites.

// given reports whether an entry gave the value.
func given(v any) bool {
	switch p := v.(type) {
	case *string:
		return *p != ""
	case *OptMoney:
		return p.Set
	case *OptDecimal:
		return p.Set
	case *OptInt:
		return p.Set
	case *OptBool:
		return p.Set
	case composite:
		return p.given()
	}
	panic(fmt.Sprintf("domain: no presence for %T", v))
}

// appendValue appends a value as JSON, null when it is absent.
func appendValue(b []byte, v any) []byte {
	switch p := v.(type) {
	case *string:
		if *p != "" {
			return appendString(b, *p)
		}
	case *Money:
		return append(p.Append(append(b, '"')), '"')
	case *OptMoney:
		if p.Set {
			return append(p.Append(append(b, '"')), '"')
		}
	case *MoneyTotal:
		return append(p.Append(append(b, '"')), '"')
	case *OptDecimal:
		if p.Set {
			return p.Append(b)
		}
	case *OptDecimalTotal:
		if p.Set {
			return p.Append(b)
		}
	case *OptInt:
		if p.Set {
			return strconv.AppendInt(b, p.Int, 10)
		}
	case *bool:
		return strconv.AppendBool(b, *p)
	case *OptBool:
		return strconv.AppendBool(b, p.Bool)
	case *Party:
		return p.append(b)
	default:
		panic(fmt.Sprintf("domain: no form for %T", v))
	}
	return append(b, "null"...)
}

// decodeValue takes one value of an entry in the form its field wants.
func decodeValue[R any](s *scanner, f *Field[R], v any, path string, errs *FormErrors) error {
	var (
		ok  bool
		err error
	)
	switch p := v.(type) {
	case *string:
		ok, err = decodeString(s, f, p)
	case *OptMoney:
		ok, err = decodeMoney(s, f.Form == FormSignedMoney, p)
	case *OptDecimal:
		ok, err = decodeNumber(s, decimalPlaces, f.Form == FormHours, func(n int64) { *p = OptDecimal{Decimal(n), true} })
	case *OptInt:
		ok, err = decodeNumber(s, 0, true, func(n int64) { *p = OptInt{n, true} })
	case *OptBool:
		ok, err = decodeBool(s, p)
	case composite:
		open := byte('{')
		if f.Form == FormArray {
			open = '['
		}
		if s.peek() == open {
			return p.decode(s, join(path, f.Name), errs)
		}
		_, err = s.skip()
	default:
		panic(fmt.Sprintf("domain: cannot decode a %T", v))
	}
	if err == nil && !ok {
		errs.add(join(path, f.Name), faultForm, f.want())
	}
	return err
}

func decodeString[R any](s *scanner, f *Field[R], p *string) (bool, error) {
	if s.peek() != '"' {
		_, err := s.skip()
		return false, err
	}
	text, err := s.str()
	if err != nil {
		return false, err
	}
	ok := false
	switch f.Form {
	case FormID:
		ok = IsID(text)
	case FormText:
		ok = isText(text)
	case FormEnum:
		ok = slices.Contains(f.Values, text)
	case FormCurrency:
		ok = isCurrency(text)
	case FormDate:
		ok = isDate(text)
	case FormPeriod:
		_, ok = Period(text)
	case FormDateTime:
		t, isTime := ParseTime(text)
		if ok = isTime; ok {
			text = FormatTime(t)
		}
	default: // the other forms are not strings
	}
	if ok {
		*p = text
	}
	return ok, nil
}

func decodeMoney(s *scanner, signed bool, p *OptMoney) (bool, error) {
	if s.peek() != '"' {
		_, err := s.skip()
		return false, err
	}
	text, err := s.str()
	if err != nil {
		return false, err
	}
	m, ok := ParseMoney(text, signed)
	if ok {
		*p = moneyAsGiven(m, text)
	}
	return ok, nil
}

func decodeNumber(s *scanner, places int, fromZero bool, set func(int64)) (bool, error) {
	if c := s.peek(); c != '-' && (c < '0' || c > '9') {
		_, err := s.skip()
		return false, err
	}
	text, err := s.number()
	if err != nil {
		return false, err
	}
	maxWhole := maxDecimalDigits
	if places == 0 {
		maxWhole = maxInt64Digits // never summed
	}
	n, ok := parseDecimal(text, places, maxWhole)
	if !ok || (fromZero && n < 0) {
		return false, nil
	}
	set(n)
	return true, nil
}

func decodeBool(s *scanner, p *OptBool) (bool, error) {
	switch s.peek() {
	case 't', 'f':
		text, err := s.skip()
		*p = OptBool{Bool: text == "true", Set: true}
		return true, err
	}
	_, err := s.skip()
	return false, err
}
