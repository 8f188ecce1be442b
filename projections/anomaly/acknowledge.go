package anomaly

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/internal/audit"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
)

// Which selects anomalies of a workspace: of one entry, one reason or one type of entry. The zero
// value selects all.
type Which struct {
	Position int64         // 0: every entry
	UpTo     int64         // the highest position; 0: no limit
	Reason   domain.Reason // empty: every reason
	Type     string        // of the entry; empty: every type
}

// maxNote is the longest note, in bytes.
const maxNote = 1000

// NoteError says that a note is empty or too long.
type NoteError struct{ Length int }

func (e *NoteError) Error() string {
	return fmt.Sprintf("the note has %d bytes: want 1 to %d, about what came of it", e.Length, maxNote)
}

// Acknowledge marks the anomalies that exist now as looked at, with a note, and returns how many
// were not marked before. It adds this to the audit trail. Errors: *NoteError,
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
			WITH new AS MATERIALIZED (
			    SELECT a.workspace_id, a.position, a.reason, $4::timestamptz, $5::text FROM anomaly a
			      JOIN event_log e ON e.workspace_id = a.workspace_id AND e.position = a.position
			     WHERE a.workspace_id = $1 AND $2::bigint IN (0, a.position) AND $3::text IN ('', a.reason)
			       AND ($6::bigint = 0 OR a.position <= $6) AND $7::text IN ('', e.type))
			INSERT INTO anomaly_acknowledged (workspace_id, position, reason, acknowledged_at, note)
			SELECT * FROM new
			    ON CONFLICT DO NOTHING`, workspaceID, which.Position, string(which.Reason), now, note, which.UpTo, which.Type)
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

// AcknowledgedBy returns who acknowledged anomalies of a workspace at a moment; empty if the audit
// trail does not say.
func (s *Store) AcknowledgedBy(ctx context.Context, workspaceID string, at time.Time) (person string, err error) {
	err = s.pool.QueryRow(ctx, `
		SELECT coalesce(string_agg(DISTINCT person, ', '), '') FROM console_audit WHERE workspace_id = $1 AND at = $2 AND action = $3`,
		workspaceID, at, string(audit.AnomalyAcknowledge)).Scan(&person)
	if err != nil {
		return "", fmt.Errorf("look for who acknowledged anomalies of %s: %w", workspaceID, err)
	}
	return person, nil
}

// String describes the selection without the type: readers of the audit trail need not know that
// pay is involved.
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
