package domain_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/ledgerfeed/ledgerfeed/domain"
)

// TestDraftsRoundTrip decodes random entries with texts of any characters. Their
// canonical form must be that which canonical, written from the contract alone,
// gives, and their exported form must decode to the same draft.
func TestDraftsRoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		r := entries().Draw(t, "entry")
		for name, v := range r.data {
			if text, ok := v.(string); ok && formOf(r.typ, name) == domain.FormText {
				r.data[name] = text + rapid.StringOf(textRunes()).Draw(t, name+" text")
			}
		}
		at := time.UnixMilli(rapid.Int64Range(0, 250_000_000_000_000).Draw(t, "at")).UTC()
		in, err := json.Marshal(doc{"workspace_id": "w", "id": "e", "type": r.typ, "created_at": at.Format(time.RFC3339Nano), "data": r.data})
		if err != nil {
			t.Fatal(err)
		}
		d, err := domain.DecodeDraft(in)
		if err != nil {
			t.Fatalf("%s: %v", in, err)
		}
		if want := canonical(r.typ, r.data); d.Data != want {
			t.Fatalf("canonical form\n got %s\nwant %s", d.Data, want)
		}
		if !json.Valid([]byte(d.Data)) {
			t.Fatalf("not JSON: %s", d.Data)
		}
		e := d.EntryAt(7, domain.Genesis("w"))
		out := e.AppendNDJSON(nil)
		again, err := domain.DecodeDraft(out)
		if err != nil || again != d {
			t.Fatalf("exported as %sdecoded as %+v, %v\nwas %+v", out, again, err, d)
		}
		// The chained form has members that append does not take; the rest is the same.
		chained := parseDoc(string(e.AppendChainedNDJSON(nil)))
		if chained["position"] != json.Number("7") || len(chained["chain"].(string)) != 64 || chained["id"] != "e" {
			t.Fatalf("chained form %v", chained)
		}
	})
}

// textRunes are characters that texts may have; unusual ones come often.
func textRunes() *rapid.Generator[rune] {
	odd := rapid.SampledFrom([]rune("\n\t\"\\/<>&\u00a0\u2028\u2029\ufeff\ufffd\uffff😀\U0010ffff"))
	usual := rapid.Rune().Filter(func(r rune) bool { return r >= ' ' && (r < 0x7f || r > 0x9f) && (r < 0xd800 || r > 0xdfff) })
	return rapid.OneOf(odd, usual)
}

func formOf(typ, name string) domain.Form {
	for i := range domain.TypeNamed(typ).Fields {
		if f := &domain.TypeNamed(typ).Fields[i]; f.Name == name {
			return f.Form
		}
	}
	return 0
}

// canonical writes an entry's data in the canonical form of the contract.
func canonical(typ string, data doc) string {
	var order []string
	for i := range domain.TypeNamed(typ).Fields {
		order = append(order, domain.TypeNamed(typ).Fields[i].Name)
	}
	return canonicalObject(order, data)
}

func canonicalObject(order []string, data doc) string {
	nested := map[string][]string{
		"billing_address": {"line_1", "line_2", "city", "state", "zip", "country"},
		"contacts":        {"first_name", "last_name", "title", "email", "phone", "is_primary", "receives_invoices"},
		"package":         {"package_id", "service", "hours", "expires_at"},
	}
	var members []string
	for _, name := range order {
		var text string
		switch v := data[name].(type) {
		case nil:
			continue
		case string:
			if strings.HasSuffix(name, "_at") && name != "expires_at" {
				v = instant(v)
			}
			text = quoted(v)
		case json.Number:
			text = string(shortest(v).(json.Number))
		case bool:
			text = map[bool]string{true: "true", false: "false"}[v]
		case doc:
			text = canonicalObject(nested[name], v)
		case []any:
			var list []string
			for _, x := range v {
				list = append(list, canonicalObject(nested[name], x.(doc)))
			}
			text = "[" + strings.Join(list, ",") + "]"
		}
		members = append(members, quoted(name)+":"+text)
	}
	return "{" + strings.Join(members, ",") + "}"
}

// quoted writes a text with no escapes but those that JSON requires.
func quoted(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`, "\t", `\t`).Replace(s) + `"`
}
