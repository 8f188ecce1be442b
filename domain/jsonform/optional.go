package jsonform

import "strconv"

// OptInt is a whole number from 0 that may be absent.
type OptInt struct {
	Int int64
	Set bool
}

// Given reports whether the number is present.
func (o *OptInt) Given() bool { return o.Set }

// AppendGiven appends the number.
func (o *OptInt) AppendGiven(b []byte) []byte { return strconv.AppendInt(b, o.Int, 10) }

// AppendJSON appends the number, or null.
func (o *OptInt) AppendJSON(b []byte) []byte {
	if !o.Set {
		return append(b, "null"...)
	}
	return o.AppendGiven(b)
}

// DecodeJSON takes a number from 0 that is whole, however it is written.
func (o *OptInt) DecodeJSON(s *Scanner, _ Form) (bool, error) {
	text, ok, err := s.NumberOrSkip()
	if !ok {
		return false, err
	}
	n, ok := ParseNumber(text, 0, maxInt64Digits)
	if !ok || n < 0 {
		return false, nil
	}
	*o = OptInt{n, true}
	return true, nil
}

// ScanJSON reads a whole number.
func (o *OptInt) ScanJSON(s *Scanner) error {
	o.Set = true
	return s.ScanNumber(0, &o.Int)
}

// OptBool is a boolean that input may leave out; what that means is for the
// reader of the record to say, with Or. Rows show an absent one as false.
type OptBool struct {
	Bool bool
	Set  bool
}

// Or returns the value, or def when it is absent.
func (o OptBool) Or(def bool) bool {
	if o.Set {
		return o.Bool
	}
	return def
}

// Given reports whether the boolean is present.
func (o *OptBool) Given() bool { return o.Set }

// AppendGiven appends the boolean.
func (o *OptBool) AppendGiven(b []byte) []byte { return strconv.AppendBool(b, o.Bool) }

// AppendJSON appends the boolean.
func (o *OptBool) AppendJSON(b []byte) []byte { return o.AppendGiven(b) }

// DecodeJSON takes true or false.
func (o *OptBool) DecodeJSON(s *Scanner, _ Form) (bool, error) {
	c := s.peek()
	text, err := s.skip()
	if c != 't' && c != 'f' {
		return false, err
	}
	*o = OptBool{Bool: text == "true", Set: true}
	return true, err
}

// ScanJSON reads true or false.
func (o *OptBool) ScanJSON(s *Scanner) error {
	o.Set = true
	return scanBool(s, &o.Bool)
}

// Raw is an object that is kept as its text, for input whose form depends on
// another field.
type Raw struct {
	Text string
	Set  bool
}

// Given reports whether the object is present.
func (r *Raw) Given() bool { return r.Set }

// AppendGiven appends the text as it came.
func (r *Raw) AppendGiven(b []byte) []byte { return append(b, r.Text...) }

// AppendJSON appends the text as it came, or null.
func (r *Raw) AppendJSON(b []byte) []byte {
	if !r.Set {
		return append(b, "null"...)
	}
	return r.AppendGiven(b)
}

// DecodeJSON takes any object.
func (r *Raw) DecodeJSON(s *Scanner, _ Form) (bool, error) {
	isObject := s.peek() == '{'
	text, err := s.skip()
	if isObject {
		*r = Raw{Text: text, Set: true}
	}
	return isObject, err
}

// ScanJSON reads any value.
func (r *Raw) ScanJSON(s *Scanner) (err error) {
	r.Text, err = s.skip()
	r.Set = true
	return err
}
