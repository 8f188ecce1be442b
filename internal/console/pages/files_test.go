package pages

import (
	"strconv"
	"strings"
	"testing"

	"github.com/xuri/excelize/v2"
	"pgregory.net/rapid"
)

// TestNoFormula: no text of a file begins a formula, wherever a spreadsheet ends a cell, and other texts
// stay as they are.
func TestNoFormula(t *testing.T) {
	t.Parallel()
	odd := rapid.StringOf(rapid.OneOf(rapid.SampledFrom([]rune("=+-@＝＋－＠;\t\r\n\u2028 \"'aé")), rapid.Rune()))
	rapid.Check(t, func(t *rapid.T) {
		text := odd.Draw(t, "text")
		got := noFormula(text)
		for _, part := range strings.FieldsFunc(got, func(c rune) bool { return strings.ContainsRune(";\t\n\r\u2028", c) }) {
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
