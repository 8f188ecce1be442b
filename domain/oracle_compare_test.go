package domain_test

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/ledgerfeed/ledgerfeed/domain"
)

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// pretty shows a value for a failure message.
func pretty(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(b)
}

// viewed converts a row of a State to the oracle's form.
func viewed(r domain.Row, f domain.Fragments, shown bool) *oracleRow {
	return &oracleRow{doc: parseDoc(f.Row()), position: r.Position, at: r.UpdatedAt, shown: shown}
}

// views converts every list of a State to the oracle's form.
func views(s *domain.State) map[string]map[string]*oracleRow {
	v := map[string]map[string]*oracleRow{}
	for _, list := range []string{"clients", "contractors", "invoices", "charges", "time_entries", "payments"} {
		v[list] = map[string]*oracleRow{}
	}
	s.Clients.All(func(r *domain.Client) { v["clients"][r.ID] = viewed(r.Row, r.Fragments(), true) })
	s.Contractors.All(func(r *domain.Contractor) { v["contractors"][r.ID] = viewed(r.Row, r.Fragments(), true) })
	s.Invoices.All(func(r *domain.Invoice) { v["invoices"][r.ID] = viewed(r.Row, r.Fragments(), r.Shown) })
	s.Charges.All(func(r *domain.Charge) { v["charges"][r.ID] = viewed(r.Row, r.Fragments(), true) })
	s.TimeEntries.All(func(r *domain.TimeEntry) { v["time_entries"][r.ID] = viewed(r.Row, r.Fragments(), true) })
	s.Payments.All(func(r *domain.Payment) { v["payments"][r.ID] = viewed(r.Row, r.Fragments(), true) })
	return v
}

// creditViews returns each client's credit with its history, newest first.
func creditViews(s *domain.State) map[string]doc {
	v := map[string]doc{}
	s.Credits.All(func(r *domain.Credit) {
		v[r.ID] = parseDoc(r.Fragments().Row())
		v[r.ID]["position"], v[r.ID]["history"] = r.Position, []any{}
	})
	var moves []*domain.CreditMove
	s.CreditMoves.All(func(r *domain.CreditMove) { moves = append(moves, r) })
	slices.SortFunc(moves, func(a, b *domain.CreditMove) int { return cmp.Compare(b.Position, a.Position) })
	for _, r := range moves {
		if v[r.ClientID] == nil {
			v[r.ClientID] = doc{"history without a credit": r.ID}
			continue
		}
		v[r.ClientID]["history"] = append(v[r.ClientID]["history"].([]any), parseDoc(r.Fragments().Row()))
	}
	return v
}

// removedViews converts the rows that have left to the oracle's form.
func removedViews(t failer, s *domain.State) map[string]map[string]oracleRemoved {
	t.Helper()
	v := map[string]map[string]oracleRemoved{}
	for sight, all := range map[string]func(func(*domain.Tombstone)){
		"time entries": s.RemovedTimeEntries.All, "charges with pay:read": s.RemovedCharges.All, "charges without pay:read": s.RemovedBilledCharges.All,
	} {
		v[sight] = map[string]oracleRemoved{}
		all(func(r *domain.Tombstone) {
			want := `{"id":"` + r.ID + `","removed":true,"updated_at":"` + r.UpdatedAt + `"}`
			if got := r.Fragments().Row(); got != want {
				t.Errorf("%s that left the %s is shown as %s, want %s", r.ID, sight, got, want)
			}
			v[sight][r.ID] = oracleRemoved{
				r.Position, r.UpdatedAt, orNil(r.ClientID), orNil(r.ContractorID), orNil(r.Period), orNil(r.Status),
			}
		})
	}
	return v
}

func orNil(s string) any {
	if s == "" {
		return nil
	}
	return s
}

func stateAnomalies(s *domain.State) []anomaly {
	var list []anomaly
	for _, a := range s.Anomalies {
		list = append(list, anomaly{a.Position, a.EventID, string(a.Reason)})
	}
	return list
}

// compare compares a State with the oracle: every field of every row, drafts too,
// its position and time of change, credits, closures and anomalies.
func compare(t failer, s *domain.State, o *oracle) {
	t.Helper()
	got := views(s)
	for _, list := range sortedKeys(o.rows) {
		for _, id := range sortedKeys(o.rows[list]) {
			want, have := o.rows[list][id], got[list][id]
			if have == nil {
				t.Errorf("%s %s is missing\nwant %s", list, id, pretty(want.doc))
				continue
			}
			delete(got[list], id)
			if have.position != want.position || have.at != want.at || have.shown != want.shown {
				t.Errorf("%s %s: position %d, changed %s, shown %v; want %d, %s, %v",
					list, id, have.position, have.at, have.shown, want.position, want.at, want.shown)
			}
			if !reflect.DeepEqual(have.doc, want.doc) {
				t.Errorf("%s %s\n got %s\nwant %s", list, id, pretty(have.doc), pretty(want.doc))
			}
		}
		for id, extra := range got[list] {
			t.Errorf("%s %s should not be there: %s", list, id, pretty(extra.doc))
		}
	}
	credits, wantCredits := creditViews(s), map[string]doc{}
	for id, c := range o.credits {
		wantCredits[id] = c.doc()
		wantCredits[id]["position"] = c.position
	}
	if !reflect.DeepEqual(credits, wantCredits) {
		t.Errorf("credits\n got %s\nwant %s", pretty(credits), pretty(wantCredits))
	}
	for sight, removed := range removedViews(t, s) {
		if !maps.Equal(removed, o.removed[sight]) {
			t.Errorf("removed from %s\n got %v\nwant %v", sight, removed, o.removed[sight])
		}
	}
	closed := map[[2]string]bool{}
	s.Closures.All(func(r *domain.ClosedPeriod) { closed[[2]string{r.Period, r.ClientID}] = true })
	if !maps.Equal(closed, o.closed) {
		t.Errorf("closures\n got %v\nwant %v", closed, o.closed)
	}
	if got, want := stateAnomalies(s), o.anomalies; !slices.Equal(got, want) {
		t.Errorf("anomalies\n got %v\nwant %v", got, want)
	}
}

// TestFoldAgreesWithOracle folds random streams both ways and compares the whole
// state after each entry.
func TestFoldAgreesWithOracle(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		lines := drawStream(t)
		s, o := domain.NewState(), newOracle()
		for i, e := range entriesOf(t, lines) {
			s.Apply(&e)
			o.apply(lines[i])
			compare(t, s, o)
			if t.Failed() {
				t.Fatalf("after entry %d of\n%s", i+1, strings.Join(lines[:i+1], "\n"))
			}
		}
	})
}

// TestOracleGivesFixture compares the oracle itself with the fixture, for a key
// with all permissions.
func TestOracleGivesFixture(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"agency", "currencies"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			oracleGives(t, name)
		})
	}
}

func oracleGives(t *testing.T, name string) {
	t.Helper()
	file, err := os.Open("testdata/" + name + ".ndjson")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	oracles, states := map[string]*oracle{}, map[string]*domain.State{}
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		d, err := domain.DecodeDraft(lines.Bytes())
		if err != nil {
			t.Fatal(err)
		}
		if oracles[d.WorkspaceID] == nil {
			oracles[d.WorkspaceID], states[d.WorkspaceID] = newOracle(), domain.NewState()
		}
		oracles[d.WorkspaceID].apply(lines.Text())
		e := d.EntryAt(states[d.WorkspaceID].Position+1, [32]byte{})
		states[d.WorkspaceID].Apply(&e)
	}
	raw, err := os.ReadFile("testdata/" + name + ".expected.json")
	if err != nil {
		t.Fatal(err)
	}
	expected := parseDoc(string(raw))
	for ws, o := range oracles {
		compare(t, states[ws], o)
		want := expected[ws].(doc)["pay+margin"].(doc)
		for list, name := range map[string]string{
			"invoices": "invoices", "charges": "charges", "time_entries": "time-entries",
			"payments": "payments", "clients": "clients", "contractors": "contractors",
		} {
			if got := o.list(list); !reflect.DeepEqual(got, want[name]) {
				t.Errorf("%s %s\n got %s\nwant %s", ws, name, pretty(got), pretty(want[name]))
			}
		}
		credits := doc{}
		for id, c := range o.credits {
			credits[id] = c.own()
		}
		if !reflect.DeepEqual(credits, want["credit"]) {
			t.Errorf("%s credit\n got %s\nwant %s", ws, pretty(credits), pretty(want["credit"]))
		}
		var anomalies []anomaly
		for _, a := range expected[ws].(doc)["anomalies"].([]any) {
			a := a.(doc)
			position, err := a["position"].(json.Number).Int64()
			if err != nil {
				t.Fatal(err)
			}
			anomalies = append(anomalies, anomaly{position, a["event_id"].(string), a["reason"].(string)})
		}
		if !slices.Equal(o.anomalies, anomalies) {
			t.Errorf("%s anomalies\n got %v\nwant %v", ws, o.anomalies, anomalies)
		}
	}
}

// list returns the shown rows in list order.
func (o *oracle) list(name string) any {
	rows := slices.SortedFunc(maps.Values(o.rows[name]), func(a, b *oracleRow) int {
		return cmp.Or(cmp.Compare(a.position, b.position), cmp.Compare(a.doc["id"].(string), b.doc["id"].(string)))
	})
	list := []any{}
	for _, r := range rows {
		if r.shown {
			list = append(list, r.doc)
		}
	}
	return list
}
