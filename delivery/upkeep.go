package delivery

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/ledgerfeed/ledgerfeed/internal/flow"
)

const (
	upkeepEvery = time.Hour
	upkeepRetry = time.Minute
	// countsFor is how long counts by the hour are of use.
	countsFor = 26 * time.Hour
)

// upkeep keeps the history's partitions, forgets old counts and seals secrets
// anew that are under an older key.
func (e *Engine) upkeep(ctx context.Context) {
	for wait := upkeepRetry; flow.Pause(ctx, wait); {
		wait = e.upkeepOnce(ctx)
	}
}

// upkeepOnce returns in how long it is due again.
func (e *Engine) upkeepOnce(ctx context.Context) time.Duration {
	err := e.rows.upkeep(ctx, e.clock(), e.cfg.Settings.Retention)
	if err == nil {
		return upkeepEvery
	}
	if ctx.Err() == nil {
		e.logger.WarnContext(ctx, "upkeep of the delivery history failed; it is done again", "error", err, "retry_in", upkeepRetry)
	}
	return upkeepRetry
}

func (r *rows) upkeep(ctx context.Context, now time.Time, retention time.Duration) error {
	const days = `SELECT webhook_delivery_days(($1::timestamptz AT TIME ZONE 'UTC')::date, ($2::timestamptz AT TIME ZONE 'UTC')::date)`
	_, err := r.pool.Exec(ctx, days, now, now.Add(-retention))
	if err != nil && !lockBusy(err) {
		return fmt.Errorf("make and drop days of the delivery history: %w", err)
	}
	busy := err
	if _, err := r.pool.Exec(ctx, `DELETE FROM webhook_hour WHERE hour < $1`, now.Add(-countsFor)); err != nil {
		return fmt.Errorf("forget old counts: %w", err)
	}
	if _, err := r.reseal(ctx); err != nil {
		return err
	}
	if busy != nil {
		return fmt.Errorf("a long transaction reads the delivery history: %w", busy)
	}
	return nil
}

func lockBusy(err error) bool {
	var pe *pgconn.PgError
	return errors.As(err, &pe) && pe.Code == "55P03" // lock_not_available
}

// reseal seals secrets under the newest key that are under an older one, and
// returns how many.
func (r *rows) reseal(ctx context.Context) (int, error) {
	list, err := r.pool.Query(ctx, `SELECT workspace_id, webhook_id, secret, old_secret FROM webhook`)
	if err != nil {
		return 0, fmt.Errorf("look for secrets under an older key: %w", err)
	}
	type sealed struct {
		key         key
		secret, old []byte
	}
	all, err := pgx.CollectRows(list, func(row pgx.CollectableRow) (s sealed, err error) {
		err = row.Scan(&s.key.workspaceID, &s.key.webhookID, &s.secret, &s.old)
		return s, err
	})
	if err != nil {
		return 0, fmt.Errorf("look for secrets under an older key: %w", err)
	}
	done := 0
	for _, s := range all {
		secret, changed := r.anew(s.key, s.secret)
		old, changedOld := r.anew(s.key, s.old)
		if !changed && !changedOld {
			continue
		}
		// Not if it was rotated meanwhile.
		tag, err := r.pool.Exec(ctx, `
			UPDATE webhook SET secret = $3, old_secret = $4
			 WHERE workspace_id = $1 AND webhook_id = $2 AND secret = $5 AND old_secret IS NOT DISTINCT FROM $6`,
			s.key.workspaceID, s.key.webhookID, secret, old, s.secret, s.old)
		if err != nil {
			return done, fmt.Errorf("seal the secret of %s anew: %w", s.key.webhookID, err)
		}
		done += int(tag.RowsAffected())
	}
	return done, nil
}

// anew is a secret sealed under the newest key. One that cannot be opened
// stays as it is: its webhook reports it.
func (r *rows) anew(k key, box []byte) ([]byte, bool) {
	if box == nil || r.keyring.current(box) {
		return box, false
	}
	secret, err := r.keyring.open(k.workspaceID, k.webhookID, box)
	if err != nil {
		return box, false
	}
	return r.keyring.seal(k.workspaceID, k.webhookID, secret), true
}
