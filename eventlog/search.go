package eventlog

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/domain/jsonform"
	"github.com/ledgerfeed/ledgerfeed/internal/texts"
)

// SearchWindow is how many positions of a log one search looks at. The log has no index of the
// values in its entries, because every append would pay for it. So a search reads events, and the
// window bounds how long that takes.
const SearchWindow = 50_000

// maxSearchHits is the maximum number of events that one search finds.
const maxSearchHits = 200

// Search asks for the events of a workspace that name something, newest first.
type Search struct {
	WorkspaceID string

	// Text is an event's id, or a value of its data, such as the id of an object or a
	// client, or the number of an invoice: exactly as the event has it.
	Text string

	Type   string    // only events of this type; empty: all
	NoPay  bool      // leave out events that need pay:read
	Oldest time.Time // only events published then or later
	Before time.Time // only events published before; zero: all

	// From is the first position to look at; 0: the newest, or the oldest with Ascending. Ascending
	// searches towards newer events.
	From      int64
	Ascending bool

	Window int64 // maximum positions to look at; 0: SearchWindow
}

// Hit is an event that a search found.
type Hit struct {
	Position int64
	JSON     string // the public form
}

// Found is what a search found.
type Found struct {
	Hits []Hit // in the order of the search

	// Next is the position from which the search continues; 0: it has looked at everything. Until
	// is the publish time of the entry at Next.
	Next  int64
	Until time.Time
}

// Search looks at one window of the log.
func (f *Feed) Search(ctx context.Context, q Search) (*Found, error) {
	if domain.IsID(q.Text) && q.From == 0 {
		event, err := f.hits(ctx, &q, `AND e.id BETWEEN $5 AND $5 ORDER BY e.id`, q.Text)
		if err != nil || len(event) > 0 {
			return &Found{Hits: event}, err
		}
	}
	if !utf8.ValidString(q.Text) || strings.ContainsRune(q.Text, 0) {
		return &Found{}, nil // no event holds such a text, and the database accepts none
	}
	var first, last int64
	err := f.pool.QueryRow(ctx, `
		SELECT log_position_since($1, $2), least(c.position, coalesce(log_position_since($1, $3) - 1, c.position))
		  FROM log_checkpoint c WHERE c.workspace_id = $1 AND c.consumer = '`+ReadModels+`'`,
		q.WorkspaceID, q.Oldest, nullTime(q.Before)).Scan(&first, &last)
	if err != nil {
		return nil, fmt.Errorf("search the events of %s: %w", q.WorkspaceID, err)
	}
	from, to := q.window(first, last)
	if from > to {
		return &Found{}, nil
	}
	order := "DESC"
	if q.Ascending {
		order = "ASC"
	}
	found := &Found{}
	found.Hits, err = f.hits(ctx, &q, fmt.Sprintf(`
		   AND e.position BETWEEN $5 AND $6 AND strpos(e.public_event, $7) > 0
		   AND EXISTS (SELECT FROM json_each_text(e.public_event::json -> 'data') d WHERE d.key <> 'object_type' AND d.value = $8)
		 ORDER BY e.position %s LIMIT %d`, order, maxSearchHits), from, to, string(jsonform.AppendString(nil, q.Text)), q.Text)
	if err != nil {
		return nil, err
	}
	found.goOn(&q, from, to, first, last)
	if found.Next == 0 {
		return found, nil
	}
	err = queryInOrder(ctx, f.pool, func(rows pgx.Rows) (err error) {
		found.Until, err = pgx.CollectExactlyOneRow(rows, pgx.RowTo[time.Time])
		return err //nolint:wrapcheck // wrapped below
	}, `SELECT e.created_at FROM event_log e WHERE e.workspace_id = $1 AND e.position BETWEEN $2 AND $2 ORDER BY e.position`, q.WorkspaceID, found.Next)
	if err != nil {
		return nil, fmt.Errorf("search the events of %s: %w", q.WorkspaceID, err)
	}
	found.Until = found.Until.UTC()
	return found, nil
}

// window returns the part of the positions first to last that a search looks at.
func (q *Search) window(first, last int64) (from, to int64) {
	size := cmp.Or(q.Window, SearchWindow)
	if q.Ascending {
		from = max(first, q.From)
		return from, min(last, from+size-1)
	}
	to = last
	if q.From > 0 {
		to = min(last, q.From)
	}
	return max(first, to-size+1), to
}

// goOn sets where the search continues after this window; first and last limit the whole search.
func (f *Found) goOn(q *Search, from, to, first, last int64) {
	full := len(f.Hits) == maxSearchHits
	switch {
	case q.Ascending:
		if full {
			to = f.Hits[len(f.Hits)-1].Position
		}
		if to < last {
			f.Next = to + 1
		}
	default:
		if full {
			from = f.Hits[len(f.Hits)-1].Position
		}
		if from > first {
			f.Next = from - 1
		}
	}
}

// hits reads the visible events of a search's type and time that meet a further condition,
// whose parameters begin at $5.
func (f *Feed) hits(ctx context.Context, q *Search, condition string, args ...any) (list []Hit, err error) {
	pay := ""
	if q.NoPay {
		pay = ` AND NOT ` + NeedsPay("e") + ` `
	}
	err = queryInOrder(ctx, f.pool, func(rows pgx.Rows) (err error) {
		list, err = pgx.CollectRows(rows, pgx.RowToStructByPos[Hit])
		return err
	}, `
		SELECT e.position, e.public_event FROM event_log e
		 WHERE e.workspace_id = $1 AND e.public_event IS NOT NULL AND ($4 = '' OR e.type = $4)
		   AND e.created_at >= $2 AND ($3::timestamptz IS NULL OR e.created_at < $3)
		   AND e.position <= (SELECT c.position FROM log_checkpoint c WHERE c.workspace_id = $1 AND c.consumer = '`+ReadModels+`') `+pay+condition,
		append([]any{q.WorkspaceID, q.Oldest, nullTime(q.Before), q.Type}, args...)...)
	if err != nil {
		return nil, fmt.Errorf("search the events of %s: %w", q.WorkspaceID, err)
	}
	return list, nil
}

// nullTime returns nil for the zero time.
func nullTime(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// leastDigits is how many digits of a phone number a search needs: fewer are found in too many.
const leastDigits = 5

// searchFor returns a function that says whether a text is in a detached value: in one of its texts, or
// in the first and last name of a contact together. It does not search in the database, whose locale may
// know letters of ASCII alone.
func searchFor(text string) func(value string) bool {
	plain, digits := texts.Fold(text), digitsOf(text)
	isPhone := len(digits) >= leastDigits && strings.Trim(text, "0123456789+-/.() ") == ""
	return func(value string) bool {
		var members map[string]json.RawMessage
		if json.Unmarshal([]byte(value), &members) != nil {
			return false // the database accepts nothing else
		}
		for _, one := range textsOf(members) {
			if strings.Contains(texts.Fold(one), plain) || isPhone && strings.Contains(digitsOf(one), digits) {
				return true
			}
		}
		return false
	}
}

// textsOf returns the texts of an object and of the objects in it, without the names of members.
func textsOf(object map[string]json.RawMessage) (all []string) {
	member := func(name string) (text string) {
		_ = json.Unmarshal(object[name], &text) // empty: it is no text
		return text
	}
	for name, value := range object {
		var list []map[string]json.RawMessage
		if text := member(name); text != "" {
			all = append(all, text)
		} else if json.Unmarshal(value, &list) == nil {
			for _, one := range list {
				all = append(all, textsOf(one)...)
			}
		}
	}
	if first, last := member("first_name"), member("last_name"); first != "" && last != "" {
		all = append(all, first+" "+last, last+" "+first)
	}
	return all
}

func digitsOf(text string) string {
	return strings.Map(func(r rune) rune {
		if r < '0' || r > '9' {
			return -1
		}
		return r
	}, text)
}
