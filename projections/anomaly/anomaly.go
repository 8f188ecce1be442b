// Package anomaly lists the entries without their full effect (docs/contract/log.md, "A fold that
// never stops"), and records which of them a person has looked at.
package anomaly

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
)

// Store reads anomalies and acknowledges them. It is safe for concurrent use.
type Store struct {
	pool  pg.DB
	clock func() time.Time
}

// NewStore makes a Store.
func NewStore(pool pg.DB, clock func() time.Time) *Store {
	return &Store{pool: pool, clock: clock}
}

// Filter selects anomalies.
type Filter struct {
	WorkspaceID string        // empty: every workspace
	Reason      domain.Reason // empty: every
	Type        string        // of the entry; empty: every
	NoPay       bool          // leaves out entries that need pay:read, and types that this version does not know
	All         bool          // include acknowledged ones
	First       int           // Groups counts only this many, in the order of workspaces and positions; 0: all
}

// from returns the FROM and WHERE of a statement, with its arguments.
func (f *Filter) from() (sql string, args []any) {
	sql = `
		  FROM anomaly a
		  JOIN event_log e ON e.workspace_id = a.workspace_id AND e.position = a.position
		  LEFT JOIN anomaly_acknowledged k ON k.workspace_id = a.workspace_id AND k.position = a.position AND k.reason = a.reason
		 WHERE true`
	where := func(condition string, value any) {
		args = append(args, value)
		sql += fmt.Sprintf(" AND "+condition, len(args))
	}
	if f.WorkspaceID != "" {
		where("a.workspace_id = $%d", f.WorkspaceID)
	}
	if f.Reason != "" {
		where("a.reason = $%d", string(f.Reason))
	}
	if f.Type != "" {
		where("e.type = $%d", f.Type)
	}
	if f.NoPay {
		where("e.type = ANY($%d)", domain.TypesWithoutPay())
		sql += ` AND e.data ->> 'billed_to_client' IS DISTINCT FROM 'false'` // for charges, whether or not the type is public
	}
	if !f.All {
		sql += " AND k.position IS NULL"
	}
	return sql, args
}

// Group counts the anomalies in a workspace with the same reason and type of entry.
type Group struct {
	WorkspaceID   string        `json:"workspace_id"`
	Reason        domain.Reason `json:"reason"`
	Type          string        `json:"type"`
	Count         int64         `json:"count"`
	Acknowledged  int64         `json:"acknowledged"` // of Count
	FirstPosition int64         `json:"first_position"`
	LastPosition  int64         `json:"last_position"`
	FirstAt       time.Time     `json:"first_published_at"` // when the entry at FirstPosition was published
	LastAt        time.Time     `json:"last_published_at"`
	AtLeast       bool          `json:"at_least"` // not all anomalies were counted: this group or others may have more

	// What the entry at LastPosition is about; empty if this version cannot read it.
	LastObjectType string `json:"last_object_type"`
	LastObjectID   string `json:"last_object_id"`
}

// MostGrouped is how many anomalies are counted if all of them would take too long: a faulty
// producer may cause millions.
const MostGrouped = 100_000

// Groups returns the groups of the anomalies that a filter selects.
func (s *Store) Groups(ctx context.Context, f Filter) ([]Group, error) {
	from, args := f.from()
	first := int64(math.MaxInt64 - 1)
	if f.First > 0 {
		from += ` ORDER BY a.workspace_id, a.position, a.reason`
		first = int64(f.First)
	}
	list, err := pg.Collect(ctx, s.pool, func(row pgx.CollectableRow) (Group, error) {
		var g Group
		var last domain.Entry
		err := row.Scan(&g.WorkspaceID, &g.Reason, &g.Type, &g.Count, &g.Acknowledged, &g.FirstPosition, &g.LastPosition, &g.FirstAt, &g.LastAt, &g.AtLeast, &last.Data)
		last.WorkspaceID, last.Type = g.WorkspaceID, g.Type
		g.LastObjectType, g.LastObjectID = last.Object()
		g.FirstAt, g.LastAt = g.FirstAt.UTC(), g.LastAt.UTC()
		return g, err
	}, fmt.Sprintf(`
		WITH g AS (
		SELECT workspace_id, reason, type, count(*) AS n, count(*) FILTER (WHERE acknowledged) AS seen, min(position) AS low, max(position) AS high,
		       min(created_at) AS first_at, max(created_at) AS last_at, sum(count(*)) OVER () > $%d::bigint AS more
		  FROM (SELECT a.workspace_id, a.reason, e.type, a.position, e.created_at, k.position IS NOT NULL AS acknowledged`+from+` LIMIT $%[1]d::bigint + 1) counted
		 GROUP BY workspace_id, reason, type)
		SELECT g.*, e.data::text FROM g JOIN event_log e ON e.workspace_id = g.workspace_id AND e.position = g.high
		 ORDER BY g.workspace_id, low, reason`, len(args)+1), append(args, first)...)
	if err != nil {
		return nil, fmt.Errorf("group the anomalies: %w", err)
	}
	return list, nil
}

// Any reports whether a filter selects any anomaly.
func (s *Store) Any(ctx context.Context, f Filter) (there bool, err error) {
	from, args := f.from()
	if err = s.pool.QueryRow(ctx, `SELECT EXISTS (SELECT `+from+`)`, args...).Scan(&there); err != nil {
		return false, fmt.Errorf("look for anomalies: %w", err)
	}
	return there, nil
}

// Anomaly is one entry without its full effect, with one reason.
type Anomaly struct {
	WorkspaceID    string        `json:"workspace_id"`
	Position       int64         `json:"position"`
	EventID        string        `json:"event_id"`
	Type           string        `json:"type"`
	Reason         domain.Reason `json:"reason"`
	ObjectType     string        `json:"object_type"` // what the entry is about; empty if this version cannot read it
	ObjectID       string        `json:"object_id"`
	PublishedAt    time.Time     `json:"published_at"`
	AcknowledgedAt *time.Time    `json:"acknowledged_at"` // null: not acknowledged
	Note           *string       `json:"note"`
}

// MaxPage is the most anomalies in a page.
const MaxPage = 1000

// Page returns the anomalies of a workspace after a position, in the order of the log. limit is
// capped at MaxPage. A page contains every anomaly of its last position, even beyond limit, so the
// next page begins after that position.
func (s *Store) Page(ctx context.Context, workspaceID string, after int64, limit int) ([]Anomaly, error) {
	return s.read(ctx, Filter{WorkspaceID: workspaceID, All: true}, `a.position > $%d AND a.position <= coalesce((
		SELECT p.position FROM anomaly p WHERE p.workspace_id = $1 AND p.position > $%[1]d ORDER BY p.position OFFSET $%d LIMIT 1), 9223372036854775807)`,
		inOrder(), after, min(max(limit, 1), MaxPage)-1)
}

// Before returns the newest anomalies of a workspace that a filter selects, newest first, at
// positions below position; 0 is the end of the log. limit is capped at MaxPage.
func (s *Store) Before(ctx context.Context, f Filter, position int64, limit int) ([]Anomaly, error) {
	return s.read(ctx, f, `$%d = 0::bigint OR a.position < $%[1]d`, `a.position DESC, a.reason LIMIT `+fmt.Sprint(min(max(limit, 1), MaxPage)), position)
}

// At returns the anomalies of one entry, none if it had its full effect.
func (s *Store) At(ctx context.Context, f Filter, position int64) ([]Anomaly, error) {
	f.All = true
	return s.read(ctx, f, `a.position = $%d`, inOrder(), position)
}

// inOrder returns the ORDER BY for the order of the log and then of reasons as the contract lists
// them.
func inOrder() string {
	var reasons []string
	for _, r := range domain.Reasons() {
		reasons = append(reasons, "'"+string(r)+"'")
	}
	return "a.position, array_position(ARRAY[" + strings.Join(reasons, ", ") + "], a.reason::text)"
}

// read returns the anomalies of a workspace that a filter selects. where is a format for the
// parameter numbers of more.
func (s *Store) read(ctx context.Context, f Filter, where, order string, more ...any) ([]Anomaly, error) {
	from, args := f.from()
	numbers := make([]any, len(more))
	for i := range more {
		numbers[i] = len(args) + i + 1
	}
	list, err := pg.Collect(ctx, s.pool, func(row pgx.CollectableRow) (Anomaly, error) {
		a, e := Anomaly{WorkspaceID: f.WorkspaceID}, domain.Entry{WorkspaceID: f.WorkspaceID}
		err := row.Scan(&a.Position, &a.EventID, &a.Type, &a.Reason, &a.PublishedAt, &e.Data, &a.AcknowledgedAt, &a.Note)
		e.Type, a.PublishedAt = a.Type, a.PublishedAt.UTC()
		a.ObjectType, a.ObjectID = e.Object()
		if a.AcknowledgedAt != nil {
			*a.AcknowledgedAt = a.AcknowledgedAt.UTC()
		}
		return a, err
	}, `
		SELECT a.position, e.id, e.type, a.reason, e.created_at, e.data::text, k.acknowledged_at, k.note`+from+`
		   AND (`+fmt.Sprintf(where, numbers...)+`)
		 ORDER BY `+order, append(args, more...)...)
	if err != nil {
		return nil, fmt.Errorf("read the anomalies of %s: %w", f.WorkspaceID, err)
	}
	return list, nil
}

// MostWaiting is the most anomalies that Waiting counts.
const MostWaiting = 10_000

// Waiting counts the anomalies that nobody has acknowledged, up to MostWaiting: for more, the exact
// number does not matter. Its time depends on the number of acknowledged anomalies, which it skips
// one by one: about half a second for a million.
func (s *Store) Waiting(ctx context.Context) (n int64, err error) {
	err = s.pool.QueryRow(ctx, `
		SELECT count(*) FROM (
		  SELECT 1 FROM anomaly a WHERE NOT EXISTS (
		         SELECT 1 FROM anomaly_acknowledged k WHERE k.workspace_id = a.workspace_id AND k.position = a.position AND k.reason = a.reason)
		   LIMIT $1) AS waiting`, MostWaiting).Scan(&n)
	if err != nil {
		return 0, fmt.Errorf("count the anomalies that wait: %w", err)
	}
	return n, nil
}

// Span is a range of consecutive entries in a workspace.
type Span struct {
	WorkspaceID string
	First, Last int64 // positions, both included
}

// CountEntries counts the entries in the spans that are anomalies. An entry with several reasons
// counts once. The spans must not overlap.
func (s *Store) CountEntries(ctx context.Context, spans []Span) (n int64, err error) {
	workspaces, first, last := make([]string, len(spans)), make([]int64, len(spans)), make([]int64, len(spans))
	for i := range spans {
		workspaces[i], first[i], last[i] = spans[i].WorkspaceID, spans[i].First, spans[i].Last
	}
	err = s.pool.QueryRow(ctx, `
		SELECT count(*)
		  FROM unnest($1::text[], $2::bigint[], $3::bigint[]) AS span (workspace_id, first, last)
		 CROSS JOIN LATERAL (
		       SELECT DISTINCT a.position FROM anomaly a
		        WHERE a.workspace_id = span.workspace_id AND a.position BETWEEN span.first AND span.last) AS entry`,
		workspaces, first, last).Scan(&n)
	if err != nil {
		return 0, fmt.Errorf("count the anomalies among entries: %w", err)
	}
	return n, nil
}

// OnlyFirst explains figures that count only the first MostGrouped anomalies.
func OnlyFirst() string {
	return fmt.Sprintf("There are more than %d: only the first of them are counted, by workspace and position, so that these figures are the least, and others may be missing.", MostGrouped)
}

// Name is what people call a reason.
func Name(r domain.Reason) string { return cmp.Or(names[r], string(r)) }

// names has what people call each reason.
//
//nolint:gochecknoglobals // a constant table
var names = map[domain.Reason]string{
	domain.UnknownObject:   "Unknown object",
	domain.Repeat:          "Repeated ID",
	domain.Overdrawn:       "Below zero",
	domain.UnknownDocument: "Unknown document number",
	domain.WrongKind:       "Invoice under a credit note's ID",
	domain.WrongCurrency:   "Wrong currency",
	domain.Unreadable:      "Unreadable entry",
}

// Explain says what a reason means and what can be done about it.
func Explain(r domain.Reason) string {
	return cmp.Or(meanings[r], "This version of the program does not know the reason.")
}

// meanings has what each reason means.
//
//nolint:gochecknoglobals // a constant table
var meanings = map[domain.Reason]string{
	domain.UnknownObject: "The entry is about something that does not exist in this workspace, or was deleted. " +
		"If that was only late, append the missing object first. Then append this entry again with a new ID.",
	domain.Repeat:          "The entry repeats an ID that was there before, so it has no effect. Do nothing, unless the producer meant something new: that needs an ID of its own.",
	domain.Overdrawn:       "An amount or hours would have fallen below zero and became zero instead. Compare the producer's books with the row.",
	domain.UnknownDocument: "The entry names a document number that its invoice does not have, so it has no effect. Append it again with the right number and a new ID.",
	domain.WrongKind:       "An invoice was recorded under the ID of a credit note, so it has no effect. The producer has to use another ID.",
	domain.WrongCurrency:   "The entry has another currency than the client's credit, so it has no effect. Amounts of two currencies are not mixed.",
	domain.Unreadable:      "A newer version of the program wrote the entry, and this one cannot read it. After an upgrade of this program the read models are rebuilt with it.",
}
