package eventlog_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

// TestSearch finds events by every id that they name, and by their own, in windows that
// go on where the one before ended, in both directions.
func TestSearch(t *testing.T) {
	t.Parallel()
	f := newFeed(t)
	for i := range 20 {
		d := testkit.Must(domain.NewDraft("acme", "invoice.reversed", fmt.Appendf(nil,
			`{"invoice_id":"inv_%d","invoice_number":"RE \"%d\" ü<&>","client_id":"cl_%d","period":"2026-10"}`, i, i, i%4)))(t)
		d.ID = fmt.Sprintf("evt_%d", i)
		d.CreatedAt = f.now.Add(time.Duration(i-20) * time.Hour)
		testkit.Must(f.log.Append(t.Context(), d))(t)
	}
	f.show(20)
	search := func(q eventlog.Search) (ids []string, looks int) {
		q.WorkspaceID = "acme"
		for {
			found := testkit.Must(f.feed().Search(t.Context(), q))(t)
			for _, h := range found.Hits {
				ids = append(ids, fmt.Sprint(h.Position-1))
			}
			looks++
			if found.Next == 0 {
				return ids, looks
			}
			if found.Until.IsZero() {
				t.Error("it goes on and does not say how far it has looked")
			}
			q.From = found.Next
		}
	}
	for _, c := range []struct {
		q     eventlog.Search
		want  []string
		looks int
	}{
		{eventlog.Search{Text: "inv_7"}, []string{"7"}, 1},
		{eventlog.Search{Text: `RE "7" ü<&>`}, []string{"7"}, 1},
		{eventlog.Search{Text: "evt_7"}, []string{"7"}, 1},
		{eventlog.Search{Text: "evt_7", Type: "invoice.paid"}, nil, 1},
		{eventlog.Search{Text: "evt_7", Before: f.now.Add(-14 * time.Hour)}, nil, 1},
		{eventlog.Search{Text: "cl_3"}, []string{"19", "15", "11", "7", "3"}, 1},
		{eventlog.Search{Text: "cl_3", Window: 6}, []string{"19", "15", "11", "7", "3"}, 4},
		{eventlog.Search{Text: "cl_3", Window: 6, Ascending: true}, []string{"3", "7", "11", "15", "19"}, 4},
		{eventlog.Search{Text: "cl_3", From: 10}, []string{"7", "3"}, 1},
		{eventlog.Search{Text: "cl_3", From: 12, Ascending: true}, []string{"11", "15", "19"}, 1},
		{eventlog.Search{Text: "cl_3", Oldest: f.now.Add(-9 * time.Hour), Before: f.now.Add(-4 * time.Hour)}, []string{"15", "11"}, 1},
		{eventlog.Search{Text: "cl_3", Type: "invoice.reversed"}, []string{"19", "15", "11", "7", "3"}, 1},
		{eventlog.Search{Text: "cl_3", Type: "invoice.paid"}, nil, 1},
		{eventlog.Search{Text: "cl_"}, nil, 1},
		{eventlog.Search{Text: "invoice"}, nil, 1},          // a kind of object
		{eventlog.Search{Text: "invoice.reversed"}, nil, 1}, // a type of event
		{eventlog.Search{Text: "\x00"}, nil, 1},
		{eventlog.Search{Text: "\xff"}, nil, 1},
	} {
		if got, looks := search(c.q); !slices.Equal(got, c.want) || looks != c.looks {
			t.Errorf("%+v: %q in %d looks, want %q in %d", c.q, got, looks, c.want, c.looks)
		}
	}
	if _, err := f.pool.Exec(t.Context(), `UPDATE log_checkpoint SET position = 10 WHERE workspace_id = 'acme'`); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"cl_3", "evt_15"} { // what is not visible yet is not found
		if got, _ := search(eventlog.Search{Text: text}); slices.Contains(got, "15") {
			t.Errorf("%s: %q", text, got)
		}
	}
}
