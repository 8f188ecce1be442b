package readapi_test

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
	"github.com/ledgerfeed/ledgerfeed/readapi/access"
	"github.com/ledgerfeed/ledgerfeed/readapi/route"
)

// lists are the paths of the lists of rows, with the filters of each.
func lists() map[string]map[string][]string {
	periods := []string{"2026-10", "2026-09", "2026-W41", "2026-BW21", "2031-01"}
	from, to := []string{"2026-08-31", "0001-01-01", "2026-09-17", "2026-10-01", "9999-12-31"}, []string{"2026-09-30", "2026-10-31", "2026-09-17", "0001-01-01", "9999-12-31"}
	return map[string]map[string][]string{
		"/v1/invoices": {
			"period": periods, "client_id": {"@client", "nobody"}, "contractor_id": {"@contractor"},
			"status": domain.BillingStatuses(), "type": domain.InvoiceTypes(), "date_from": from, "date_to": to, "open": {"true", "false"},
		},
		"/v1/charges":        {"period": periods, "client_id": {"@client"}, "contractor_id": {"@contractor", "nobody"}, "date_from": from, "date_to": to},
		"/v1/payments":       {"client_id": {"@client"}, "direction": {domain.ReceivedFromClient, domain.PaidToContractor}, "date_from": from, "date_to": to},
		"/v1/time-entries":   {"period": periods, "client_id": {"@client"}, "contractor_id": {"@contractor"}, "status": domain.LineStatuses(), "date_from": from, "date_to": to},
		"/v1/contractors":    {},
		"/v1/clients":        {},
		"/v1/credits":        {},
		"/v1/credit-history": {"client_id": {"@client", "nobody"}},
		"/v1/events":         {"type": {"invoice.paid", "payout.paid", "period.closed", "test.ping"}},
	}
}

// views are the permission sets that see lists differently.
func views() map[view][]access.Permission {
	return map[view][]access.Permission{
		{}:                        without(access.PayRead, access.MarginRead),
		{pay: true}:               without(access.MarginRead),
		{pay: true, margin: true}: allPermissions(),
	}
}

// TestEveryListShowsWhatTheFoldSays goes through every list with every page
// size, every filter and pairs of filters, for every permission set.
func TestEveryListShowsWhatTheFoldSays(t *testing.T) {
	t.Parallel()
	s := newStand(t)
	now := s.clock.Now()
	s.append(history(t, "acme", 3, now, 70*24*time.Hour, 700)...)
	s.append(
		`{"workspace_id":"acme","type":"invoice.recorded","data":{"invoice_id":"in_draft","number":"D-1","draft":true,"client_id":"c1","period":"2026-10","gross_amount":"1.00","currency":"EUR"}}`,
		`{"workspace_id":"acme","type":"charge.created","data":{"charge_id":"ch_hidden","client_id":"c1","date":"2026-10-01","category":"x","kind":"y","billed_to_client":false,"amount":"1.00","currency":"EUR","period":"2026-10"}}`,
		`{"workspace_id":"acme","type":"charge.created","data":{"charge_id":"ch_shown","client_id":"c1","date":"2026-10-01","category":"x","kind":"y","amount":"1.00","currency":"EUR","period":"2026-10"}}`,
		`{"workspace_id":"acme","type":"client.recorded","data":{"client_id":"c1","name":"Renamed"}}`,
	)
	s.append(history(t, "other", 4, now, 70*24*time.Hour, 100)...)
	s.project("acme", 0)
	s.project("other", 0)
	client, contractor := s.someParties("acme")
	for v, permissions := range views() {
		key := s.key("acme", permissions...)
		for path, filters := range lists() {
			queries := []url.Values{{}}
			for name, values := range filters {
				for _, value := range values {
					queries = append(queries, url.Values{name: {resolve(value, client, contractor)}})
				}
			}
			queries = append(queries, pairs(filters, client, contractor)...)
			if takes(path, "include") {
				for _, q := range slices.Clone(queries) {
					q = maps.Clone(q)
					q.Set("include", "removed")
					queries = append(queries, q)
				}
			}
			for _, q := range queries {
				want := texts(s.expected("acme", path, q, v))
				q.Set("limit", "100")
				got, _ := s.walk(path, key, q)
				if !slices.Equal(got, want) {
					t.Errorf("%s?%s, %+v: %d rows, want %d\n got %.300q\nwant %.300q", path, q.Encode(), v, len(got), len(want), got, want)
				}
			}
		}
	}
	key := s.key("acme", allPermissions()...)
	for path := range lists() {
		want := texts(s.expected("acme", path, nil, view{true, true}))
		for _, size := range []int{1, 2, 3, 7, 50, 99, 100} {
			if size == 1 && len(want) > 120 {
				continue // the small lists show it
			}
			got, last := s.walk(path, key, url.Values{"limit": {strconv.Itoa(size)}})
			if !slices.Equal(got, want) {
				t.Errorf("%s by %d: %d rows, want %d", path, size, len(got), len(want))
			}
			again := s.page(fmt.Sprintf("%s?limit=%d&cursor=%s", path, size, last), key)
			if len(again.Data) != 0 || *again.HasMore || *again.NextCursor != last {
				t.Errorf("%s by %d: a follower at the end gets %d rows, has_more %v, another position: %v",
					path, size, len(again.Data), *again.HasMore, *again.NextCursor != last)
			}
		}
	}
}

// takes reports whether an endpoint has a parameter.
func takes(path, param string) bool {
	for _, r := range route.Table() {
		if r.Path == path {
			return slices.ContainsFunc(r.Params, func(p route.Param) bool { return p.Name == param })
		}
	}
	return false
}

func resolve(value, client, contractor string) string {
	switch value {
	case "@client":
		return client
	case "@contractor":
		return contractor
	}
	return value
}

// pairs combines the first values of every two filters.
func pairs(filters map[string][]string, client, contractor string) []url.Values {
	var list []url.Values
	for a, as := range filters {
		for b, bs := range filters {
			if a < b {
				list = append(list, url.Values{a: {resolve(as[0], client, contractor)}, b: {resolve(bs[0], client, contractor)}})
			}
		}
	}
	return list
}

// someParties returns the client and the contractor with the most time entries.
func (s *stand) someParties(workspaceID string) (client, contractor string) {
	clients, contractors := map[string]int{}, map[string]int{}
	s.states[workspaceID].TimeEntries.All(func(r *domain.TimeEntry) {
		clients[r.Client.ID]++
		contractors[r.Contractor.ID]++
	})
	return most(clients), most(contractors)
}

func most(counts map[string]int) string {
	best := ""
	for id, n := range counts {
		if best == "" || n > counts[best] || n == counts[best] && id < best {
			best = id
		}
	}
	return best
}

// TestSince tries updated_since and created_since at, before and after the
// publish times of the log, and times in the future.
func TestSince(t *testing.T) {
	t.Parallel()
	s := newStand(t)
	s.contract = nil // the other suites judge these answers
	now := s.clock.Now()
	s.append(history(t, "acme", 5, now, 20*24*time.Hour, 200)...)
	s.project("acme", 0)
	key := s.key("acme", allPermissions()...)
	entries := testkit.Must(s.log.Read(t.Context(), "acme", 0, 1000))(t)
	var times []time.Time
	for i := 0; i < len(entries); i += 23 {
		at := entries[i].CreatedAt
		times = append(times, at, at.Add(-time.Millisecond), at.Add(time.Millisecond))
	}
	times = append(times, now.Add(time.Hour), now.AddDate(-5, 0, 0))
	for path := range lists() {
		name := "updated_since"
		if path == "/v1/credit-history" {
			continue
		}
		if path == "/v1/events" {
			name = "created_since"
		}
		for _, at := range times {
			for _, written := range []string{domain.FormatTime(at), at.In(time.FixedZone("", 5400)).Format("2006-01-02T15:04:05.999Z07:00")} {
				q := url.Values{name: {written}}
				want := texts(s.expected("acme", path, q, view{true, true}))
				q.Set("limit", "37")
				got, _ := s.walk(path, key, q)
				if !slices.Equal(got, want) {
					t.Errorf("%s?%s: %d rows, want %d", path, q.Encode(), len(got), len(want))
				}
			}
		}
	}
}
