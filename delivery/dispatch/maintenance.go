package dispatch

import (
	"context"
	"fmt"
	"time"

	"github.com/ledgerfeed/ledgerfeed/delivery/keyring"
	"github.com/ledgerfeed/ledgerfeed/internal/flow"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
	"github.com/ledgerfeed/ledgerfeed/internal/rollup"
)

const (
	maintenanceInterval = time.Hour
	maintenanceRetry    = time.Minute
)

// maintainAlways repeats the maintenance until ctx ends.
func (d *Dispatcher) maintainAlways(ctx context.Context) {
	for wait := maintenanceRetry; flow.Sleep(ctx, wait); {
		wait = d.maintain(ctx)
	}
}

// maintain makes and drops partitions of the history, deletes old interval counts and old traces of
// appends, and reseals secrets that are under another key than the database's. It returns the time
// until it is due again.
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
	if err := s.checkClock(ctx, now); err != nil { // a wrong clock would drop the wrong days
		return err
	}
	const days = `SELECT webhook_delivery_days(($1::timestamptz AT TIME ZONE 'UTC')::date, ($2::timestamptz AT TIME ZONE 'UTC')::date)`
	_, err := s.pool.Exec(ctx, days, now, now.Add(-retention))
	if err != nil && !pg.Locked(err) {
		return fmt.Errorf("make and drop partitions of the delivery history: %w", err)
	}
	locked := err
	removed := rollup.RemoveOld(ctx, s.pool, now)
	if removed != nil && !pg.Locked(removed) {
		return removed
	}
	if _, err := keyring.Reseal(ctx, s.pool, s.keyring, now); err != nil {
		return err
	}
	if err := s.forgetTraces(ctx, now); err != nil {
		return err
	}
	if locked != nil {
		return fmt.Errorf("a long transaction reads the delivery history: %w", locked)
	}
	return removed
}
