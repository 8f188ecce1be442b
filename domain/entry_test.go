package domain_test

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ledgerfeed/ledgerfeed/domain"
)

// TestChain computes a chain by hand, as a producer who checks one would.
func TestChain(t *testing.T) {
	t.Parallel()
	before := sha256.Sum256([]byte("w"))
	if domain.Genesis("w") != before {
		t.Fatal("the chain does not begin with SHA-256 of the workspace's id")
	}
	for position := int64(1); position <= 3; position++ {
		d, err := domain.NewDraft("w", "invoice.paid", []byte(`{"paid_at":"2026-10-02T11:15:00+02:00","invoice_id":"i"}`))
		if err != nil {
			t.Fatal(err)
		}
		d.ID, d.CreatedAt = fmt.Sprint("e", position), time.Date(2026, 10, 2, 11, 0, 0, int(120*time.Millisecond), time.FixedZone("", 7200))
		e := d.EntryAt(position, before)
		text := fmt.Sprintf("%d\ne%d\ninvoice.paid\n2026-10-02T09:00:00.120Z\n"+`{"invoice_id":"i","paid_at":"2026-10-02T09:15:00.000Z"}`, position, position)
		want := sha256.Sum256(append(before[:], text...))
		if e.Chain != want || e.ChainAfter(before) != want {
			t.Fatalf("position %d: %x, want %x", position, e.Chain, want)
		}
		before = e.Chain
	}
}

// TestPublicFormShowsIDsAlone fills every field of every type and checks the whole
// public form.
func TestPublicFormShowsIDsAlone(t *testing.T) {
	t.Parallel()
	var public []string
	for _, typ := range domain.Types() {
		d, err := domain.NewDraft("w", typ.Name, []byte(dataOf(typ, all, nil)))
		if err != nil {
			t.Fatal(err)
		}
		d.ID, d.CreatedAt = "e", time.Date(2026, 10, 2, 9, 15, 0, 0, time.UTC)
		e := d.EntryAt(1, domain.Genesis("w"))
		shown := d.PublicEvent()
		if again := e.PublicEvent(); again != shown {
			t.Errorf("%s: as a draft %s, as an entry %s", typ.Name, shown, again)
		}
		if !typ.Public {
			if shown != "" || d.PublicData() != "" {
				t.Errorf("%s is internal and shows %s", typ.Name, shown)
			}
			continue
		}
		public = append(public, typ.Name)
		given := map[string]any{}
		if err := json.Unmarshal([]byte(d.Data), &given); err != nil {
			t.Fatal(err)
		}
		object := map[string]string{"payout": "payment_id", "credit_note": "invoice_id", "webhook": "webhook_id", "period": "period"}[typ.Object]
		if object == "" {
			object = typ.Object + "_id"
		}
		want := fmt.Sprintf(`{"id":"e","type":%q,"created_at":"2026-10-02T09:15:00.000Z","data":{"object_type":%q,"object_id":%q,`+
			`"invoice_id":%q,"invoice_number":%q,"client_id":%q,"contractor_id":%q,"period":%q}}`,
			typ.Name, typ.Object, given[object], given["invoice_id"], given["invoice_number"], given["client_id"], given["contractor_id"], given["period"])
		if shown != want {
			t.Errorf("%s\n got %s\nwant %s", typ.Name, shown, want)
		}
	}
	slices.Sort(public)
	want := []string{
		"charge.created", "charge.deleted", "credit.applied", "credit.taken_back", "credit_note.issued", "invoice.issued", "invoice.paid",
		"invoice.reversed", "invoice.sent", "invoice.voided", "payout.paid", "period.closed", "test.ping", "time_entry.approved",
		"time_entry.declined", "time_entry.deleted",
	}
	if !slices.Equal(public, want) {
		t.Errorf("public types %v, want %v", public, want)
	}
}

// TestAnEntryIsOneLine: an export is one line for each entry to every reader, and gives the same entry.
func TestAnEntryIsOneLine(t *testing.T) {
	t.Parallel()
	const name = "One\u2028Two\u2029, €"
	d, err := domain.NewDraft("w", "client.recorded", []byte(`{"client_id":"c","name":"`+name+`"}`))
	if err != nil {
		t.Fatal(err)
	}
	e := domain.Entry{WorkspaceID: "w", ID: "e", Type: d.Type, CreatedAt: time.UnixMilli(0).UTC(), Data: d.Data}
	line := string(e.AppendNDJSON([]byte("before\u2028\n")))
	if !strings.HasPrefix(line, "before\u2028\n") || strings.ContainsAny(line[len("before\u2028\n"):], "\u2028\u2029") {
		t.Errorf("%q", line)
	}
	again, err := domain.DecodeDraft([]byte(line[len("before\u2028\n"):]))
	if err != nil || again.Data != d.Data {
		t.Errorf("%v: %s", err, again.Data)
	}
}
