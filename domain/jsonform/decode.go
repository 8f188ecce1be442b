package jsonform

import "slices"

// wantObject is the form of objects, in error messages.
const wantObject = "an object"

// IsObject reports whether text begins as a JSON object.
func IsObject(text string) bool {
	s := &Scanner{text: text}
	return s.peek() == '{'
}

// Decode reads an object into a record strictly: unknown and repeated names,
// missing required fields and values in a wrong form (null among them) are
// faults, which it adds to errs with the field's path. path is that of the
// object itself; empty for none. The error is about invalid JSON, which ends
// decoding early.
func (fs Fields[R]) Decode(text, path string, r *R, errs *FieldErrors) error {
	s := &Scanner{text: text}
	if err := fs.decodeObject(s, path, wantObject, r, errs); err != nil {
		return err
	}
	return s.end()
}

func (fs Fields[R]) decodeObject(s *Scanner, path, want string, r *R, errs *FieldErrors) error {
	if s.peek() != '{' {
		errs.WrongForm(path, want)
		_, err := s.skip()
		return err
	}
	var seen uint64
	next := 0 // canonical input is in order, so the next field is nearly always the right one
	err := s.members(func(name string) error {
		i := next
		if i >= len(fs) || fs[i].Name != name {
			i = fs.named(name)
		}
		if i == len(fs) {
			errs.Unknown(join(path, name), "one of "+fs.names())
			_, err := s.skip()
			return err
		}
		if seen&(1<<i) != 0 {
			errs.twice(join(path, name))
			_, err := s.skip()
			return err
		}
		seen |= 1 << i
		next = i + 1
		return fs[i].decode(s, path, r, errs)
	})
	if err != nil {
		return err
	}
	for i := range fs {
		if fs[i].Required && seen&(1<<i) == 0 {
			errs.missing(join(path, fs[i].Name), fs[i].want())
		}
	}
	return nil
}

// decode takes the value of a field.
func (f *Field[R]) decode(s *Scanner, path string, r *R, errs *FieldErrors) error {
	var (
		ok  bool
		err error
	)
	switch v := f.At(r).(type) {
	case *string:
		ok, err = f.decodeText(s, v)
	case Input:
		ok, err = v.DecodeJSON(s, f.Form)
	case nested:
		return v.decode(s, join(path, f.Name), f.want(), errs)
	default:
		panic(noField(v))
	}
	if err == nil && !ok {
		errs.WrongForm(join(path, f.Name), f.want())
	}
	return err
}

func (f *Field[R]) decodeText(s *Scanner, v *string) (ok bool, err error) {
	text, ok, err := s.TextOrSkip()
	if !ok {
		return false, err
	}
	if f.Values != nil {
		ok = slices.Contains(f.Values, text)
	} else {
		text, ok = f.Form.CanonicalText(text)
	}
	if ok {
		*v = text
	}
	return ok, nil
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}
