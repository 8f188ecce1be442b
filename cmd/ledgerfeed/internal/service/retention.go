package service

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/internal/audit"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
)

// recordRetention adds a line to the audit trail when the retention differs from that of
// the process that was started before, because what is past the retention is deleted.
func (s *Service) recordRetention(ctx context.Context) error {
	ctx = audit.AsService(ctx)
	retention, now := s.env.Settings.Retention, s.env.Clock().UTC()
	return pg.InTx(ctx, s.shared, func(tx pgx.Tx) error {
		// The insert makes processes that start at the same time wait for each other.
		_, err := tx.Exec(ctx, `
			INSERT INTO service_setting (workspace_id, name, value, changed_at) VALUES ('*', 'retention', '', $1)
			    ON CONFLICT (workspace_id, name) DO NOTHING`, now)
		if err != nil {
			return fmt.Errorf("record the retention: %w", err)
		}
		var before string
		err = tx.QueryRow(ctx, `
			SELECT value FROM service_setting WHERE workspace_id = '*' AND name = 'retention' AND value <> $1 FOR UPDATE`, retention.String()).Scan(&before)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil // as before
		}
		if err != nil {
			return fmt.Errorf("read the retention before: %w", err)
		}
		_, err = tx.Exec(ctx, `
			UPDATE service_setting SET value = $1, changed_at = $2 WHERE workspace_id = '*' AND name = 'retention'`, retention.String(), now)
		if err != nil {
			return fmt.Errorf("record the retention: %w", err)
		}
		return audit.Add(ctx, tx, now, audit.Change{
			WorkspaceID: audit.AllWorkspaces, Action: audit.RetentionSet, ObjectName: "LEDGERFEED_RETENTION", Detail: retentionDetail(before, retention),
		})
	})
}

func retentionDetail(before string, now time.Duration) string {
	if before == "" {
		return now.String()
	}
	return now.String() + "; before: " + before
}
