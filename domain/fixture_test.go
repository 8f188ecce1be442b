package domain_test

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/ledgerfeed/ledgerfeed/domain"
)

type anomaly struct {
	Position int64  `json:"position"`
	EventID  string `json:"event_id"`
	Reason   string `json:"reason"`
}

// event is the public form of an entry.
type event struct {
	form string
	pay  bool // readers need pay:read
}

func TestFixtures(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"agency", "currencies"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testFixture(t, name)
		})
	}
}

func testFixture(t *testing.T, name string) {
	t.Helper()
	states := map[string]*domain.State{}
	events := map[string][]event{}
	file, err := os.Open("testdata/" + name + ".ndjson")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		d, err := domain.DecodeDraft(lines.Bytes())
		if err != nil {
			t.Fatalf("%s: %v", lines.Bytes(), err)
		}
		s := states[d.WorkspaceID]
		if s == nil {
			s = domain.NewState()
			states[d.WorkspaceID] = s
		}
		e := d.EntryAt(s.Position+1, [32]byte{})
		s.Apply(&e)
		if p := d.PublicEvent(); p != "" {
			var of struct {
				Type string
				Data struct {
					Billed *bool `json:"billed_to_client"`
				}
			}
			if err := json.Unmarshal(lines.Bytes(), &of); err != nil {
				t.Fatal(err)
			}
			unbilled := strings.HasPrefix(of.Type, "charge.") && of.Data.Billed != nil && !*of.Data.Billed
			events[d.WorkspaceID] = append(events[d.WorkspaceID], event{p, of.Type == "payout.paid" || unbilled})
			if again := e.PublicEvent(); again != p {
				t.Errorf("public form of the entry %s, of the draft %s", again, p)
			}
		}
	}
	var expected map[string]map[string]json.RawMessage
	raw, err := os.ReadFile("testdata/" + name + ".expected.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, &expected); err != nil {
		t.Fatal(err)
	}
	for ws, want := range expected {
		for _, view := range []string{"base", "pay", "pay+margin"} {
			var lists map[string]json.RawMessage
			if err := json.Unmarshal(want[view], &lists); err != nil {
				t.Fatal(err)
			}
			pay, margin := view != "base", view == "pay+margin"
			got := render(states[ws], events[ws], pay, margin)
			for name, list := range lists {
				equalJSON(t, ws+" "+view+" "+name, got[name], list)
			}
		}
		var anomalies []anomaly
		if err := json.Unmarshal(want["anomalies"], &anomalies); err != nil {
			t.Fatal(err)
		}
		got := make([]anomaly, 0, len(anomalies))
		for _, a := range states[ws].Anomalies {
			got = append(got, anomaly{a.Position, a.EventID, string(a.Reason)})
		}
		if !slices.Equal(got, anomalies) {
			t.Errorf("%s anomalies\n got %v\nwant %v", ws, got, anomalies)
		}
	}
}

type placed struct {
	position int64
	id, row  string
}

func list(rows []placed) string {
	slices.SortFunc(rows, func(a, b placed) int {
		return cmp.Or(cmp.Compare(a.position, b.position), strings.Compare(a.id, b.id))
	})
	var b strings.Builder
	b.WriteByte('[')
	for i, r := range rows {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(r.row)
	}
	b.WriteByte(']')
	return b.String()
}

func cut(f domain.Fragments, pay, margin bool) string {
	if !pay {
		f.Pay = ""
	}
	if !margin {
		f.Margin = ""
	}
	return f.Row()
}

// render returns every list of a state as a key with these permissions sees it.
func render(s *domain.State, events []event, pay, margin bool) map[string]string {
	lists := map[string][]placed{}
	add := func(name string, r domain.Row, f domain.Fragments) {
		lists[name] = append(lists[name], placed{r.Position, r.ID, cut(f, pay, margin)})
	}
	s.Invoices.All(func(r *domain.Invoice) {
		if r.Shown {
			add("invoices", r.Row, r.Fragments())
		}
	})
	s.Charges.All(func(r *domain.Charge) {
		if pay || r.BilledToClient {
			add("charges", r.Row, r.Fragments())
		}
	})
	s.TimeEntries.All(func(r *domain.TimeEntry) { add("time-entries", r.Row, r.Fragments()) })
	s.Payments.All(func(r *domain.Payment) {
		if pay || r.Direction != domain.PaidToContractor {
			add("payments", r.Row, r.Fragments())
		}
	})
	s.Clients.All(func(r *domain.Client) { add("clients", r.Row, r.Fragments()) })
	s.Contractors.All(func(r *domain.Contractor) { add("contractors", r.Row, r.Fragments()) })
	got := map[string]string{}
	for _, name := range []string{"invoices", "charges", "time-entries", "payments", "clients", "contractors"} {
		got[name] = list(lists[name])
	}
	histories := map[string][]placed{}
	s.CreditMoves.All(func(r *domain.CreditMove) {
		histories[r.ClientID] = append(histories[r.ClientID], placed{-r.Position, r.ID, r.Fragments().Row()})
	})
	var credit []string
	s.Credits.All(func(r *domain.Credit) {
		_, own, _ := strings.Cut(strings.TrimSuffix(r.Fragments().Base, `,"updated_at":"`+r.UpdatedAt+`"`), `"balance":`)
		credit = append(credit, `"`+r.ID+`":{"balance":`+own+`,"history":`+list(histories[r.ID])+"}")
	})
	got["credit"] = "{" + strings.Join(credit, ",") + "}"
	var feed []string
	for _, e := range events {
		if pay || !e.pay {
			feed = append(feed, e.form)
		}
	}
	got["events"] = "[" + strings.Join(feed, ",") + "]"
	return got
}

// equalJSON compares two texts byte by byte, without white space, so the order of
// fields counts too. The credit object is keyed by client in no order, so it alone
// is compared by value.
func equalJSON(t *testing.T, what, got string, want json.RawMessage) {
	t.Helper()
	var w bytes.Buffer
	if err := json.Compact(&w, want); err != nil {
		t.Fatal(err)
	}
	if strings.HasSuffix(what, "credit") {
		var a, b any
		if err := json.Unmarshal([]byte(got), &a); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if err := json.Unmarshal(want, &b); err != nil {
			t.Fatal(err)
		}
		x, _ := json.Marshal(a)
		y, _ := json.Marshal(b)
		got = string(x)
		w = *bytes.NewBuffer(y)
	}
	if got == w.String() {
		return
	}
	g, e := got, w.String()
	i := 0
	for i < len(g) && i < len(e) && g[i] == e[i] {
		i++
	}
	from := max(0, i-200)
	t.Errorf("%s differs at byte %d\n got …%s\nwant …%s", what, i, g[from:min(len(g), i+200)], e[from:min(len(e), i+200)])
}
