package replay_test

import (
	"encoding/json"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/projections/replay"
)

// answers lists the answers of a fold with all their fragments, by resource and
// id.
func answers(s *domain.State) map[string]map[string]string {
	list := map[string]map[string]string{}
	add := func(resource, id string, f domain.Fragments) {
		if list[resource] == nil {
			list[resource] = map[string]string{}
		}
		list[resource][id] = f.Row()
	}
	s.Invoices.All(func(r *domain.Invoice) { add("invoices", r.ID, r.Fragments()) })
	s.Charges.All(func(r *domain.Charge) { add("charges", r.ID, r.Fragments()) })
	s.TimeEntries.All(func(r *domain.TimeEntry) { add("time-entries", r.ID, r.Fragments()) })
	s.Payments.All(func(r *domain.Payment) { add("payments", r.ID, r.Fragments()) })
	s.Clients.All(func(r *domain.Client) { add("clients", r.ID, r.Fragments()) })
	s.Contractors.All(func(r *domain.Contractor) { add("contractors", r.ID, r.Fragments()) })
	s.Credits.All(func(r *domain.Credit) { add("credit", r.ID, r.Fragments()) })
	return list
}

// At any position, the explained row is that of a fold up to there, and each
// field has had its value since the entry that is named, and not before.
func TestExplainIsAFold(t *testing.T) {
	t.Parallel()
	b := projected(t)
	entries, err := b.Log.Read(t.Context(), "ws-1", 0, 1000)
	if err != nil {
		t.Fatal(err)
	}
	foldTo := func(position int64) map[string]map[string]string {
		s := domain.NewState()
		for i := range entries[:position] {
			s.Apply(&entries[i])
		}
		return answers(s)
	}
	r := b.replayer()
	rng := rand.New(rand.NewPCG(3, 4)) // the same positions in every run
	for range 8 {
		position := 1 + rng.Int64N(900)
		for resource, rows := range foldTo(position) {
			for id, want := range rows {
				x, err := r.Explain(t.Context(), replay.ExplainRequest{WorkspaceID: "ws-1", Resource: resource, ID: id, AsOf: position})
				if err != nil {
					t.Fatal(err)
				}
				if string(x.Row) != want {
					t.Errorf("%s %s as of %d is %s, folded %s", resource, id, position, x.Row, want)
				}
				for _, f := range x.Fields {
					since := decode(t, foldTo(f.SetBy.Position)[resource][id])
					before := decode(t, foldTo(f.SetBy.Position - 1)[resource][id])
					if string(since[f.Name]) != string(f.Value) || string(before[f.Name]) == string(f.Value) {
						t.Errorf("%s %s: %s was %s before position %d and %s there, explained as %s", resource, id, f.Name, before[f.Name], f.SetBy.Position, since[f.Name], f.Value)
					}
				}
				break // one row a resource
			}
		}
	}
}

func decode(t *testing.T, row string) (fields map[string]json.RawMessage) {
	t.Helper()
	if row == "" {
		return nil // not there yet
	}
	if err := json.Unmarshal([]byte(row), &fields); err != nil {
		t.Fatal(err)
	}
	return fields
}

func TestExplainMoments(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for _, line := range []string{
		`{"workspace_id":"w","created_at":"2026-01-01T10:00:00.000Z","id":"e1","type":"charge.recorded","data":{"charge_id":"ch","client_id":"c","date":"2026-01-01","category":"x","kind":"k","amount":"1.00","currency":"EUR","period":"2026-01","billed_to_client":false}}`,
		`{"workspace_id":"w","created_at":"2026-01-01T10:00:00.000Z","id":"e2","type":"charge.recorded","data":{"charge_id":"ch","client_id":"c","date":"2026-01-01","category":"x","kind":"k","amount":"420.00","currency":"EUR","period":"2026-01","billed_to_client":false}}`,
		`{"workspace_id":"w","created_at":"2026-01-01T10:00:00.001Z","id":"e3","type":"client.recorded","data":{"client_id":"c","name":"N"}}`,
		`{"workspace_id":"w","created_at":"2026-01-02T10:00:00.000Z","id":"e4","type":"charge.deleted","data":{"charge_id":"ch"}}`,
	} {
		d, err := domain.DecodeDraft([]byte(line))
		if err != nil {
			t.Fatal(err)
		}
		b.Append([]domain.Draft{d})
	}
	b.Project(10)
	r := b.replayer()
	explain := func(q replay.ExplainRequest) (*replay.Explanation, error) {
		q.WorkspaceID, q.Resource, q.ID = "w", "charges", "ch"
		return r.Explain(t.Context(), q)
	}
	at := time.Date(2026, 1, 1, 10, 0, 0, 0, time.UTC)
	x, err := explain(replay.ExplainRequest{At: at})
	if err != nil || x.Position != 2 || len(x.History) != 2 || x.Hidden == "" {
		t.Fatalf("as of the publish time of position 2: %+v, %v", x, err)
	}
	for _, f := range x.Fields {
		want := "e1"
		if f.Name == "amount" {
			want = "e2"
		}
		if f.SetBy.EventID != want {
			t.Errorf("%s was set by %s, want %s", f.Name, f.SetBy.EventID, want)
		}
	}
	if x, err = explain(replay.ExplainRequest{AsOf: 3}); err != nil || x.History[2].Fields[0] != "client" {
		t.Errorf("a rename: %+v, %v", x, err)
	}
	if x, err = explain(replay.ExplainRequest{}); err != nil || string(x.Row) != "null" || !x.History[3].Deleted {
		t.Errorf("deleted: %+v, %v", x, err)
	}
	var none *replay.NoRowError
	if _, err = explain(replay.ExplainRequest{At: at.Add(-time.Millisecond)}); !errors.As(err, &none) {
		t.Errorf("before it was made: %v", err)
	}
	if _, err = explain(replay.ExplainRequest{AsOf: 5}); err == nil {
		t.Error("explained a position that the log does not have")
	}
	var unknown *domain.UnknownWorkspaceError
	if _, err := r.Explain(t.Context(), replay.ExplainRequest{WorkspaceID: "nobody", Resource: "charges", ID: "ch"}); !errors.As(err, &unknown) {
		t.Errorf("an unknown workspace: %v", err)
	}
}

// Why is this row missing, or not what the producer sent: the entries about it that had
// no effect are named with the reason, and no others.
func TestExplainNamesEntriesWithoutEffect(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	entry := func(id, typ, data string) {
		b.Append([]domain.Draft{draft(t, `{"workspace_id":"w","id":"`+id+`","type":"`+typ+`","data":`+data+`}`)})
	}
	entry("e1", "client.recorded", `{"client_id":"c","name":"N"}`)
	entry("e2", "time_entry.approved", `{"time_entry_id":"t","client_id":"c"}`)
	entry("e3", "charge.created", `{"charge_id":"ch","client_id":"c","date":"2026-01-01","category":"x","kind":"k","amount":"1.00","currency":"EUR","period":"2026-01","billed_to_client":true}`)
	entry("e4", "charge.created", `{"charge_id":"ch","client_id":"c","date":"2026-01-01","category":"x","kind":"k","amount":"2.00","currency":"EUR","period":"2026-01","billed_to_client":true}`)
	entry("e5", "contractor.recorded", `{"contractor_id":"co","name":"N"}`)
	entry("e6", "invoice.reversed", `{"invoice_id":"in"}`)
	b.damage(`UPDATE event_log SET type = 'invoice.made_in_the_future' WHERE id = 'e6'`)
	entry("e7", "credit.applied", `{"credit_id":"m","client_id":"c","invoice_id":"none","amount":"1.00"}`)
	b.damage(`INSERT INTO log_skip SELECT 'w', 'read_models', 5, 'e5', 'contractor.recorded', 'no', 'a test', now()`)
	b.Project(10)
	for _, c := range []struct {
		resource, id, want string
		history            int
	}{
		{"time-entries", "t", "e2 unknown_object", 0},
		{"charges", "ch", "e4 repeat", 1},
		{"contractors", "co", "e5 skipped", 0},
		{"invoices", "in", "e6 unreadable", 0},
		{"invoices", "none", "e7 unknown_object, e7 overdrawn", 0},
		{"credit", "c", "e7 unknown_object, e7 overdrawn", 2},
		{"clients", "c", "", 1},
	} {
		x, err := b.replayer().Explain(t.Context(), replay.ExplainRequest{WorkspaceID: "w", Resource: c.resource, ID: c.id})
		if err != nil {
			t.Errorf("%s %s: %v", c.resource, c.id, err)
			continue
		}
		var got []string
		for _, u := range x.Unapplied {
			got = append(got, u.EventID+" "+string(u.Reason))
		}
		if strings.Join(got, ", ") != c.want || len(x.History) != c.history || (string(x.Row) == "null") != (c.history == 0) {
			t.Errorf("%s %s: without effect %q, want %q; the row is %s after %d entries", c.resource, c.id, got, c.want, x.Row, len(x.History))
		}
	}
	entry("e8", "client.recorded", `{"client_id":"late","name":"N"}`)
	var none *replay.NoRowError
	_, err := b.replayer().Explain(t.Context(), replay.ExplainRequest{WorkspaceID: "w", Resource: "clients", ID: "late"})
	if !errors.As(err, &none) || none.Position != 7 || none.Head != 8 || !strings.Contains(err.Error(), "goes on to position 8") {
		t.Errorf("an entry that is not projected yet: %v", err)
	}
}
