package readapi_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

// wanted is a row as a list must show it.
type wanted struct {
	position int64
	id       string
	json     string
}

// view is which permission fields a key sees.
type view struct{ pay, margin bool }

func (v view) row(f domain.Fragments) string {
	if !v.pay {
		f.Pay = ""
	}
	if !v.margin {
		f.Margin = ""
	}
	return f.Row()
}

// expected is the whole of a list, made from the fold alone: the oracle of the
// conformance suite.
func (s *stand) expected(workspaceID, path string, query url.Values, v view) []wanted {
	s.t.Helper()
	state := s.states[workspaceID]
	since, hasSince := time.Time{}, query.Has("updated_since")
	if hasSince {
		since, _ = domain.ParseTime(query.Get("updated_since"))
	}
	var rows []wanted
	add := func(r domain.Row, f domain.Fragments, facts map[string]string) {
		at, _ := domain.ParseTime(r.UpdatedAt)
		if hasSince && at.Before(since) {
			return
		}
		for name, value := range facts {
			if query.Has(name) && query.Get(name) != value {
				return
			}
		}
		if first, last := daysOf(s.t, path, f, facts); query.Get("date_from") > last || query.Has("date_to") && query.Get("date_to") < first {
			return
		}
		if query.Has("open") && query.Get("open") != strconv.FormatBool(isOpen(s.t, f)) {
			return
		}
		rows = append(rows, wanted{r.Position, r.ID, v.row(f)})
	}
	removed := func(all func(func(*domain.Tombstone))) {
		if query.Get("include") != "removed" {
			return
		}
		all(func(r *domain.Tombstone) {
			base := `{"id":"` + r.ID + `","removed":true,"updated_at":"` + r.UpdatedAt + `"`
			add(r.Row, domain.Fragments{Base: base}, map[string]string{
				"period": r.Period, "client_id": r.ClientID, "contractor_id": r.ContractorID, "status": r.Status, "removed day": r.Day,
			})
		})
	}
	switch path {
	case "/v1/invoices":
		state.Invoices.All(func(r *domain.Invoice) {
			if r.Shown {
				add(r.Row, r.Fragments(), map[string]string{
					"period": r.Period, "client_id": r.Client.ID, "contractor_id": r.Contractor.ID, "status": r.ClientBillingStatus, "type": r.Type,
				})
			}
		})
	case "/v1/charges":
		state.Charges.All(func(r *domain.Charge) {
			if r.BilledToClient || v.pay {
				add(r.Row, r.Fragments(), map[string]string{"period": r.Period, "client_id": r.Client.ID, "contractor_id": r.Contractor.ID})
			}
		})
		if v.pay {
			removed(state.RemovedCharges.All)
		} else {
			removed(state.RemovedBilledCharges.All)
		}
	case "/v1/payments":
		state.Payments.All(func(r *domain.Payment) {
			if r.Direction == domain.ReceivedFromClient || v.pay {
				add(r.Row, r.Fragments(), map[string]string{"client_id": r.Client.ID, "direction": r.Direction})
			}
		})
	case "/v1/time-entries":
		state.TimeEntries.All(func(r *domain.TimeEntry) {
			add(r.Row, r.Fragments(), map[string]string{
				"period": r.Period, "client_id": r.Client.ID, "contractor_id": r.Contractor.ID, "status": r.Status,
			})
		})
		removed(state.RemovedTimeEntries.All)
	case "/v1/contractors":
		state.Contractors.All(func(r *domain.Contractor) { add(r.Row, r.Fragments(), nil) })
	case "/v1/clients":
		state.Clients.All(func(r *domain.Client) { add(r.Row, r.Fragments(), nil) })
	case "/v1/credits":
		state.Credits.All(func(r *domain.Credit) { add(r.Row, r.Fragments(), nil) })
	case "/v1/credit-history":
		state.CreditMoves.All(func(r *domain.CreditMove) {
			of := domain.Party{ID: r.ClientID}
			if c := state.Clients.Get(r.ClientID); c != nil {
				of.Name = c.Name
			}
			id := `{"id":"` + r.CreditID + `"`
			f := r.Fragments()
			f.Base = id + `,"client":` + string(of.AppendJSON(nil)) + strings.TrimPrefix(f.Base, id)
			add(domain.Row{Position: r.Position, ID: r.CreditID, UpdatedAt: r.UpdatedAt}, f, map[string]string{"client_id": r.ClientID})
		})
	case "/v1/events":
		return s.expectedEvents(workspaceID, query, v)
	default:
		s.t.Fatalf("no oracle for %s", path)
	}
	slices.SortFunc(rows, func(a, b wanted) int { return cmp.Or(cmp.Compare(a.position, b.position), strings.Compare(a.id, b.id)) })
	return rows
}

// daysOf returns the first and the last day that a row is of.
func daysOf(t testing.TB, path string, f domain.Fragments, facts map[string]string) (first, last string) {
	t.Helper()
	if day, removed := facts["removed day"]; removed {
		return day, day
	}
	var row struct {
		Start     string `json:"period_start"`
		End       string `json:"period_end"`
		Date      string `json:"date"`
		WorkDate  string `json:"work_date"`
		Confirmed string `json:"confirmed_at"`
	}
	if err := json.Unmarshal([]byte(f.Base+"}"), &row); err != nil {
		t.Fatal(err)
	}
	switch path {
	case "/v1/invoices":
		return row.Start, row.End
	case "/v1/charges":
		return row.Date, row.Date
	case "/v1/time-entries":
		return row.WorkDate, row.WorkDate
	case "/v1/payments":
		return row.Confirmed[:10], row.Confirmed[:10]
	}
	return "", "9999-12-31"
}

// isOpen reports whether an invoice is open.
func isOpen(t testing.TB, f domain.Fragments) bool {
	t.Helper()
	var row struct {
		Type     string `json:"type"`
		Reversed bool   `json:"reversed"`
		External bool   `json:"billed_externally"`
		Status   string `json:"client_billing_status"`
		NetDue   string `json:"net_due"`
	}
	if err := json.Unmarshal([]byte(f.Base+"}"), &row); err != nil {
		t.Fatal(err)
	}
	return row.Type != "credit_note" && !row.Reversed && !row.External && row.Status == "sent" && row.NetDue != "0.00"
}

func (s *stand) expectedEvents(workspaceID string, query url.Values, v view) []wanted {
	s.t.Helper()
	entries, err := s.log.Read(s.t.Context(), workspaceID, 0, 1<<30)
	if err != nil {
		s.t.Fatal(err)
	}
	oldest := s.clock.Now().Add(-720 * time.Hour)
	since, _ := domain.ParseTime(query.Get("created_since"))
	var rows []wanted
	for i := range entries {
		e := &entries[i]
		event := e.PublicEvent()
		switch {
		case event == "", e.Position > s.states[workspaceID].Position, e.CreatedAt.Before(oldest), e.CreatedAt.Before(since):
		case query.Has("type") && query.Get("type") != e.Type:
		case e.Type == domain.TypePayoutPaid && !v.pay:
		case strings.HasPrefix(e.Type, "charge.") && strings.Contains(e.Data, `"billed_to_client":false`) && !v.pay:
		default:
			rows = append(rows, wanted{e.Position, e.ID, event})
		}
	}
	return rows
}

// page is the envelope of a list.
type page struct {
	Data       []json.RawMessage `json:"data"`
	HasMore    *bool             `json:"has_more"`
	NextCursor *string           `json:"next_cursor"`
}

// page reads a list's page, or fails the test.
func (s *stand) page(path, key string) page {
	s.t.Helper()
	r := s.get(path, key)
	if r.status != 200 {
		s.t.Fatalf("GET %s: %d %s", path, r.status, r.body)
	}
	return parsePage(s.t, r.body)
}

func parsePage(t testing.TB, body []byte) page {
	t.Helper()
	return testkit.Must(decodePage(body))(t)
}

func decodePage(body []byte) (page, error) {
	var p page
	if err := json.Unmarshal(body, &p); err != nil {
		return p, fmt.Errorf("%w in %s", err, body)
	}
	if p.Data == nil || p.HasMore == nil || p.NextCursor == nil || *p.NextCursor == "" {
		return p, fmt.Errorf("not an envelope: %s", body)
	}
	return p, nil
}

// walk follows a list from its start to its end and returns its rows.
func (s *stand) walk(path, key string, query url.Values, each ...func()) (rows []string, last string) {
	s.t.Helper()
	q := url.Values{}
	for name, values := range query {
		q[name] = values
	}
	for {
		p := s.page(path+"?"+q.Encode(), key)
		for _, row := range p.Data {
			rows = append(rows, string(row))
		}
		if !*p.HasMore {
			return rows, *p.NextCursor
		}
		if len(p.Data) == 0 {
			s.t.Fatalf("%s: an empty page says that more rows wait", path)
		}
		q.Set("cursor", *p.NextCursor)
		for _, f := range each {
			f()
		}
	}
}

func texts(rows []wanted) []string {
	list := make([]string, len(rows))
	for i, r := range rows {
		list[i] = r.json
	}
	return list
}
