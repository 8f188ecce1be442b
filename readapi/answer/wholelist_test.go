package answer_test

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/domain/jsonform"
	"github.com/ledgerfeed/ledgerfeed/readapi/answer"
)

// fields are those of a row that has everything.
func fields() []jsonform.FieldDescription {
	return []jsonform.FieldDescription{
		{Name: "id", Form: domain.FormID},
		{Name: "text", Form: domain.FormText},
		{Name: "party", Form: domain.FormObject, Fields: []jsonform.FieldDescription{{Name: "id", Form: domain.FormID}, {Name: "name", Form: domain.FormText}}},
		{Name: "list", Form: domain.FormArray, Fields: []jsonform.FieldDescription{{Name: "a", Form: domain.FormText}}},
		{Name: "amount", Form: domain.FormSignedMoney},
		{Name: "pay", Form: domain.FormMoney, Part: domain.Pay},
		{Name: "last", Form: domain.FormBool},
	}
}

func all(jsonform.Part) bool { return true }

// row is a row of fields.
type row struct {
	ID    string  `json:"id"`
	Text  *string `json:"text"`
	Party *party  `json:"party"`
	List  []item  `json:"list"`
	Money string  `json:"amount"`
	Pay   string  `json:"pay"`
	Last  bool    `json:"last"`
}

type party struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

type item struct {
	A string `json:"a"`
}

// compact is a value as the read tables hold it: compact, and with or without needless
// escapes.
func compact(t *rapid.T, v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(rapid.Bool().Draw(t, "escapes"))
	if err := e.Encode(v); err != nil {
		t.Fatal(err)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// oddText has what CSV and JSON have to escape. Texts have no control characters but
// newline and tab.
func oddText() *rapid.Generator[string] {
	return rapid.Map(rapid.SliceOfN(rapid.OneOf(
		rapid.SampledFrom([]string{",", `"`, `""`, "\n", "\t", "=", "+", "-", "@", "'", ";", " ", `\`, "/", "<", "\u2028", "𝄞", "é", "＝", "a", "{", "}", "[", "]", ":", "null", ""}),
		rapid.StringOfN(rapid.Rune(), 0, 3, -1).Filter(func(s string) bool {
			return !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == '\uFFFD' })
		}),
	), 0, 8), func(parts []string) string { return strings.Join(parts, "") })
}

func drawRow(t *rapid.T) row {
	r := row{
		ID: rapid.StringMatching(`[a-z0-9_-]{1,9}`).Draw(t, "id"), Money: rapid.SampledFrom([]string{"0.00", "-12.50", "70071.01"}).Draw(t, "money"),
		Pay: "7.00", Last: rapid.Bool().Draw(t, "last"), List: []item{},
	}
	if rapid.Bool().Draw(t, "has text") {
		text := oddText().Draw(t, "text")
		r.Text = &text
	}
	if rapid.Bool().Draw(t, "has party") {
		r.Party = &party{"p1", oddText().Draw(t, "name")}
	}
	for range rapid.IntRange(0, 2).Draw(t, "items") {
		r.List = append(r.List, item{oddText().Draw(t, "item")})
	}
	return r
}

// TestCSVIsReadBackAsTheRows: by a reader that is not ours, whatever the texts are.
func TestCSVIsReadBackAsTheRows(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		seesPay := rapid.Bool().Draw(t, "pay")
		columns := answer.NewColumns(fields(), func(p jsonform.Part) bool { return p != domain.Pay || seesPay })
		var out bytes.Buffer
		w := answer.NewListWriter(&out, answer.CSV, columns)
		var rows []row
		var lists []string
		for range rapid.IntRange(0, 4).Draw(t, "rows") {
			r := drawRow(t)
			rows = append(rows, r)
			text := compact(t, r)
			var members struct{ List json.RawMessage }
			if err := json.Unmarshal(text, &members); err != nil {
				t.Fatal(err)
			}
			lists = append(lists, string(members.List))
			cut := rapid.IntRange(0, len(text)-1).Draw(t, "fragments")
			if _, err := w.Row([][]byte{text[:cut], text[cut : len(text)-1]}); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.End("cursor"); err != nil {
			t.Fatal(err)
		}
		if n := bytes.Count(out.Bytes(), []byte("\r\n")); n != len(rows)+1 {
			t.Fatalf("%d lines of %d rows in %q", n, len(rows), out.Bytes())
		}
		table, err := csv.NewReader(&out).ReadAll()
		if err != nil {
			t.Fatal(err)
		}
		names := []string{"id", "text", "party.id", "party.name", "list", "amount", "pay", "last"}
		if !seesPay {
			names = slices.Delete(names, 6, 7)
		}
		if !slices.Equal(table[0], names) {
			t.Fatalf("columns %q", table[0])
		}
		for i, r := range rows {
			want := []string{r.ID, "", "", "", lists[i], r.Money, "7.00", "false"}
			if r.Text != nil {
				want[1] = *r.Text
			}
			if r.Party != nil {
				want[2], want[3] = r.Party.ID, r.Party.Name
			}
			if r.Last {
				want[7] = "true"
			}
			if !seesPay {
				want = slices.Delete(want, 6, 7)
			}
			if !slices.Equal(table[i+1], want) {
				t.Fatalf("%q\nwant %q", table[i+1], want)
			}
		}
	})
}

// TestRemovedColumn: rows that have left have their own column and nothing in the others.
func TestRemovedColumn(t *testing.T) {
	t.Parallel()
	columns := answer.NewColumns(fields(), all).AndRemoved()
	b := columns.AppendHeader(nil)
	for _, row := range []string{`{"id":"a","removed":true,"updated_at":"2026"}`, `{"id":"b","text":"t","party":null,"list":[],"amount":"1.00","pay":null,"last":true}`} {
		var err error
		if b, err = columns.AppendRow(b, []byte(row)); err != nil {
			t.Fatal(err)
		}
	}
	want := "id,text,party.id,party.name,list,amount,pay,last,removed\r\na,,,,,,,,true\r\nb,t,,,[],1.00,,true,\r\n"
	if string(b) != want {
		t.Errorf("%q\nwant %q", b, want)
	}
}

// TestColumnsOfEveryResource: each column has a name of its own.
func TestColumnsOfEveryResource(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]struct {
		fields []jsonform.FieldDescription
		some   []string
	}{
		"invoices": {domain.InvoiceFields(), []string{"id", "client.name", "contractor.id", "issued_invoices", "credit_note.amount", "payout_amount", "margin_note"}},
		"charges":  {domain.ChargeFields(), []string{"billed_to_client", "pay_rate"}}, "payments": {domain.PaymentFields(), []string{"direction", "client.id"}},
		"time entries": {domain.TimeEntryFields(), []string{"hours", "pay_status"}}, "contractors": {domain.ContractorFields(), []string{"email"}},
		"clients": {domain.ClientFields(), []string{"billing_address.line_1", "contacts"}},
	} {
		names := answer.NewColumns(want.fields, all).Names()
		for _, column := range want.some {
			if !slices.Contains(names, column) {
				t.Errorf("%s have no column %s: %q", name, column, names)
			}
		}
		if sorted := slices.Sorted(slices.Values(names)); len(slices.Compact(sorted)) != len(names) {
			t.Errorf("%s have a column twice: %q", name, names)
		}
	}
}

// FuzzRow: what is no row is an error, never a panic.
func FuzzRow(f *testing.F) {
	for _, text := range []string{`{}`, `{"id":"a","list":[{"a":"}]"}]}`, `{"id":"\ud834\udd1e\u00e9"}`, `{"party":{"id":1}}`, `{"id":"\`, `{"id":tru`, `{"text":"\u12"}`, `{`, `{"a"`, `{"id":"\ud834"}`} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		columns := answer.NewColumns(fields(), all).AndRemoved()
		b, err := columns.AppendRow(nil, []byte(text))
		if err != nil {
			return
		}
		if !json.Valid([]byte(text)) { // some of what is not valid has parts that can be told apart
			return
		}
		table, err := csv.NewReader(bytes.NewReader(b)).ReadAll()
		if err != nil || len(table) != 1 {
			t.Errorf("%q is written as %q: %v", text, b, err)
		}
	})
}

// TestARowIsOneLine: to programs that end lines at other characters than line feeds, too. NDJSON writes
// these as escapes, which is the same value, and CSV quotes the cells that hold them.
func TestARowIsOneLine(t *testing.T) {
	t.Parallel()
	for _, end := range []string{"\u2028", "\u2029", "\u0085"} {
		name := "One" + end + "Two, €, \u2027, \u202a, â" + end
		row := []byte(`{"id":"` + name + `","list":["` + end + `"]`)
		var b bytes.Buffer
		w := answer.NewListWriter(&b, answer.NDJSON, nil)
		for range 3 {
			if _, err := w.Row([][]byte{row[:20], row[20:]}); err != nil { // cut within a character, perhaps
				t.Fatal(err)
			}
		}
		if err := w.End("x"); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(b.String(), end) || strings.Count(b.String(), "\n") != 4 {
			t.Errorf("%q", b.String())
		}
		for line := range strings.Lines(b.String()) {
			var got struct{ ID *string }
			if err := json.Unmarshal([]byte(line), &got); err != nil || got.ID != nil && *got.ID != name {
				t.Errorf("%q: %v", line, err)
			}
		}
		if got := string(answer.AppendCell(nil, "a"+end)); got != `"a`+end+`"` {
			t.Errorf("a cell is %q", got)
		}
	}
	if got := string(answer.AppendCell(nil, "€ \u2027 \u202a â")); strings.Contains(got, `"`) {
		t.Errorf("a cell is %q", got)
	}
}

// TestPlaces: those of one workspace, and all of them.
func TestPlaces(t *testing.T) {
	t.Parallel()
	p := answer.NewListPlaces(3, 2, time.Hour)
	take := func(workspace string, want answer.Full) (leave func()) {
		t.Helper()
		_, leave, full := p.Take(t.Context(), workspace)
		if full != want || (leave == nil) != (full != answer.NotFull) {
			t.Errorf("%s: %d, want %d", workspace, full, want)
		}
		return leave
	}
	a := take("a", answer.NotFull)
	take("a", answer.NotFull)
	take("a", answer.FullWorkspace)
	b := take("b", answer.NotFull)
	take("c", answer.FullProcess)
	a()
	a() // again, without effect
	if p.Used() != 2 {
		t.Errorf("%d are used", p.Used())
	}
	take("a", answer.FullProcess) // the last place is for a workspace that has none
	b()
	take("a", answer.NotFull)
	take("c", answer.NotFull)
}

// TestNobodyKeepsAllPlaces: however many slow readers of however few workspaces there are, a workspace that
// reads nothing gets a place: the last one, or that of a list that was read for long.
func TestNobodyKeepsAllPlaces(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := answer.NewListPlaces(4, 2, time.Minute)
		ctx, stop := context.WithCancel(t.Context())
		defer func() {
			stop()
			<-time.After(2 * time.Second) // until all have left
		}()
		read := func(workspace string) (list context.Context) {
			list, leave, full := p.Take(ctx, workspace)
			if full != answer.NotFull {
				return nil
			}
			context.AfterFunc(list, func() { // it takes a moment to end
				<-time.After(time.Second)
				leave()
			})
			return list
		}
		first := read("a")
		<-time.After(time.Second)
		for _, workspace := range []string{"a", "b"} {
			if read(workspace) == nil {
				t.Fatalf("%s has no place", workspace)
			}
		}
		if read("b") != nil {
			t.Error("two workspaces have all places")
		}
		if read("c") == nil {
			t.Error("a third workspace has no place")
		}
		if read("d") != nil {
			t.Error("a list gave its place up at once")
		}
		<-time.After(time.Minute)
		if read("a") != nil || read("b") != nil || context.Cause(first) != nil {
			t.Error("a workspace that has a place takes another one's")
		}
		if read("d") == nil || !errors.Is(context.Cause(first), answer.ErrPlaceTaken) {
			t.Errorf("a workspace with nothing has no place; the oldest list of the one with most: %v", context.Cause(first))
		}
		if p.Used() != 4 {
			t.Errorf("%d are used", p.Used())
		}
		<-time.After(time.Minute)
		for i := range 50 { // the places go round
			if read(fmt.Sprint("w", i)) == nil {
				t.Fatalf("workspace %d has no place", i)
			}
			<-time.After(20 * time.Second)
		}
	})
}

// broken is a stream whose reader has gone.
type broken struct{}

var errGone = errors.New("gone")

func (broken) Write([]byte) (int, error) { return 0, errGone }

func TestAReaderThatGoes(t *testing.T) {
	t.Parallel()
	w := answer.NewListWriter(broken{}, answer.NDJSON, nil)
	for i := range 1_000_000 {
		if sent, err := w.Row([][]byte{[]byte(`{"id":1`)}); sent || err != nil {
			if !errors.Is(err, errGone) || i < 1000 {
				t.Errorf("row %d: %v", i, err)
			}
			return
		}
	}
	t.Error("nothing was sent")
}
