package readapi_test

import (
	"bytes"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/readapi/access"
)

// TestRowsThatLeave is docs/contract/decisions.md, "Responses": rows that leave. Each
// step appends one entry and says what a key with pay:read, and one without, then finds
// in the list of charges; gone is a row that has left, at the place of the entry of that
// number.
func TestRowsThatLeave(t *testing.T) {
	t.Parallel()
	s := newStand(t)
	s.workspace("acme")
	with, without := s.key("acme", allPermissions()...), s.key("acme", without(access.PayRead, access.MarginRead)...)
	charge := func(typ, id, client string, billed bool) string {
		return fmt.Sprintf(`{"workspace_id":"acme","type":%q,"data":{"charge_id":%q,"client_id":%q,"date":"2026-10-01","category":"c","kind":"k","billed_to_client":%v,"amount":"1.00","currency":"EUR","period":"2026-10"}}`, typ, id, client, billed)
	}
	deleted := func(id string) string {
		return fmt.Sprintf(`{"workspace_id":"acme","type":"charge.deleted","data":{"charge_id":%q}}`, id)
	}
	gone := func(id string, entry int) string { return fmt.Sprintf("%s gone %d", id, entry) }
	for i, step := range []struct {
		entry         string
		with, without []string
		filter        string // client_id of the requests; empty: a and b together, without it
	}{
		{charge("charge.created", "a", "c1", true), []string{"a"}, []string{"a"}, ""},
		{charge("charge.created", "b", "c1", false), []string{"a", "b"}, []string{"a"}, ""},
		// No longer billed, and of another client: gone for one key only, by its last client.
		{charge("charge.recorded", "a", "c2", false), []string{"b", "a"}, []string{gone("a", 3)}, ""},
		{charge("charge.recorded", "a", "c2", false), []string{"b"}, []string{gone("a", 3)}, "c1"},
		{charge("charge.recorded", "a", "c2", false), []string{"a"}, nil, "c2"},
		// Never billed: leaves no trace for the key that never saw it.
		{deleted("b"), []string{"a", gone("b", 6)}, []string{gone("a", 3)}, ""},
		{deleted("a"), []string{gone("b", 6), gone("a", 7)}, []string{gone("a", 3)}, ""},
		{deleted("a"), []string{gone("a", 7)}, nil, "c2"}, // an anomaly, which changes nothing
		// Recorded again without being billed: back for the one key, still gone for the other.
		{charge("charge.created", "a", "c3", false), []string{gone("b", 6), "a"}, []string{gone("a", 3)}, ""},
		{charge("charge.recorded", "a", "c3", true), []string{gone("b", 6), "a"}, []string{"a"}, ""},
		{deleted("a"), []string{gone("b", 6), gone("a", 11)}, []string{gone("a", 11)}, ""},
		{charge("charge.recorded", "b", "c1", true), []string{gone("a", 11), "b"}, []string{gone("a", 11), "b"}, ""},
	} {
		s.clock.Advance(time.Millisecond)
		s.append(step.entry)
		s.project("acme", 0)
		entries, err := s.log.Read(t.Context(), "acme", 0, 100)
		if err != nil {
			t.Fatal(err)
		}
		for key, want := range map[string][]string{with: step.with, without: step.without} {
			path := "/v1/charges?include=removed"
			if step.filter != "" {
				path += "&client_id=" + step.filter
			}
			var got []string
			for _, row := range s.page(path, key).Data {
				id, err := decodeID(row)
				if err != nil {
					t.Fatal(err)
				}
				if bytes.Contains(row, []byte(`"removed"`)) {
					at := slices.IndexFunc(entries, func(e domain.Entry) bool {
						return string(row) == fmt.Sprintf(`{"id":%q,"removed":true,"updated_at":%q}`, id, domain.FormatTime(e.CreatedAt))
					})
					id = gone(id, at+1)
				}
				got = append(got, id)
			}
			if !slices.Equal(got, want) {
				t.Errorf("after entry %d, with pay:read %v: %q, want %q", i+1, key == with, got, want)
			}
			// Without the parameter nothing has changed.
			for _, row := range s.page(strings.Replace(path, "include=removed", "limit=100", 1), key).Data {
				if bytes.Contains(row, []byte(`"removed"`)) {
					t.Errorf("after entry %d a row that has left is shown: %s", i+1, row)
				}
			}
		}
	}
	// One row has left, and is not found by its id.
	if r := s.get("/v1/charges/a", with); r.status != http.StatusNotFound {
		t.Errorf("a charge that has left: %d", r.status)
	}
}

// TestIncludeIsAParameter: all lists of rows have it, others do not; it has one value,
// and a cursor is tied to it.
func TestIncludeIsAParameter(t *testing.T) {
	t.Parallel()
	s := newStand(t)
	s.append(history(t, "acme", 8, s.clock.Now(), 24*time.Hour, 60)...)
	s.project("acme", 0)
	key := s.key("acme", allPermissions()...)
	for path := range lists() {
		want := http.StatusOK
		if !takes(path, "include") {
			want = http.StatusBadRequest
		}
		if r := s.get(path+"?include=removed", key); r.status != want {
			t.Errorf("%s?include=removed: %d, want %d", path, r.status, want)
		}
		for _, wrong := range []string{"include=", "include=Removed", "include=all", "include=removed&include=removed", "include=removed,deleted"} {
			r := s.get(path+"?"+wrong, key)
			if r.status != http.StatusBadRequest || !bytes.Contains(r.body, []byte(`"field":"include"`)) {
				t.Errorf("%s?%s: %d %s", path, wrong, r.status, r.body)
			}
		}
		if !takes(path, "include") {
			continue
		}
		cursor := *s.page(path+"?include=removed&limit=1", key).NextCursor
		if r := s.get(path+"?limit=1&cursor="+cursor, key); r.status != http.StatusBadRequest {
			t.Errorf("%s: the cursor is taken without include: %d", path, r.status)
		}
		s.page(path+"?include=removed&limit=1&cursor="+cursor, key)
	}
	for _, path := range []string{"/v1/time-entries/x", "/v1/clients/x/credit", "/v1/me"} {
		if r := s.get(path+"?include=removed", key); r.status != http.StatusBadRequest {
			t.Errorf("%s?include=removed: %d", path, r.status)
		}
	}
}

// TestRemovedRowsOfOlderRules: while rows that have left are still being collected, a
// follower is not led past their places.
func TestRemovedRowsOfOlderRules(t *testing.T) {
	t.Parallel()
	s := newStand(t)
	s.append(history(t, "acme", 8, s.clock.Now(), 24*time.Hour, 60)...)
	s.project("acme", 0)
	s.workspace("empty")
	for _, rules := range []int{0, 1} {
		if _, err := s.pool.Exec(t.Context(), `UPDATE log_checkpoint SET rules = $1`, rules); err != nil {
			t.Fatal(err)
		}
		for _, path := range []string{"/v1/charges", "/v1/time-entries"} {
			r := s.get(path+"?include=removed", s.key("acme", allPermissions()...))
			if r.status != http.StatusServiceUnavailable || r.header.Get("Retry-After") != "30" || !bytes.Contains(r.body, []byte("include=removed")) {
				t.Errorf("%s with rules %d: %d %s", path, rules, r.status, r.body)
			}
			s.page(path, s.key("acme", allPermissions()...))
			s.page(path+"?include=removed", s.key("empty", allPermissions()...))
		}
		s.page("/v1/clients?include=removed", s.key("acme", allPermissions()...)) // nothing leaves this list
	}
}
