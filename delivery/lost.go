package delivery

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/delivery/dispatch"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
)

// Lost is what a webhook never got, within the retention: messages whose delivery has ended without
// success. Recover with Since sends them again.
type Lost struct {
	Messages int64
	More     bool      // there may be more: not all deliveries were examined
	Since    time.Time // no later than the publish time of their oldest event
}

// Lost counts what a webhook never got; nil: nothing. It examines the newest failed and cancelled
// deliveries, up to most of each, so that pages can show it.
func (w *Webhook) Lost(ctx context.Context, s *Store, most int) (*Lost, error) {
	var (
		l      = &Lost{}
		kept   = s.now().Add(-s.cfg.Settings.Retention)
		window = dispatch.Window{WorkspaceID: w.WorkspaceID, WebhookID: w.ID}
		oldest int64
	)
	err := pg.InTx(ctx, s.cfg.Pool, func(tx pgx.Tx) (err error) {
		err = tx.QueryRow(ctx, `
			SELECT coalesce(log_position_since(workspace_id, $2), position + 1) - 1, position FROM log_head WHERE workspace_id = $1`, w.WorkspaceID, kept).Scan(&window.After, &window.To)
		if err != nil {
			return fmt.Errorf("find the window: %w", err)
		}
		if err := byKey(ctx, tx); err != nil {
			return err
		}
		if l.Messages, oldest, l.More, err = window.CountFailed(ctx, tx, kept, most); err != nil || l.Messages == 0 {
			return err
		}
		return tx.QueryRow(ctx, `SELECT created_at FROM event_log WHERE workspace_id = $1 AND position BETWEEN $2 AND $2 ORDER BY position LIMIT 1`, w.WorkspaceID, oldest).Scan(&l.Since)
	})
	switch {
	case err != nil:
		return nil, fmt.Errorf("count what %s never got: %w", w.ID, err)
	case l.Messages == 0:
		return nil, nil
	case l.More:
		l.Since = kept
	}
	l.Since = l.Since.UTC()
	return l, nil
}
