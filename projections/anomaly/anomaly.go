// Package anomaly lists the entries that could not have their effect, or not all of
// it (docs/contract/log.md, "A fold that never stops"), and keeps which of them a
// person has looked at.
package anomaly

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/internal/audit"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
)

// Store reads anomalies and acknowledges them. It is safe for concurrent use.
type Store struct {
	pool  *pgxpool.Pool
	clock func() time.Time
}

// NewStore makes a Store.
func NewStore(pool *pgxpool.Pool, clock func() time.Time) *Store {
	return &Store{pool: pool, clock: clock}
}

// Group is the anomalies of one reason and one type of entry in a workspace.
type Group struct {
	WorkspaceID   string        `json:"workspace_id"`
	Reason        domain.Reason `json:"reason"`
	Type          string        `json:"type"`
	Count         int64         `json:"count"`
	Acknowledged  int64         `json:"acknowledged"` // of Count
	FirstPosition int64         `json:"first_position"`
	LastPosition  int64         `json:"last_position"`
}

// Groups returns the groups of a workspace or, with an empty id, of all of them.
// Unless all is set, anomalies that were acknowledged are left out.
func (s *Store) Groups(ctx context.Context, workspaceID string, all bool) ([]Group, error) {
	rows, err := s.pool.Query(ctx, `
		SELECT a.workspace_id, a.reason, e.type, count(*), count(k.position), min(a.position), max(a.position)
		  FROM anomaly a
		  JOIN event_log e ON e.workspace_id = a.workspace_id AND e.position = a.position
		  LEFT JOIN anomaly_acknowledged k ON k.workspace_id = a.workspace_id AND k.position = a.position AND k.reason = a.reason
		 WHERE $1 IN ('', a.workspace_id) AND ($2 OR k.position IS NULL)
		 GROUP BY a.workspace_id, a.reason, e.type
		 ORDER BY a.workspace_id, min(a.position), a.reason`, workspaceID, all)
	if err != nil {
		return nil, fmt.Errorf("group the anomalies: %w", err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Group])
	if err != nil {
		return nil, fmt.Errorf("group the anomalies: %w", err)
	}
	return list, nil
}

// Anomaly is one of them.
type Anomaly struct {
	WorkspaceID    string        `json:"workspace_id"`
	Position       int64         `json:"position"`
	EventID        string        `json:"event_id"`
	Type           string        `json:"type"`
	Reason         domain.Reason `json:"reason"`
	ObjectType     string        `json:"object_type"` // what the entry is about; empty where this version cannot read it
	ObjectID       string        `json:"object_id"`
	PublishedAt    time.Time     `json:"published_at"`
	AcknowledgedAt *time.Time    `json:"acknowledged_at"` // null: nobody has
	Note           *string       `json:"note"`
}

// MaxPage is the most anomalies of a page.
const MaxPage = 1000

// Page returns the anomalies of a workspace after a position, in the order of the log.
// At most MaxPage, and a whole position: the next page begins after the last one's.
func (s *Store) Page(ctx context.Context, workspaceID string, after int64, limit int) ([]Anomaly, error) {
	return s.read(ctx, workspaceID, `a.position > $2 AND a.position <= coalesce((
		SELECT p.position FROM anomaly p WHERE p.workspace_id = $1 AND p.position > $2 ORDER BY p.position OFFSET $3 LIMIT 1), 9223372036854775807)`,
		after, min(max(limit, 1), MaxPage)-1)
}

// At returns the anomalies of one entry; none where it had its whole effect.
func (s *Store) At(ctx context.Context, workspaceID string, position int64) ([]Anomaly, error) {
	return s.read(ctx, workspaceID, `a.position = $2`, position)
}

func (s *Store) read(ctx context.Context, workspaceID, where string, args ...any) ([]Anomaly, error) {
	rows, err := s.pool.Query(ctx, `
		SELECT a.position, e.id, e.type, a.reason, e.created_at, e.data::text, k.acknowledged_at, k.note
		  FROM anomaly a
		  JOIN event_log e ON e.workspace_id = a.workspace_id AND e.position = a.position
		  LEFT JOIN anomaly_acknowledged k ON k.workspace_id = a.workspace_id AND k.position = a.position AND k.reason = a.reason
		 WHERE a.workspace_id = $1 AND `+where+`
		 ORDER BY a.position, array_position($`+fmt.Sprint(len(args)+2)+`::text[], a.reason::text)`,
		append(append([]any{workspaceID}, args...), domain.Reasons())...)
	if err != nil {
		return nil, fmt.Errorf("read the anomalies of %s: %w", workspaceID, err)
	}
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (Anomaly, error) {
		a, e := Anomaly{WorkspaceID: workspaceID}, domain.Entry{WorkspaceID: workspaceID}
		err := row.Scan(&a.Position, &a.EventID, &a.Type, &a.Reason, &a.PublishedAt, &e.Data, &a.AcknowledgedAt, &a.Note)
		e.Type, a.PublishedAt = a.Type, a.PublishedAt.UTC()
		a.ObjectType, a.ObjectID = e.Object()
		if a.AcknowledgedAt != nil {
			*a.AcknowledgedAt = a.AcknowledgedAt.UTC()
		}
		return a, err
	})
	if err != nil {
		return nil, fmt.Errorf("read the anomalies of %s: %w", workspaceID, err)
	}
	return list, nil
}

// Span is entries of a workspace that follow on each other in the log.
type Span struct {
	WorkspaceID string
	First, Last int64 // positions
}

// CountEntries counts those of the entries that are anomalies, one with several
// reasons once. The spans do not overlap.
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

// Which anomalies of a workspace are meant: those of one entry, of one reason, or,
// with neither, all.
type Which struct {
	Position int64         // 0: of every entry
	Reason   domain.Reason // empty: of every reason
}

// maxNote is the longest note, in bytes.
const maxNote = 1000

// NoteError says what is wrong with a note.
type NoteError struct{ Length int }

func (e *NoteError) Error() string {
	return fmt.Sprintf("the note has %d bytes: want 1 to %d, about what came of it", e.Length, maxNote)
}

// Acknowledge marks anomalies that there are now as looked at, with a note, and
// returns how many were not before. It is in the audit trail. Errors: *NoteError,
// *domain.UnknownWorkspaceError.
func (s *Store) Acknowledge(ctx context.Context, workspaceID string, which Which, note string) (n int64, err error) {
	if len(note) < 1 || len(note) > maxNote {
		return 0, &NoteError{len(note)}
	}
	now := s.clock().UTC().Truncate(time.Millisecond)
	err = pg.InTx(ctx, s.pool, func(tx pgx.Tx) error {
		var there bool
		if err := tx.QueryRow(ctx, `SELECT true FROM workspace WHERE workspace_id = $1`, workspaceID).Scan(&there); errors.Is(err, pgx.ErrNoRows) {
			return &domain.UnknownWorkspaceError{WorkspaceID: workspaceID}
		} else if err != nil {
			return fmt.Errorf("look for workspace %s: %w", workspaceID, err)
		}
		tag, err := tx.Exec(ctx, `
			INSERT INTO anomaly_acknowledged (workspace_id, position, reason, acknowledged_at, note)
			SELECT a.workspace_id, a.position, a.reason, $4, $5 FROM anomaly a
			 WHERE a.workspace_id = $1 AND $2::bigint IN (0, a.position) AND $3::text IN ('', a.reason)
			    ON CONFLICT DO NOTHING`, workspaceID, which.Position, string(which.Reason), now, note)
		if err != nil {
			return fmt.Errorf("acknowledge anomalies of %s: %w", workspaceID, err)
		}
		if n = tag.RowsAffected(); n == 0 {
			return nil
		}
		return audit.Add(ctx, tx, now, audit.Change{
			WorkspaceID: workspaceID, Action: audit.AnomalyAcknowledge, ObjectName: which.String(), Detail: fmt.Sprintf("%d: %s", n, note),
		})
	})
	return n, err
}

// String names them.
func (w Which) String() string {
	text := "all"
	if w.Reason != "" {
		text = string(w.Reason)
	}
	if w.Position > 0 {
		text += " " + audit.EntryName(w.Position)
	}
	return text
}
