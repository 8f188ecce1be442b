package jsonform_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/ledgerfeed/ledgerfeed/domain/jsonform"
)

// canonical decodes an object and returns its canonical form.
func canonical(text string) (string, error) {
	var (
		p    parcel
		errs jsonform.FieldErrors
	)
	if err := inputFields.Decode(text, "in", &p, &errs); err != nil {
		return "", err
	}
	if errs != nil {
		return "", errs
	}
	return string(inputFields.AppendGiven(nil, &p)), nil
}

func TestCanonicalForm(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		`{"name":"book"}`: `{"name":"book"}`,
		" {\n\"fragile\" : false ,\t\"name\":\" b\\u006fok \"}\r\n":      `{"name":"book","fragile":false}`,
		`{"stops":[],"name":"a","pieces":30e-1,"size":"L"}`:              `{"name":"a","size":"L","pieces":3,"stops":[]}`,
		`{"name":"a","stops":[{"nights":0,"town":"x"},{"town":"y"}]}`:    `{"name":"a","stops":[{"town":"x","nights":0},{"town":"y"}]}`,
		`{"name":"a","weight":"ggg","sender":{"street":"c","name":"b"}}`: `{"name":"a","weight":"ggg","sender":{"name":"b","street":"c"}}`,
		`{"extra": {"b": [1, {}]} ,"name":"a"}`:                          `{"name":"a","extra":{"b": [1, {}]}}`,
	} {
		if got, err := canonical(in); err != nil || got != want {
			t.Errorf("%s\n got %s, %v\nwant %s", in, got, err, want)
		}
		if again, err := canonical(want); err != nil || again != want {
			t.Errorf("the canonical form %s becomes %s, %v", want, again, err)
		}
	}
}

// TestFaults: every fault is named with its path and the form wanted, in the
// order of the text, and those of fields that are not there at the end.
func TestFaults(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		`{}`:                         "in.name is missing: want a word",
		`[]`:                         "in has the wrong form: want an object",
		`{"name":"A"}`:               "in.name has the wrong form: want a word",
		`{"name":null}`:              "in.name has the wrong form: want a word",
		`{"name":"a","size":"M"}`:    "in.size has the wrong form: want one of S, L",
		`{"name":"a","Name":"b"}`:    "in.Name is not known: want one of name, size, pieces, fragile, weight, sender, stops, extra",
		`{"name":"a","na\u006de":1}`: "in.name is given twice",
		`{"name":"a","pieces":-1}`:   "in.pieces has the wrong form: want a number",
		`{"name":"a","pieces":1.5}`:  "in.pieces has the wrong form: want a number",
		`{"name":"a","pieces":"1"}`:  "in.pieces has the wrong form: want a number",
		`{"name":"a","fragile":0}`:   "in.fragile has the wrong form: want a boolean",
		`{"name":"a","weight":"kg"}`: "in.weight has the wrong form: want a weight",
		`{"name":"a","weight":[1]}`:  "in.weight has the wrong form: want a weight",
		`{"name":"a","sender":[]}`:   "in.sender has the wrong form: want a sender",
		`{"name":"a","stops":{}}`:    "in.stops has the wrong form: want stops",
		`{"name":"a","extra":"x"}`:   "in.extra has the wrong form: want anything",
		`{"sender":{"street":1,"x":{}},"stops":[{"town":"x"},3,{"nights":true}],"size":{},"name":"a"}`: "in.sender.street has the wrong form: want a word; " +
			"in.sender.x is not known: want one of name, street; in.sender.name is missing: want a word; in.stops[1] has the wrong form: want an object; " +
			"in.stops[2].nights has the wrong form: want a number; in.stops[2].town is missing: want a word; in.size has the wrong form: want one of S, L",
	} {
		_, err := canonical(in)
		var faults jsonform.FieldErrors
		if !errors.As(err, &faults) || err.Error() != want {
			t.Errorf("%s\n got %v\nwant %s", in, err, want)
		}
	}
}

// TestInvalidJSON: what encoding/json would repair or take is refused, and the
// error names the byte.
func TestInvalidJSON(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		``:                           "expected a value at byte 1",
		`{"name":"a"`:                "expected a comma or the end of the object at byte 12",
		`{"name":"a"} x`:             "text after the value at byte 14",
		"{\"name\":\"a\"}\x00":       "text after the value at byte 13",
		`{"name":"a",}`:              "expected a name in quotes at byte 13",
		`{"name" "a"}`:               `expected ":" at byte 9`,
		`{name:"a"}`:                 "expected a name in quotes at byte 2",
		`{"name":'a'}`:               "expected a value at byte 9",
		`{"name":nul}`:               "expected a value at byte 9",
		`{"pieces":01}`:              "a malformed number at byte 13",
		`{"pieces":1.}`:              "a malformed number at byte 13",
		`{"pieces":-}`:               "a malformed number at byte 12",
		`{"pieces":1e}`:              "a malformed number at byte 13",
		`{"stops":[{"town":"x"} 1]}`: "expected a comma or the end of the array at byte 24",
		"{\"name\":\"a\nb\"}":        "a bare control character in a string at byte 11",
		"{\"name\":\"\\n\n\"}":       "a bare control character in a string at byte 12",
		`{"name":"a\x"}`:             "an unknown escape at byte 13",
		`{"name":"\u00`:              "an unfinished escape at byte 12",
		`{"name":"\u00zz"}`:          "an unfinished escape at byte 12",
		`{"name":"\`:                 "a string without an end at byte 11",
		`{"name":"a`:                 "a string without an end at byte 11",
		`{"name":"\ud83d"}`:          "half a surrogate pair at byte 16",
		`{"name":"\ud83d\ud83d"}`:    "half a surrogate pair at byte 22",
		`{"name":"\ude00"}`:          "half a surrogate pair at byte 16",
		"{\"name\":\"\xff\"}":        "text that is not UTF-8 at byte 10",
		"{\"name\":\"\\t\xed\xa0\"}": "text that is not UTF-8 at byte 10",
		`{"x":` + strings.Repeat("[", 40) + strings.Repeat("]", 40) + `}`: "nested too deeply at byte 39",
	} {
		_, err := canonical(in)
		if err == nil || err.Error() != "not valid JSON: "+want {
			t.Errorf("%q\n got %v\nwant %s", in, err, want)
		}
	}
}

// wholeParcel has a value in every field.
func wholeParcel() parcel {
	return parcel{
		Name: "book", Pieces: jsonform.OptInt{Int: 2, Set: true}, Fragile: jsonform.OptBool{Bool: true, Set: true}, Weight: grams{3, true},
		Sender: &sender{"ada", ""}, Stops: []stop{{"bath", jsonform.OptInt{}}, {"york", jsonform.OptInt{Int: 1, Set: true}}},
		Extra: jsonform.Raw{Text: `{"a":[null]}`, Set: true}, Open: true, Price: "1.00",
	}
}

func TestPartsAreReadBack(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		parcel
		base, priced string
	}{
		"whole": {
			wholeParcel(),
			`{"name":"book","upper_name":"BOOK","pieces":2,"fragile":true,"open":true,"sender":{"name":"ada","street":null},` +
				`"stops":[{"town":"bath","nights":null},{"town":"york","nights":1}],"extra":{"a":[null]}`,
			`,"price":"1.00","weight":"ggg"`,
		},
		"zero": {
			parcel{},
			`{"name":null,"upper_name":null,"pieces":null,"fragile":false,"open":false,"sender":null,"stops":[],"extra":null`,
			`,"price":null,"weight":null`,
		},
	} {
		base, priced := rowFields.AppendPart([]byte("x"), &c.parcel, 0), rowFields.AppendPart(nil, &c.parcel, 1)
		if string(base) != "x"+c.base || string(priced) != c.priced || !rowFields.HasPart(1) || rowFields.HasPart(2) {
			t.Errorf("%s\n got %s and %s\nwant %s and %s", name, base, priced, c.base, c.priced)
		}
		if !json.Valid([]byte(c.base + c.priced + "}")) {
			t.Errorf("%s: the parts and a brace are not JSON", name)
		}
		var again parcel
		if err := errors.Join(rowFields.ReadPart(c.base, &again, 0), rowFields.ReadPart(c.priced, &again, 1)); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if b := string(rowFields.AppendPart(nil, &again, 0)) + string(rowFields.AppendPart(nil, &again, 1)); b != c.base+c.priced {
			t.Errorf("%s: read back as %s", name, b)
		}
	}
}

func TestDamagedParts(t *testing.T) {
	t.Parallel()
	whole := wholeParcel()
	base := string(rowFields.AppendPart(nil, &whole, 0))
	for _, c := range []struct{ old, replaced, want string }{
		{`{"name"`, `"name"`, "no name at byte 1"},
		{`"name"`, `"label"`, "no name at byte 2"},
		{`,"pieces":2`, ``, "no pieces at byte 36"},
		{`"pieces":2`, `"pieces":2.5`, "pieces: not valid JSON: expected a number at byte 48"},
		{`"fragile":true`, `"fragile":"true"`, "fragile: not valid JSON: expected true or false"},
		{`"street":null}`, `"street":null`, "sender: a stored fragment is damaged: an object without an end"},
		{`"BOOK"`, `BOOK`, "upper_name: not valid JSON: expected a value"},
		{`{"a":[null]}`, `{"a":[null]} `, "text after the last field"},
	} {
		err := rowFields.ReadPart(strings.Replace(base, c.old, c.replaced, 1), new(parcel), 0)
		if err == nil || !strings.HasPrefix(err.Error(), "a stored fragment is damaged: "+c.want) {
			t.Errorf("%s for %s: %v, want %s", c.replaced, c.old, err, c.want)
		}
	}
}

func TestDescribe(t *testing.T) {
	t.Parallel()
	described := rowFields.Describe()
	if len(described) != len(rowFields) {
		t.Fatalf("%d fields described, there are %d", len(described), len(rowFields))
	}
	first, of, stops := described[0], described[6], described[8]
	if first.Name != "name" || first.Form != form("a word") || first.Doc != "What it is." || len(first.Known) != 1 || described[3].Part != 1 {
		t.Errorf("described as %+v and %+v", first, described[3])
	}
	if of.Object != "sender" || len(of.Fields) != 2 || !of.Fields[1].Nullable || of.Example != `{"name":"ada","street":null}` {
		t.Errorf("the object is described as %+v", of)
	}
	if stops.Object != "stop" || stops.Example != `[{"town":"bath","nights":2}]` {
		t.Errorf("the array is described as %+v", stops)
	}
	const example = `{"name":"book","upper_name":"BOOK","pieces":3,"price":"1.00","fragile":true,"open":true,` +
		`"sender":{"name":"ada","street":null},"weight":"gg","stops":[{"town":"bath","nights":2}],"extra":null}`
	if got := jsonform.ExampleOf(described); got != example {
		t.Errorf("example %s\nwant %s", got, example)
	}
}

func TestDefineRefuses(t *testing.T) {
	t.Parallel()
	refuses := func(want string, fields []jsonform.Field[parcel]) {
		t.Helper()
		defer func() {
			if got := fmt.Sprint(recover()); got != want {
				t.Errorf("panic %q, want %q", got, want)
			}
		}()
		jsonform.Define(fields)
	}
	refuses("jsonform: a field cannot hold a *[]jsonform_test.stop", []jsonform.Field[parcel]{{Name: "stops", At: func(p *parcel) any { return &p.Stops }}})
	refuses("jsonform: a field cannot hold a string", []jsonform.Field[parcel]{{Name: "name", At: func(p *parcel) any { return p.Name }}})
	many := make([]jsonform.Field[parcel], 65)
	for i := range many {
		many[i] = jsonform.Field[parcel]{Name: fmt.Sprint("f", i), At: func(p *parcel) any { return &p.Name }}
	}
	refuses("jsonform: 65 fields in one record, at most 64", many)
	jsonform.Define(many[:64])
}

// TestParseNumberIsExact compares numbers, with exponents and many digits, with
// big rationals.
func TestParseNumberIsExact(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringMatching(`-?(0|[1-9][0-9]{0,20})(\.[0-9]{1,7})?([eE][+-]?[0-9]{1,2})?`).Draw(t, "number")
		places, maxWhole := rapid.IntRange(0, 5).Draw(t, "places"), rapid.IntRange(1, 19).Draw(t, "maxWhole")
		value, ok := new(big.Rat).SetString(text)
		if !ok {
			t.Fatalf("big.Rat does not read %s", text)
		}
		scaled := new(big.Rat).Mul(value, new(big.Rat).SetInt(power(places)))
		fits := scaled.IsInt() && new(big.Rat).Abs(value).Cmp(new(big.Rat).SetInt(power(maxWhole))) < 0 &&
			scaled.Num().IsInt64() && scaled.Num().Int64() != -1<<63
		got, ok := jsonform.ParseNumber(text, places, maxWhole)
		if ok != fits || ok && got != scaled.Num().Int64() {
			t.Fatalf("%s with %d places and %d digits before the point: %d, %v; want %s, %v", text, places, maxWhole, got, ok, scaled.RatString(), fits)
		}
	})
}

func power(n int) *big.Int { return new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(n)), nil) }

// TestStringsSurvive: texts of any characters are written as JSON that
// encoding/json reads as the same, and with no escape that JSON does not require.
func TestStringsSurvive(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.String(), rapid.StringOf(rapid.SampledFrom([]rune("\"\\/<>&\u2028\x00\x1f\n\t\r\x7f😀a")))).Draw(t, "text")
		written := jsonform.AppendString(nil, text)
		var again string
		if err := json.Unmarshal(written, &again); err != nil || again != text {
			t.Fatalf("%q is written %s and read %q, %v", text, written, again, err)
		}
		escapes := 0
		for _, r := range text {
			switch {
			case r == '\\':
				escapes += 2 // itself and its escape
			case r < ' ', r == '"':
				escapes++
			}
		}
		if strings.Count(string(written), `\`) != escapes {
			t.Fatalf("%q is written with escapes that JSON does not require: %s", text, written)
		}
	})
}

// FuzzDecode: what is decoded is JSON, and its canonical form is a fixed point.
func FuzzDecode(f *testing.F) {
	whole := wholeParcel()
	whole.Size = "S"
	f.Add(string(inputFields.AppendGiven(nil, &whole)))
	f.Add(`{"name":"a","pieces":1e2,"stops":[{"town":"x"},{}],"extra":{"\ud83d\ude00":[[]]}}`)
	f.Add(`{"name":"a","sender":null,"fragile":tru}`)
	f.Fuzz(func(t *testing.T, in string) {
		got, err := canonical(in)
		var faults jsonform.FieldErrors
		if err != nil && !errors.As(err, &faults) {
			return
		}
		if !json.Valid([]byte(in)) {
			t.Fatalf("%q is taken as JSON (%v)", in, err)
		}
		if err != nil {
			return
		}
		if again, err := canonical(got); err != nil || again != got {
			t.Fatalf("%q becomes %s, and then %s, %v", in, got, again, err)
		}
	})
}

// FuzzReadPart: a damaged part that can be read at all is written in a form that
// reads back the same.
func FuzzReadPart(f *testing.F) {
	whole := wholeParcel()
	for _, p := range []*parcel{&whole, {}} {
		f.Add(0, string(rowFields.AppendPart(nil, p, 0)))
		f.Add(1, string(rowFields.AppendPart(nil, p, 1)))
	}
	f.Fuzz(func(t *testing.T, n int, text string) {
		part := jsonform.Part(n & 1)
		var p, again parcel
		if rowFields.ReadPart(text, &p, part) != nil {
			return
		}
		kept := string(rowFields.AppendPart(nil, &p, part))
		err := rowFields.ReadPart(kept, &again, part)
		if got := string(rowFields.AppendPart(nil, &again, part)); err != nil || got != kept {
			t.Fatalf("%q\nis read back as %q, %v", kept, got, err)
		}
	})
}
