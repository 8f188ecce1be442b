package domain_test

import (
	"strings"
	"testing"
	"time"

	"github.com/ledgerfeed/ledgerfeed/domain"
)

// The exported form of an entry as long as the bound is longer than the bound, and
// is taken all the same; no other line above the bound is.
func TestTheLargestEntryComesBack(t *testing.T) {
	t.Parallel()
	contact := `{"first_name":"` + strings.Repeat("x", 4000) + `"}`
	head := `{"workspace_id":"w","type":"client.recorded","data":{"client_id":"c","name":"n","contacts":[` + strings.Repeat(contact+",", 16) + `{"title":"`
	tail := `"}]}}`
	fill := domain.MaxEntrySize - len(head) - len(tail)
	line := head + strings.Repeat("y", fill) + tail
	d, err := domain.DecodeDraft([]byte(line))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := domain.DecodeDraft([]byte(head + strings.Repeat("y", fill+1) + tail)); err == nil {
		t.Error("an entry one byte longer was taken")
	}
	d.ID, d.CreatedAt = "evt_1", time.Date(2026, 10, 2, 9, 15, 0, 0, time.UTC)
	e := d.EntryAt(1, domain.Genesis("w"))
	exported := e.AppendNDJSON(nil)
	again, err := domain.DecodeDraft(exported)
	if err != nil || again.Data != d.Data {
		t.Errorf("the exported entry of %d bytes is refused: %v", len(exported), err)
	}
	if _, err := domain.DecodeDraft([]byte(strings.Replace(string(exported), `"id":`, `"id": `, 1))); err == nil {
		t.Error("the same entry in another form was taken")
	}
}
