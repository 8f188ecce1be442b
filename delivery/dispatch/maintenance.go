package dispatch

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/delivery/secretkey"
	"github.com/ledgerfeed/ledgerfeed/internal/flow"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
	"github.com/ledgerfeed/ledgerfeed/internal/rollup"
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

// maintain makes and drops partitions of the history, deletes old counts (also those
// by interval, of requests and events) and
// traces of appends, and re-seals secrets that are under another key than the database's. It returns the
// time until it is due again.
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
	if err := s.checkClock(ctx, now); err != nil { // it drops the days that are past the retention
		return err
	}
	const days = `SELECT webhook_delivery_days(($1::timestamptz AT TIME ZONE 'UTC')::date, ($2::timestamptz AT TIME ZONE 'UTC')::date)`
	_, err := s.pool.Exec(ctx, days, now, now.Add(-retention))
	if err != nil && !pg.Locked(err) {
		return fmt.Errorf("make and drop partitions of the delivery history: %w", err)
	}
	locked := err
	deleted := s.deleteCounts(ctx, now)
	if deleted != nil && !pg.Locked(deleted) {
		return deleted
	}
	removed := rollup.RemoveOld(ctx, s.pool, s.nodes, now)
	if removed != nil && !pg.Locked(removed) {
		return removed
	}
	if _, err := secretkey.Reseal(ctx, s.pool, s.keyring, now); err != nil {
		return err
	}
	if err := s.forgetTraces(ctx, now); err != nil {
		return err
	}
	if locked != nil {
		return fmt.Errorf("a long transaction reads the delivery history: %w", locked)
	}
	return errors.Join(deleted, removed)
}

// deleteCounts deletes old hourly counts. Those that another transaction has locked are
// left for the next time; pg.Locked reports that one has locked the whole table.
func (s *store) deleteCounts(ctx context.Context, now time.Time) error {
	if s.nodes != nil {
		return s.nodes.Delete(ctx, lockTimeout, "webhook_hour", "hour < $2", now.Add(-countRetention))
	}
	return pg.InLimitedTx(ctx, s.pool, lockTimeout, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `
			DELETE FROM webhook_hour WHERE (workspace_id, webhook_id, hour, outcome) IN (
			       SELECT workspace_id, webhook_id, hour, outcome FROM webhook_hour WHERE hour < $1 FOR UPDATE SKIP LOCKED)`, now.Add(-countRetention))
		if err != nil {
			return fmt.Errorf("delete old counts: %w", err)
		}
		return nil
	})
}
