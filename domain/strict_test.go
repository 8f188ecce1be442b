package domain_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/domain/jsonform"
)

// sample is a value of a form, as JSON.
func sample(f *domain.TypeField) string {
	switch f.Form {
	case domain.FormEnum:
		return `"` + f.Values[0] + `"`
	case domain.FormMoney, domain.FormSignedMoney:
		return `"12.50"`
	case domain.FormCurrency:
		return `"EUR"`
	case domain.FormDate:
		return `"2026-10-02"`
	case domain.FormDateTime:
		return `"2026-10-02T09:15:00.120Z"`
	case domain.FormPeriod:
		return `"2026-10"`
	case domain.FormHours, domain.FormNumber, domain.FormInteger, domain.FormCount:
		return "3"
	case domain.FormBool:
		return "true"
	case domain.FormArray:
		return "[]"
	case domain.FormObject:
		if f.Name == "package" {
			return `{"package_id":"g","service":"s"}`
		}
		return "{}"
	case domain.FormID, domain.FormText, domain.FormSalt:
	}
	return `"` + f.Name + `"`
}

// dataOf writes an entry's data: a sample of every field that keep accepts, and
// the values in replace.
func dataOf(typ *domain.Type, keep func(*domain.TypeField) bool, replace map[string]string) string {
	var members []string
	for i := range typ.Fields {
		f := &typ.Fields[i]
		v, replaced := replace[f.Name]
		if !replaced {
			v = sample(f)
		}
		if replaced || keep(f) {
			members = append(members, `"`+f.Name+`":`+v)
		}
	}
	return "{" + strings.Join(members, ",") + "}"
}

func required(f *domain.TypeField) bool { return f.Required }

func all(*domain.TypeField) bool { return true }

func refused(t *testing.T, typ, data, field, fault string) {
	t.Helper()
	_, err := domain.NewDraft("w", typ, []byte(data))
	var faults jsonform.FieldErrors
	if !errors.As(err, &faults) {
		t.Errorf("%s %s: got %v, want faults of form", typ, data, err)
		return
	}
	if !slices.ContainsFunc(faults, func(f jsonform.FieldError) bool { return f.Field == field && f.Fault == fault && f.Want != "" }) {
		t.Errorf("%s %s: got %v; want: %s %s, and the form wanted", typ, data, err, field, fault)
	}
}

// TestEveryFieldIsStrict tries each field of each type: missing where it is
// required, null, and as every kind of JSON value that it is not.
func TestEveryFieldIsStrict(t *testing.T) {
	t.Parallel()
	kinds := map[string]string{"null": "null", "string": `"\u0001"`, "number": "-1.5", "boolean": "true", "array": "[[]]", "object": `{"surprise":1}`}
	for _, typ := range domain.Types() {
		for _, data := range []string{dataOf(typ, all, nil), dataOf(typ, required, nil)} {
			d, err := domain.NewDraft("w", typ.Name, []byte(data))
			if err != nil || d.Data != data {
				t.Fatalf("%s: the sample %s gives %s, %v", typ.Name, data, d.Data, err)
			}
		}
		for i := range typ.Fields {
			f := &typ.Fields[i]
			if f.Required {
				refused(t, typ.Name, dataOf(typ, func(g *domain.TypeField) bool { return g.Name != f.Name }, nil),
					"data."+f.Name, "is missing")
			}
			for kind, value := range kinds {
				right := kind == "boolean" && f.Form == domain.FormBool ||
					kind == "number" && f.Form == domain.FormNumber ||
					kind == "object" && f.Form == domain.FormObject || // its members have their own faults
					kind == "array" && f.Form == domain.FormArray
				if !right {
					refused(t, typ.Name, dataOf(typ, required, map[string]string{f.Name: value}), "data."+f.Name, "has the wrong form")
				}
			}
		}
		refused(t, typ.Name, `{"surprise":null}`, "data.surprise", "is not known")
	}
}

func TestNestedFieldsAreStrict(t *testing.T) {
	t.Parallel()
	client := func(rest string) string { return `{"client_id":"c","name":"n",` + rest + `}` }
	grant := func(rest string) string {
		return `{"credit_id":"r","client_id":"c","amount":"1.00","currency":"EUR","package":` + rest + `}`
	}
	for _, c := range []struct{ typ, data, field, fault string }{
		{"client.recorded", client(`"billing_address":{"line_1":""}`), "data.billing_address.line_1", "has the wrong form"},
		{"client.recorded", client(`"billing_address":{"Line_1":"x"}`), "data.billing_address.Line_1", "is not known"},
		{"client.recorded", client(`"contacts":[{},{"is_primary":"true"}]`), "data.contacts[1].is_primary", "has the wrong form"},
		{"client.recorded", client(`"contacts":[null]`), "data.contacts[0]", "has the wrong form"},
		{"credit.topped_up", grant(`{"package_id":"g"}`), "data.package.service", "is missing"},
		{"credit.topped_up", grant(`{"package_id":"g g","service":"s"}`), "data.package.package_id", "has the wrong form"},
		{"credit.topped_up", grant(`{"package_id":"g","service":"s","hours":-1}`), "data.package.hours", "has the wrong form"},
		{"credit.topped_up", grant(`{"package_id":"g","service":"s","expires_at":"2026-02-30"}`), "data.package.expires_at", "has the wrong form"},
	} {
		refused(t, c.typ, c.data, c.field, c.fault)
	}
}

// TestAllFaultsAtOnce: every fault of a line is named, not just the first.
func TestAllFaultsAtOnce(t *testing.T) {
	t.Parallel()
	_, err := domain.DecodeDraft([]byte(
		`{"workspace_id":"no spaces","created_at":"soon","colour":1,"type":"client.recorded","data":{"name":"","na\u006de":"n","contacts":[{"x":1}]}}`))
	if err == nil {
		t.Fatal("taken")
	}
	for _, want := range []string{
		"workspace_id has the wrong form: want an id", "created_at has the wrong form: want a date-time", "colour is not known: want one of workspace_id, id, type, created_at, data",
		"data.name has the wrong form: want a text", "data.name is given twice", "data.contacts[0].x is not known: want one of first_name", "data.client_id is missing: want an id",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%v\nlacks %q", err, want)
		}
	}
}

func TestTexts(t *testing.T) {
	t.Parallel()
	draft := func(name string) (domain.Draft, error) {
		return domain.NewDraft("w", "contractor.recorded", []byte(`{"contractor_id":"k","name":"`+name+`"}`))
	}
	for what, c := range map[string]struct{ in, want string }{
		"4,096 characters of two bytes": {strings.Repeat("é", 4096), strings.Repeat("é", 4096)},
		"4,096 escaped pairs":           {strings.Repeat(`\ud83d\uDE00`, 4096), strings.Repeat("😀", 4096)},
		"newline and tab":               {`\n\t\u000a\u0009`, `\n\t\n\t`},
		"quotes and slashes":            {`\"\\\/`, `\"\\/`},
		"a space alone":                 {" ", " "},
		"format and line separators":    {`\u200b\u2028\u2029\ufeff`, "\u200b\u2028\u2029\ufeff"},
		"the replacement character":     {`\ufffd` + "\ufffd", "\ufffd\ufffd"},
		"non-characters":                {`\uffff\ufdd0`, "\uffff\ufdd0"},
		"no-break space":                {"\u00a0", "\u00a0"},
		"not composed":                  {"e\u0301", "e\u0301"},
		"markup":                        {"<script>&", "<script>&"},
	} {
		d, err := draft(c.in)
		if want := `{"contractor_id":"k","name":"` + c.want + `"}`; err != nil || d.Data != want {
			t.Errorf("%s: %.80s, %v", what, d.Data, err)
		}
	}
	for what, in := range map[string]string{
		"empty": "", "4,097 characters": strings.Repeat("x", 4097), "4,097 pairs": strings.Repeat(`\ud83d\ude00`, 4097),
		"carriage return": `\r`, "backspace": `\b`, "form feed": `\f`, "null": `\u0000`, "escape": `\u001b`, "delete": `\u007f`, "bare delete": "\x7f",
		"next line": "\u0085", "last C1": `\u009f`, "half a pair": `\ud83d`, "half a pair, then text": `\ud83dx`, "two first halves": `\ud83d\ud83d`,
		"second half": `\ude00`, "pair reversed": `\ude00\ud83d`, "overlong UTF-8": "\xc0\x80", "surrogate in UTF-8": "\xed\xa0\x80",
		"cut UTF-8": "\xf0\x9f\x98", "beyond Unicode": "\xf4\x90\x80\x80", "bad UTF-8 beside an escape": `\n` + "\xff", "bare newline": "\n", "bare tab": "\t",
		"unknown escape": `\x41`, "short escape": `\u00`, "no hex": `\u00g0`,
	} {
		if d, err := draft(in); err == nil {
			t.Errorf("%s is taken: %s", what, d.Data)
		}
	}
}

func TestNumbers(t *testing.T) {
	t.Parallel()
	const applied = `"credit_id":"r","client_id":"c","invoice_id":"i","amount":"1.00","hours":`
	for in, want := range map[string]string{
		"0": "0", "-0": "0", "0.0000": "0", "7.5": "7.5", "7.50": "7.5", "8.0": "8", "0.0001": "0.0001", "1e2": "100", "1E+2": "100", "15e-1": "1.5",
		"0.00001e1": "0.0001", "123456789012": "123456789012", "123456789012.3456": "123456789012.3456", "99999999999999.9999": "99999999999999.9999",
		"0e999999999999999999999": "0", "0.000000000000000000001e20": "0.1", "1" + strings.Repeat("0", 400) + "e-400": "1", "100000e-5": "1",
	} {
		d, err := domain.NewDraft("w", "credit.applied", []byte("{"+applied+in+"}"))
		if wantData := "{" + applied + want + "}"; err != nil || d.Data != wantData {
			t.Errorf("%s: %s, %v; want %s", in, d.Data, err, want)
		}
	}
	for _, in := range []string{
		"-1", "-0.0001", "0.00001", "7.12345", "1e-5", "123456789012345", "1e14", "1e400", "1e-400", "1e99999999999999999999", "1e-99999999999999999999",
		"01", "-01", "1.", ".5", "+1", "1e", "1e+", "0x1", "NaN", "Infinity", "-", "--1", "1_000", "1,5", "٣",
	} {
		if d, err := domain.NewDraft("w", "credit.applied", []byte("{"+applied+in+"}")); err == nil {
			t.Errorf("%s is taken: %s", in, d.Data)
		}
	}
	const recorded = `"time_entry_id":"t","work_date":"2026-10-02","client_id":"c","contractor_id":"k","service":"s","hours":1,"session_count":`
	rest := `,"period":"2026-10","currency":"EUR"}`
	for in, want := range map[string]string{"0": "0", "3": "3", "1e2": "100", "3.0": "3", "9007199254740991": "9007199254740991"} {
		if d, err := domain.NewDraft("w", "time_entry.recorded", []byte("{"+recorded+in+rest)); err != nil || d.Data != "{"+recorded+want+rest {
			t.Errorf("session_count %s: %s, %v; want %s", in, d.Data, err, want)
		}
	}
	for _, in := range []string{"-1", "1.5", "0.1", "1e-1", "9007199254740992", "9223372036854775807", "9223372036854775808", "1e16", "1e19", `"3"`, "null"} {
		if _, err := domain.NewDraft("w", "time_entry.recorded", []byte("{"+recorded+in+rest)); err == nil {
			t.Errorf("session_count %s is taken", in)
		}
	}
}

func TestFaultsOfAHostileLineStayReadable(t *testing.T) {
	t.Parallel()
	var fields strings.Builder
	for i := range 3000 {
		fmt.Fprintf(&fields, `,"x%d":1`, i)
	}
	long := strings.Repeat("é", 10_000)
	_, err := domain.NewDraft("w", "test.ping", []byte(`{"`+long+`":1`+fields.String()+`}`))
	var faults jsonform.FieldErrors
	if !errors.As(err, &faults) || len(faults) != 3002 { // and webhook_id, which is missing
		t.Fatalf("%d faults, want 3002", len(faults))
	}
	text := err.Error()
	if len(text) > 3000 || !strings.HasSuffix(text, "; and 2982 more faults") || strings.Contains(text, "\uFFFD") {
		t.Errorf("%d bytes: %.300s … %s", len(text), text, text[max(0, len(text)-60):])
	}
}

func TestBounds(t *testing.T) {
	t.Parallel()
	const line = `{"workspace_id":"w","type":"test.ping","data":{"webhook_id":"h"}}`
	if _, err := domain.DecodeDraft([]byte(line + strings.Repeat(" ", domain.MaxEntrySize-len(line)))); err != nil {
		t.Errorf("an entry of exactly the bound: %v", err)
	}
	if _, err := domain.DecodeDraft([]byte(line + strings.Repeat(" ", domain.MaxEntrySize-len(line)+1))); err == nil {
		t.Error("an entry one byte over the bound is taken")
	}
	// Hostile nesting ends early, wherever it occurs.
	deep := strings.Repeat("[", 30_000) + strings.Repeat("]", 30_000)
	for _, hostile := range []string{
		`{"x":` + deep + `}`, `{"workspace_id":` + deep + `}`,
		`{"workspace_id":"w","type":"test.ping","data":{"x":` + deep + `}}`,
		`{"workspace_id":"w","type":"client.recorded","data":{"client_id":"c","name":"n","contacts":[` + deep + `]}}`,
	} {
		if _, err := domain.DecodeDraft([]byte(hostile)); err == nil || !strings.Contains(err.Error(), "nested too deeply") {
			t.Errorf("%.60s…: %v", hostile, err)
		}
	}
}

// TestOrderOfMembers: members may come in any order; the data even before the type
// that says how to read it.
func TestOrderOfMembers(t *testing.T) {
	t.Parallel()
	d, err := domain.DecodeDraft([]byte(" {\"data\" :\t{ \"webhook_id\":\"h\" } ,\r\n\"type\":\"test.ping\",\"id\":\"e\",\"workspace_id\":\"w\"} "))
	if err != nil || d.Data != `{"webhook_id":"h"}` || d.ID != "e" || d.WorkspaceID != "w" || !d.CreatedAt.IsZero() {
		t.Errorf("%+v, %v", d, err)
	}
}
