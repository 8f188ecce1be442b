package dispatch

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/delivery/dispatch/scheduler"
	"github.com/ledgerfeed/ledgerfeed/internal/flow"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
)

const (
	maintenanceInterval = time.Hour
	maintenanceRetry    = time.Minute
	// countRetention is how long hourly counts are kept; the console shows 24 hours.
	countRetention = 26 * time.Hour
)

// maintainAlways does the maintenance until ctx ends.
func (d *Dispatcher) maintainAlways(ctx context.Context) {
	for wait := maintenanceRetry; flow.Pause(ctx, wait); {
		wait = d.maintain(ctx)
	}
}

// maintain makes and drops partitions of the history, deletes old counts, and
// re-seals secrets that are under an older key. It returns the time until it is
// due again.
func (d *Dispatcher) maintain(ctx context.Context) time.Duration {
	err := d.store.maintain(ctx, d.clock(), d.cfg.Settings.Retention)
	if err == nil {
		return maintenanceInterval
	}
	if ctx.Err() == nil {
		d.logger.WarnContext(ctx, "maintenance of the delivery history failed; trying again", "error", err, "retry_in", maintenanceRetry)
	}
	return maintenanceRetry
}

func (s *store) maintain(ctx context.Context, now time.Time, retention time.Duration) error {
	const days = `SELECT webhook_delivery_days(($1::timestamptz AT TIME ZONE 'UTC')::date, ($2::timestamptz AT TIME ZONE 'UTC')::date)`
	_, err := s.pool.Exec(ctx, days, now, now.Add(-retention))
	if err != nil && !pg.Locked(err) {
		return fmt.Errorf("make and drop partitions of the delivery history: %w", err)
	}
	locked := err
	if _, err := s.pool.Exec(ctx, `DELETE FROM webhook_hour WHERE hour < $1`, now.Add(-countRetention)); err != nil {
		return fmt.Errorf("delete old counts: %w", err)
	}
	if _, err := s.resealSecrets(ctx); err != nil {
		return err
	}
	if locked != nil {
		return fmt.Errorf("a long transaction reads the delivery history: %w", locked)
	}
	return nil
}

// resealSecrets seals secrets under the newest key that are under an older one,
// and returns how many.
func (s *store) resealSecrets(ctx context.Context) (n int, err error) {
	rows, err := s.pool.Query(ctx, `SELECT workspace_id, webhook_id, secret, old_secret FROM webhook`)
	if err != nil {
		return 0, fmt.Errorf("read sealed secrets: %w", err)
	}
	type sealed struct {
		key         scheduler.Key
		secret, old []byte
	}
	all, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (w sealed, err error) {
		err = row.Scan(&w.key.WorkspaceID, &w.key.WebhookID, &w.secret, &w.old)
		return w, err
	})
	if err != nil {
		return 0, fmt.Errorf("read sealed secrets: %w", err)
	}
	var locked error
	for _, w := range all {
		secret, changed := s.reseal(w.key, w.secret)
		old, changedOld := s.reseal(w.key, w.old)
		if !changed && !changedOld {
			continue
		}
		// Only if it was not rotated since it was read.
		tag, err := s.limited(ctx, `
			UPDATE webhook SET secret = $3, old_secret = $4
			 WHERE workspace_id = $1 AND webhook_id = $2 AND secret = $5 AND old_secret IS NOT DISTINCT FROM $6`,
			w.key.WorkspaceID, w.key.WebhookID, secret, old, w.secret, w.old)
		if pg.Locked(err) {
			locked = fmt.Errorf("re-seal the secret of %s: %w", w.key.WebhookID, err)
			continue
		}
		if err != nil {
			return n, fmt.Errorf("re-seal the secret of %s: %w", w.key.WebhookID, err)
		}
		n += int(tag.RowsAffected())
	}
	return n, locked
}

// reseal returns a secret sealed under the newest key. One that cannot be opened
// stays as it is; attempts to its webhook report that.
func (s *store) reseal(k scheduler.Key, box []byte) (resealed []byte, changed bool) {
	if box == nil || s.keyring.Current(box) {
		return box, false
	}
	secret, err := s.keyring.Open(k.WorkspaceID, k.WebhookID, box)
	if err != nil {
		return box, false
	}
	return s.keyring.Seal(k.WorkspaceID, k.WebhookID, secret), true
}
