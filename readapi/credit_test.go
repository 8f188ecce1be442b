package readapi_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/ledgerfeed/ledgerfeed/readapi/access"
)

type creditAnswer struct {
	Balance    string            `json:"balance"`
	Packages   []json.RawMessage `json:"packages"`
	History    []json.RawMessage `json:"history"`
	HasMore    *bool             `json:"has_more"`
	NextCursor string            `json:"next_cursor"`
}

func (s *stand) credit(client, query, key string) creditAnswer {
	s.t.Helper()
	r := s.get("/v1/clients/"+client+"/credit?"+query, key)
	if r.status != 200 {
		s.t.Fatalf("credit of %s: %d %s", client, r.status, r.body)
	}
	var c creditAnswer
	if err := json.Unmarshal(r.body, &c); err != nil {
		s.t.Fatalf("%v in %s", err, r.body)
	}
	if c.HasMore == nil || c.NextCursor == "" || c.History == nil {
		s.t.Fatalf("not a credit: %s", r.body)
	}
	return c
}

func topUp(id int) string {
	return fmt.Sprintf(`{"workspace_id":"acme","type":"credit.topped_up","data":{"credit_id":"cr_%03d","client_id":"c1","amount":"1.00","currency":"EUR"}}`, id)
}

func historyIDs(t *testing.T, rows []json.RawMessage) []string {
	t.Helper()
	ids := make([]string, len(rows))
	for i, r := range rows {
		ids[i] = idOf(t, r)
	}
	return ids
}

// TestCreditHistory pages a history newest first, and follows it: rows that are added
// while it is read come in the next pass, each once.
func TestCreditHistory(t *testing.T) {
	t.Parallel()
	s := newStand(t)
	s.append(`{"workspace_id":"acme","type":"client.recorded","data":{"client_id":"c1","name":"One"}}`,
		`{"workspace_id":"acme","type":"client.recorded","data":{"client_id":"c2","name":"Two"}}`)
	s.project("acme", 0)
	key := s.key("acme", access.CreditsRead)

	empty := s.credit("c2", "", key)
	if len(empty.History) != 0 || *empty.HasMore || empty.Balance != "0.00" {
		t.Errorf("a credit without history: %+v", empty)
	}
	if again := s.credit("c2", "cursor="+empty.NextCursor, key); again.NextCursor != empty.NextCursor {
		t.Error("an empty page moves the position")
	}
	if r := s.get("/v1/clients/nobody/credit", key); r.status != 404 {
		t.Errorf("credit of nobody: %d", r.status)
	}

	added := 0
	add := func(n int) {
		var lines []string
		for range n {
			added++
			lines = append(lines, topUp(added))
		}
		s.append(lines...)
		s.project("acme", 0)
	}
	add(25)
	for _, size := range []string{"limit=1", "limit=7", "limit=25", "limit=26", "limit=100"} {
		var ids []string
		query := size
		for {
			c := s.credit("c1", query, key)
			ids = append(ids, historyIDs(t, c.History)...)
			query = size + "&cursor=" + c.NextCursor
			if !*c.HasMore {
				break
			}
		}
		var want []string
		for i := added; i > 0; i-- {
			want = append(want, fmt.Sprintf("cr_%03d", i))
		}
		if !slices.Equal(ids, want) {
			t.Errorf("%s: %v", size, ids)
		}
		if c := s.credit("c1", query, key); len(c.History) != 0 || *c.HasMore {
			t.Errorf("%s: a follower at the end gets %v", size, historyIDs(t, c.History))
		}
	}

	// A first page of 10, then 3 more rows, then the rest: the new ones come after the
	// end of the pass, and has_more says that there are more.
	first := s.credit("c1", "limit=10", key)
	add(3)
	second := s.credit("c1", "limit=10&cursor="+first.NextCursor, key)
	third := s.credit("c1", "limit=10&cursor="+second.NextCursor, key)
	if got := historyIDs(t, third.History); len(got) != 5 || got[4] != "cr_001" || !*third.HasMore {
		t.Errorf("the end of the pass: %v, has_more %v", got, *third.HasMore)
	}
	fourth := s.credit("c1", "limit=10&cursor="+third.NextCursor, key)
	if got := strings.Join(historyIDs(t, fourth.History), " "); got != "cr_028 cr_027 cr_026" || *fourth.HasMore {
		t.Errorf("the next pass: %v, has_more %v", got, *fourth.HasMore)
	}
	if fifth := s.credit("c1", "limit=10&cursor="+fourth.NextCursor, key); len(fifth.History) != 0 || fifth.NextCursor != fourth.NextCursor {
		t.Errorf("after that: %v", historyIDs(t, fifth.History))
	}
}
