package pages

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/xuri/excelize/v2"
	"pgregory.net/rapid"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/domain/jsonform"
	"github.com/ledgerfeed/ledgerfeed/internal/console/web"
)

// TestNoFormula: no text of a file begins a formula, wherever a spreadsheet ends a cell, and other texts
// stay as they are.
func TestNoFormula(t *testing.T) {
	t.Parallel()
	odd := rapid.StringOf(rapid.OneOf(rapid.SampledFrom([]rune("=+-@＝＋－＠,;\t\r\n\u2028 \"'aé")), rapid.Rune()))
	rapid.Check(t, func(t *rapid.T) {
		text := odd.Draw(t, "text")
		commas := rapid.Bool().Draw(t, "commas")
		ends := ";\t\n\r\u2028"
		if commas {
			ends += ","
		}
		got := NoFormula(text, commas)
		for _, part := range strings.FieldsFunc(got, func(c rune) bool { return strings.ContainsRune(ends, c) }) {
			if part = strings.TrimLeft(part, ` "`); part != "" && strings.ContainsAny(part[:1], "=+-@") {
				t.Fatalf("%q begins a formula in %q", part, got)
			}
		}
		if got != text && !strings.ContainsAny(text, "=+-@＝＋－＠") {
			t.Fatalf("%q is %q", text, got)
		}
	})
}

// TestNumbersOfAWorkbook: an amount of 12 digits before the point is the same number in a workbook,
// whose numbers are floats.
func TestNumbersOfAWorkbook(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringMatching(`-?(0|[1-9]\d{0,11})\.\d\d`).Draw(t, "amount")
		cell, ok := number(text, 0).(excelize.Cell)
		if !ok {
			t.Fatalf("%s is no number", text)
		}
		if got := strconv.FormatFloat(cell.Value.(float64), 'f', 2, 64); got != text {
			t.Fatalf("%s is %s", text, got)
		}
	})
	if _, isNumber := number("999999999999999.0000", 0).(excelize.Cell); !isNumber {
		t.Error("a total, which has four decimals, is no number")
	}
	if _, text := number("12345678901234567.00", 0).(string); !text {
		t.Error("a number with more digits than a workbook has is one")
	}
}

func TestDecimalComma(t *testing.T) {
	t.Parallel()
	for accepted, want := range map[string]bool{
		"": false, "en-US,en;q=0.9": false, "de": true, "de-AT,de;q=0.9,en;q=0.5": true, "de-CH": false, "fr-FR;q=0.9": true, "es-MX": false, "uk": true, "ja": false, "zh-CN": false, "*": false,
	} {
		if decimalComma(accepted) != want {
			t.Errorf("%q: %v", accepted, !want)
		}
	}
}

// largestWrite keeps a file and the size of the largest part that was written at once.
type largestWrite struct {
	*httptest.ResponseRecorder
	most int
}

func (w *largestWrite) Write(p []byte) (int, error) {
	w.most = max(w.most, len(p))
	return w.ResponseRecorder.Write(p)
}

// TestAWorkbookIsSentInParts: a large workbook is not put together in memory.
func TestAWorkbookIsSentInParts(t *testing.T) {
	t.Parallel()
	answer := &largestWrite{ResponseRecorder: httptest.NewRecorder()}
	request := &web.Request{Request: httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/files/notes.xlsx", http.NoBody), W: answer}
	note := column{label: "Note", field: &jsonform.FieldDescription{Name: "note", Form: domain.FormText}}
	w, err := newWorkbook(request, "notes.xlsx", &list{Name: "Notes"}, []column{note})
	if err != nil {
		t.Fatal(err)
	}
	defer w.close()
	var last string
	for range 1000 {
		incompressible := make([]byte, 15_000)
		_, _ = rand.Read(incompressible)
		last = base64.StdEncoding.EncodeToString(incompressible)
		if err := w.add(record{"note": strconv.Quote(last)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.end(); err != nil {
		t.Fatal(err)
	}
	size := answer.Body.Len()
	if size < 10<<20 || answer.most > 1<<20 {
		t.Errorf("of %d bytes, %d were written at once", size, answer.most)
	}
	book, err := excelize.OpenReader(bytes.NewReader(answer.Body.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = book.Close() }()
	if got, err := book.GetCellValue("Notes", "A1001"); err != nil || got != last {
		t.Errorf("the last of %d notes is %.20q, want %.20q (%v)", 1000, got, last, err)
	}
}
