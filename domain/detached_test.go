package domain_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/ledgerfeed/ledgerfeed/domain"
)

// TestDetachedFieldsOfTheContract: they are those of the table in docs/contract/log.md, "An entry".
func TestDetachedFieldsOfTheContract(t *testing.T) {
	t.Parallel()
	want := map[string][]string{
		"client.recorded":     {"name", "billing_address", "contacts"},
		"contractor.recorded": {"name", "email", "title"},
		"invoice.recorded":    {"margin_note"},
		"time_entry.recorded": {"description"}, "charge.created": {"description"}, "charge.recorded": {"description"},
		"credit.topped_up": {"note"}, "credit.applied": {"note"}, "credit.taken_back": {"note"}, "credit.expired": {"note"},
	}
	for _, typ := range domain.Types() {
		if !slices.Equal(typ.Detached, want[typ.Name]) {
			t.Errorf("%s: %v are detached, want %v", typ.Name, typ.Detached, want[typ.Name])
		}
	}
}

// TestStoredForm computes a stored form by hand from the text of the contract.
func TestStoredForm(t *testing.T) {
	t.Parallel()
	d, err := domain.DecodeDraft([]byte(`{"workspace_id":"acme","id":"e1","type":"client.recorded","created_at":"2026-10-02T09:15:00.120Z",
		"data":{"contacts":[{"phone":"+1 555 0100"}],"client_id":"c1","status":"active","name":"Ada"},"salt":"AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8"}`))
	if err != nil {
		t.Fatal(err)
	}
	const value = `{"name":"Ada","contacts":[{"phone":"+1 555 0100"}]}`
	if d.Value() != value || d.Open() != `{"client_id":"c1","status":"active"}` {
		t.Errorf("open %s, value %s", d.Open(), d.Value())
	}
	salt := make([]byte, 32)
	for i := range salt {
		salt[i] = byte(i)
	}
	sum := sha256.Sum256([]byte("ledgerfeed/detached/1\n" + string(salt) + "acme\ne1\n" + value))
	want := `{"client_id":"c1","status":"active","~":"` + base64.RawURLEncoding.EncodeToString(sum[:]) + `"}`
	e := d.Entry()
	if e.Data != want {
		t.Errorf("stored %s, want %s", e.Data, want)
	}
	if e.Whole() != d.Data {
		t.Errorf("whole %s, want %s", e.Whole(), d.Data)
	}
	before := domain.Genesis("acme")
	e.Position = 1
	if got, want := e.ChainAfter(before), sha256.Sum256(append(before[:], "1\ne1\nclient.recorded\n2026-10-02T09:15:00.120Z\n"+want...)); got != want {
		t.Errorf("the chain is %x, want %x", got, want)
	}
	// A verifier that knows JSON alone gets the same from an export.
	e.Chain = e.ChainAfter(before)
	var line struct {
		Stored json.RawMessage `json:"stored"`
		Salt   string          `json:"salt"`
		Data   json.RawMessage `json:"data"`
	}
	if err := json.Unmarshal(e.AppendChainedNDJSON(nil), &line); err != nil || string(line.Stored) != want || string(line.Data) != d.Data || line.Salt != d.Salt.String() {
		t.Errorf("%v, %+v", err, line)
	}
}

// TestLinesOfExportsAreTakenBack draws entries, and gives their lines back: whole, without their
// value, and as export --chain writes them.
func TestLinesOfExportsAreTakenBack(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		for _, e := range entriesOf(t, drawStream(t)) {
			without := e
			without.Value = ""
			for _, of := range []domain.Entry{e, without} {
				d, err := domain.DecodeDraft(bytes.TrimRight(of.AppendNDJSON(nil), "\n"))
				if err != nil {
					t.Fatalf("%s: %v", of.AppendNDJSON(nil), err)
				}
				if got := d.Entry(); got.Data != e.Data || got.Value != of.Value {
					t.Fatalf("got %s and %s, want %s and %s", got.Data, got.Value, e.Data, of.Value)
				}
				if d.PublicEvent() != e.PublicEvent() || d.IsStored() != of.Forgotten() {
					t.Fatalf("public form %s, stored %v", d.PublicEvent(), d.IsStored())
				}
				again, err := domain.DecodeExported(of.AppendChainedNDJSON(nil))
				if err != nil {
					t.Fatalf("%s: %v", of.AppendChainedNDJSON(nil), err)
				}
				if got := again.Entry(); got.Data != e.Data {
					t.Fatalf("from a chained line %s, want %s", got.Data, e.Data)
				}
			}
			open, value, public, readable := e.Forms()
			if wantOpen, _ := domain.CutCommitment(e.Data); open != wantOpen || value != e.Value || public != e.PublicEvent() || !readable {
				t.Fatalf("forms %s, %s, %s of %s", open, value, public, e.Data)
			}
		}
	})
}

func TestWrongLinesOfExports(t *testing.T) {
	t.Parallel()
	const head = `{"workspace_id":"w","id":"e","type":"client.recorded",`
	for line, want := range map[string]string{
		head + `"data":{"client_id":"c","name":"n"},"salt":"x"}`:                                           "salt has the wrong form",
		head + `"data":{"client_id":"c","name":"n"},"salt":"AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh9"}`: "salt has the wrong form",
		head + `"data":{"client_id":"c","name":"n"},"stored":{}}`:                                          "not both",
		head[:len(head)-1] + `}`:             "data is missing",
		head + `"stored":{"client_id":"c"}}`: "stored has the wrong form",
		head + `"stored":{"client_id":"c","name":"n","~":"` + strings.Repeat("A", 43) + `"}}`:                                           "data.name is not known",
		head + `"stored":{"name":"n","~":"` + strings.Repeat("A", 43) + `"}}`:                                                           "data.client_id is missing",
		head + `"data":{"client_id":"c","name":"n","~":"` + strings.Repeat("A", 43) + `"}}`:                                             "data.~ is not known",
		`{"workspace_id":"w","type":"invoice.reversed","data":{"invoice_id":"i"},"salt":"AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8"}`: "no field of the data is detached",
		`{"workspace_id":"w","type":"invoice.reversed","stored":{"invoice_id":"i","~":"` + strings.Repeat("A", 43) + `"}}`:              "stored has the wrong form",
		`{"workspace_id":"w","type":"no.type","stored":{"invoice_id":"i"}}`:                                                             "type is not known",
	} {
		if _, err := domain.DecodeDraft([]byte(line)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s\n got %v\nwant %s", line, err, want)
		}
	}
}

// TestForgettingIsAFoldWithoutTheValues folds random streams in which parties are forgotten twice:
// as they were appended, and as the log is after the values are gone. The rows, their places and the
// anomalies are the same, and nothing of a planted text is left in them.
func TestForgettingIsAFoldWithoutTheValues(t *testing.T) {
	t.Parallel()
	gone := 0
	rapid.Check(t, func(t *rapid.T) {
		lines := drawStream(t)
		lines = append(lines,
			forgetting("client", rapid.SampledFrom([]string{"c1", "c2"}).Draw(t, "client")),
			forgetting("contractor", rapid.SampledFrom([]string{"k1", "k2"}).Draw(t, "contractor")))
		log := entriesOf(t, lines)
		later := map[string]bool{} // forgotten by a later entry
		after := slices.Clone(log)
		for i := len(log) - 1; i >= 0; i-- {
			e := parseDoc(lines[i])
			typ, d := e["type"].(string), e["data"].(doc)
			if subject, ok := log[i].Subject(); !ok || subject != strings.Join(about(typ, d), " ") {
				t.Fatalf("%s is about %q, %v", lines[i], subject, ok)
			}
			switch {
			case typ == "client.forgotten":
				later["client:"+d["client_id"].(string)] = true
			case typ == "contractor.forgotten":
				later["contractor:"+d["contractor_id"].(string)] = true
			case log[i].Value != "" && slices.ContainsFunc(about(typ, d), func(s string) bool { return later[s] }):
				gone++
				after[i] = domain.Entry{
					WorkspaceID: "w", Position: log[i].Position, ID: log[i].ID, Type: typ, CreatedAt: log[i].CreatedAt, Data: log[i].Data, Chain: log[i].Chain,
				}
				if _, _, public, readable := after[i].Forms(); !readable || public != log[i].PublicEvent() {
					t.Fatalf("%s: %v, %s", log[i].Data, readable, public)
				}
			}
		}
		inOneGo(t, after).equal(t, inOneGo(t, log), "without the values against with them")
		if t.Failed() {
			t.Fatalf("stream\n%s", strings.Join(lines, "\n"))
		}
	})
	if gone == 0 {
		t.Error("no stream had a value that is forgotten")
	}
}

func forgetting(kind, id string) string {
	return fmt.Sprintf(`{"workspace_id":"w","id":"forgets-%s","type":"%s.forgotten","created_at":"2030-01-01T00:00:00Z","data":{"%s_id":%q}}`, kind, kind, kind, id)
}

// about says whom an entry's value is about, from the text of the contract alone.
func about(typ string, d doc) (list []string) {
	if id, ok := d["client_id"].(string); ok && typ != "contractor.recorded" {
		list = append(list, "client:"+id)
	}
	if id, ok := d["contractor_id"].(string); ok && (typ == "contractor.recorded" || typ == "time_entry.recorded") {
		list = append(list, "contractor:"+id)
	}
	return list
}

func TestIDsThatLookLikePeople(t *testing.T) {
	t.Parallel()
	for id, want := range map[string]string{
		"Ada-Moreau": "client_id Ada-Moreau", "Ada_Maria_Moreau": "client_id Ada_Maria_Moreau",
		"cl_4821": "", "Northwind": "", "ACME-Clinic": "", "client-A": "", "a-b": "", "ada-moreau": "", "X-Ray2": "",
	} {
		d, err := domain.NewDraft("w", "invoice.sent", []byte(`{"invoice_id":"in_1","client_id":"`+id+`"}`))
		if err != nil || d.PersonalID() != want {
			t.Errorf("%s: %q, want %q (%v)", id, d.PersonalID(), want, err)
		}
	}
	for number, want := range map[string]bool{
		"ada@example.com": true, "+49 30 1234567": true, "+1 (555) 010-0100": true, "Moreau Ada": true, "Élise Noël": true,
		"INV-2026-0042": false, "2026/118": false, "+1": false, "Rechnung 12": false, "No. 7": false, "RE-Ada": false,
	} {
		d, err := domain.NewDraft("w", "invoice.sent", []byte(`{"invoice_id":"in_1","invoice_number":"`+number+`"}`))
		if err != nil || (d.PersonalID() != "") != want {
			t.Errorf("%s: %q (%v)", number, d.PersonalID(), err)
		}
	}
}

// TestEveryChangeIsFound changes one byte of a salt, a value or a stored form, 3,000 times. A changed
// salt or value does not fit the commitment any more, and a changed stored form breaks the chain.
func TestEveryChangeIsFound(t *testing.T) {
	t.Parallel()
	const seed = 20261127
	random := rand.New(rand.NewPCG(seed, 1))
	lines := drawnLines(random, 60)
	log := entriesOf(t, lines)
	before := make([][sha256.Size]byte, len(log))
	chain := domain.Genesis("w")
	var valued []int
	for i := range log {
		before[i], chain = chain, log[i].Chain
		if log[i].Value != "" {
			valued = append(valued, i)
		}
	}
	change := func(text string) string {
		b := []byte(text)
		b[random.IntN(len(b))] ^= byte(1 + random.IntN(255))
		return string(b)
	}
	for n := range 3000 {
		i := valued[random.IntN(len(valued))]
		e := domain.Entry{WorkspaceID: "w", Position: log[i].Position, ID: log[i].ID, Type: log[i].Type, CreatedAt: log[i].CreatedAt, Data: log[i].Data, Chain: log[i].Chain, Value: log[i].Value, Salt: log[i].Salt}
		switch n % 3 {
		case 0:
			e.Salt[random.IntN(len(e.Salt))] ^= byte(1 + random.IntN(255))
		case 1:
			e.Value = change(e.Value)
		case 2:
			e.Data = change(e.Data)
		}
		_, commitment := domain.CutCommitment(e.Data)
		fits, linked := e.Commitment() == commitment, e.ChainAfter(before[i]) == e.Chain
		if fits && linked || n%3 < 2 && fits || n%3 == 2 && linked {
			t.Fatalf("case %d of seed %d: a change of position %d is not found: %s, %s", n, seed, e.Position, e.Data, e.Value)
		}
	}
}

// drawnLines are records of parties, charges and time entries with random texts.
func drawnLines(random *rand.Rand, n int) (lines []string) {
	for i := range n {
		name := fmt.Sprintf("name %d", random.IntN(1_000_000))
		data := []string{
			fmt.Sprintf(`"client.recorded","data":{"client_id":"c%d","name":%q,"contacts":[{"phone":%q}]}`, i, name, name),
			fmt.Sprintf(`"contractor.recorded","data":{"contractor_id":"k%d","name":%q,"email":%q}`, i, name, name),
			fmt.Sprintf(`"charge.recorded","data":{"charge_id":"h%d","client_id":"c","date":"2026-10-01","category":"x","description":%q,"kind":"k","amount":"1.00","currency":"EUR","period":"2026-10"}`, i, name),
		}[i%3]
		lines = append(lines, fmt.Sprintf(`{"workspace_id":"w","id":"e%d","created_at":"2026-10-02T09:15:00.120Z","type":%s}`, i, data))
	}
	return lines
}
