package jsonform

import "strconv"

// ObjectOf is the value of a field that holds an optional object; nil is absent.
func ObjectOf[R any](at **R, fields Fields[R]) any { return object[R]{at, fields} }

// ArrayOf is the value of a field that holds an array of objects; nil is absent,
// and shown as empty.
func ArrayOf[R any](at *[]R, fields Fields[R]) any { return array[R]{at, fields} }

type object[R any] struct {
	at     **R
	fields Fields[R]
}

func (o object[R]) many() bool { return false }

func (o object[R]) given() bool { return *o.at != nil }

func (o object[R]) decode(s *Scanner, path, want string, errs *FieldErrors) error {
	*o.at = new(R)
	return o.fields.decodeObject(s, path, want, *o.at, errs)
}

func (o object[R]) appendGiven(b []byte) []byte { return o.fields.AppendGiven(b, *o.at) }

func (o object[R]) appendJSON(b []byte) []byte {
	if *o.at == nil {
		return append(b, "null"...)
	}
	return o.fields.appendObject(b, *o.at)
}

func (o object[R]) scan(s *Scanner) error {
	if s.Literal("null") {
		return nil
	}
	*o.at = new(R)
	return o.fields.scanObject(s, *o.at)
}

type array[R any] struct {
	at     *[]R
	fields Fields[R]
}

func (a array[R]) many() bool { return true }

func (a array[R]) given() bool { return *a.at != nil }

func (a array[R]) decode(s *Scanner, path, want string, errs *FieldErrors) error {
	if s.peek() != '[' {
		errs.WrongForm(path, want)
		_, err := s.skip()
		return err
	}
	*a.at = []R{}
	return s.elements(func(i int) error {
		*a.at = append(*a.at, *new(R))
		return a.fields.decodeObject(s, path+"["+strconv.Itoa(i)+"]", wantObject, &(*a.at)[i], errs)
	})
}

func (a array[R]) appendGiven(b []byte) []byte { return a.each(b, a.fields.AppendGiven) }

func (a array[R]) appendJSON(b []byte) []byte { return a.each(b, a.fields.appendObject) }

func (a array[R]) each(b []byte, write func([]byte, *R) []byte) []byte {
	b = append(b, '[')
	for i := range *a.at {
		if i > 0 {
			b = append(b, ',')
		}
		b = write(b, &(*a.at)[i])
	}
	return append(b, ']')
}

func (a array[R]) scan(s *Scanner) error {
	return s.elements(func(i int) error {
		*a.at = append(*a.at, *new(R))
		return a.fields.scanObject(s, &(*a.at)[i])
	})
}
