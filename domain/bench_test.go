package domain_test

import (
	"bytes"
	"os"
	"testing"

	"github.com/ledgerfeed/ledgerfeed/domain"
)

// fixtureLines are the entries of the fixture, as they come in.
func fixtureLines(b *testing.B) [][]byte {
	raw, err := os.ReadFile("testdata/agency.ndjson")
	if err != nil {
		b.Fatal(err)
	}
	return bytes.Split(bytes.TrimSpace(raw), []byte("\n"))
}

// fixtureEntries are the entries of the fixture as the log returns them, as one
// workspace.
func fixtureEntries(b *testing.B) (log []domain.Entry) {
	for i, line := range fixtureLines(b) {
		d, err := domain.DecodeDraft(line)
		if err != nil {
			b.Fatal(err)
		}
		log = append(log, domain.Entry{WorkspaceID: "w", Position: int64(i + 1), ID: d.ID, Type: d.Type, CreatedAt: d.CreatedAt, Data: d.Data})
	}
	return log
}

func BenchmarkDecodeDraft(b *testing.B) {
	lines := fixtureLines(b)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if _, err := domain.DecodeDraft(lines[i%len(lines)]); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkApply decodes and folds one entry, and collects what it needs.
func BenchmarkApply(b *testing.B) {
	log := fixtureEntries(b)
	b.ReportAllocs()
	s := domain.NewState()
	for i := 0; b.Loop(); i++ {
		if i%len(log) == 0 {
			s = domain.NewState()
		}
		e := log[i%len(log)]
		var n domain.Needs
		n.Add(&e)
		s.Apply(&e)
	}
}

// BenchmarkFragments writes the row of an invoice, and reads it back.
func BenchmarkFragments(b *testing.B) {
	log := fixtureEntries(b)
	s := domain.NewState()
	for i := range log {
		s.Apply(&log[i])
	}
	var rows []*domain.Invoice
	s.Invoices.All(func(r *domain.Invoice) { rows = append(rows, r) })
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		var again domain.Invoice
		if err := again.Read(rows[i%len(rows)].Fragments()); err != nil {
			b.Fatal(err)
		}
	}
}
