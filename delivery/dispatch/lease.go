package dispatch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/ledgerfeed/ledgerfeed/delivery/dispatch/scheduler"
	"github.com/ledgerfeed/ledgerfeed/delivery/secretkey"
	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/internal/flow"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
)

const (
	// renewals is how often a lease is renewed in the time that it lasts, unless Config.Renew
	// says otherwise.
	renewals = 6
	// clockPause is the pause after a lease was not given because the clock is wrong.
	clockPause = 5 * time.Second
)

// keepLease renews the lease until ctx ends, and takes a new one when the
// scheduler asks for it. It returns the lease that it has at the end.
func (d *Dispatcher) keepLease(ctx context.Context, lease string) string {
	every := time.NewTicker(d.cfg.Renew)
	defer every.Stop()
	renewed := time.Now()
	for {
		keep(&d.lease, lease)
		select {
		case <-ctx.Done():
			return lease
		case old := <-d.takeLease:
			lease = d.replaceLease(ctx, old)
			renewed = time.Now()
			continue
		case <-every.C:
		}
		at, began := d.clock(), time.Now()
		renewing, cancel := context.WithTimeout(ctx, d.store.leaseTime/2)
		census, orphans, err := d.store.renewLease(renewing, lease, at)
		cancel()
		switch {
		case err == nil:
			renewed = began
			d.outages.renewing.Note(ctx, nil)
			if orphans > 0 {
				signal(d.orphaned) // the next sweep may be far off when sweeping takes long
			}
			d.post(scheduler.LeaseRenewed{Lease: lease, At: at, Census: census})
		case leaseIsOver(err):
			d.post(scheduler.LeaseLost{Lease: lease})
		case pg.Locked(err) && time.Since(renewed) > d.store.leaseTime/2:
			d.logger.WarnContext(ctx, "cannot renew the lease for delivering, because another transaction has locked its row; giving it up", "error", err)
			d.post(scheduler.LeaseLost{Lease: lease})
		case ctx.Err() == nil:
			d.outages.renewing.Note(ctx, err)
		}
	}
}

// replaceLease gives up a lease and takes a new one.
func (d *Dispatcher) replaceLease(ctx context.Context, old string) string {
	for ctx.Err() == nil {
		at := d.clock()
		err := d.store.dropLease(ctx, old)
		var lease string
		if err == nil {
			lease, err = d.store.takeLease(ctx, at)
		}
		if err == nil {
			d.outages.taking.Note(ctx, nil)
			d.logger.WarnContext(ctx, "the lease for delivering was lost; took a new one, and claiming webhooks again")
			d.post(scheduler.LeaseTaken{Lease: lease, At: at})
			return lease
		}
		if isClockError(err) {
			d.logger.ErrorContext(ctx, "cannot deliver", "error", err, "retry_in", clockPause)
			flow.Pause(ctx, clockPause)
			continue
		}
		if ctx.Err() == nil {
			d.outages.taking.Note(ctx, err)
		}
		flow.Pause(ctx, 4*retryPause)
	}
	return old
}

// keep keeps a copy of a text, which the caller may change.
func keep(in *atomic.Pointer[string], text string) { in.Store(&text) }

// signal puts a token into a channel that has room for one.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// reconcile frees webhooks that are held under the lease and unknown to the
// scheduler.
func (d *Dispatcher) reconcile(ctx context.Context, r scheduler.Reconcile) scheduler.Event {
	limited, cancel := context.WithTimeout(ctx, statementTimeout)
	defer cancel()
	held, err := d.store.keys(limited, "look for webhooks held",
		`SELECT workspace_id, webhook_id FROM webhook_cursor WHERE holder = $1`, r.Lease)
	if err == nil {
		unknown := slices.DeleteFunc(held, func(k scheduler.Key) bool {
			_, known := r.Known[k]
			return known
		})
		err = d.store.release(limited, r.Lease, unmoved(unknown), d.clock())
	}
	if err != nil && ctx.Err() == nil {
		d.logger.WarnContext(ctx, "cannot free webhooks that a claim without an answer left behind; trying again at the next renewal of the lease", "error", err)
	}
	return scheduler.Reconciled{}
}

// takeLease inserts a lease under a new name. What an older lease held is free
// once that is over. The error is a *clockError where the clock is wrong, and a
// *secretkey.MissingError where another key has become the one that seals: the process could not
// sign what is sealed under it.
func (s *store) takeLease(ctx context.Context, now time.Time) (lease string, err error) {
	if err := s.checkClock(ctx, now); err != nil {
		return "", err
	}
	lease = uuid.NewString()
	err = pg.InLimitedTx(ctx, s.pool, s.leaseTime/renewals, func(tx pgx.Tx) error {
		if err := secretkey.Hold(ctx, tx, s.keyring, now); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, `
			INSERT INTO webhook_instance (instance_id, lease_until, secret_keys, of_table) VALUES ($1, clock_timestamp() + $2, $3, 'webhook_instance'::regclass)`, lease, s.leaseTime, s.fingerprints())
		return err //nolint:wrapcheck // wrapped below
	})
	if err != nil {
		return "", fmt.Errorf("take a lease for delivering: %w", err)
	}
	return lease, nil
}

// fingerprints are those of the process's keys, for a rotation of the key.
func (s *store) fingerprints() [][]byte {
	var list [][]byte
	for _, f := range s.keyring.Fingerprints() {
		list = append(list, f[:])
	}
	return list
}

var errLeaseOver = errors.New("the lease is over: other processes may have taken over its webhooks")

// codeLeaseOver is the SQLSTATE of the same error in webhook_lease.
const codeLeaseOver = "LF007"

func leaseIsOver(err error) bool {
	var pe *pgconn.PgError
	return errors.Is(err, errLeaseOver) || errors.As(err, &pe) && pe.Code == codeLeaseOver
}

// renewLease extends the lease; the error satisfies leaseIsOver when it is too
// late or the clock is wrong, and pg.Locked when another transaction has locked the
// lease's row. Orphans are webhooks of processes that died.
func (s *store) renewLease(ctx context.Context, lease string, now time.Time) (c scheduler.Census, orphans int, err error) {
	b := &pgx.Batch{}
	b.Queue(`SELECT set_config('lock_timeout', $1, true)`, pg.Milliseconds(s.leaseTime/renewals))
	b.Queue(`
		WITH me AS (
		    UPDATE webhook_instance i SET lease_until = clock_timestamp() + $2
		     WHERE i.instance_id = $1 AND `+holds+` AND `+eventlog.RightClock("$3")+` RETURNING 1)
		SELECT (SELECT count(*) FROM webhook_instance i WHERE `+holds+`),
		       (SELECT count(*) FROM webhook_cursor WHERE holder IS NOT NULL),
		       (SELECT count(*) FROM webhook_cursor WHERE holder = $1),
		       (SELECT count(*) FROM webhook_cursor c WHERE c.holder IS NOT NULL AND `+free+`)
		  FROM me`, lease, s.leaseTime, now).QueryRow(func(row pgx.Row) error {
		return row.Scan(&c.Processes, &c.Held, &c.Mine, &orphans)
	})
	err = s.pool.SendBatch(ctx, b).Close()
	if errors.Is(err, pgx.ErrNoRows) {
		return c, 0, errLeaseOver
	}
	if err != nil {
		return c, 0, fmt.Errorf("renew the lease for delivering: %w", err)
	}
	return c, orphans, nil
}

// dropLease gives a lease up, and with it every webhook at once. It also deletes
// the leases of processes that died long ago. A lease whose row another transaction
// has locked is left to end by itself.
func (s *store) dropLease(ctx context.Context, lease string) error {
	_, err := s.pool.Exec(ctx, `
		DELETE FROM webhook_instance
		 WHERE workspace_id = '*' AND instance_id IN (
		       SELECT instance_id FROM webhook_instance
		        WHERE workspace_id = '*' AND (instance_id = $1 OR lease_until < clock_timestamp() - interval '1 hour')
		          FOR UPDATE SKIP LOCKED)`, lease)
	if err != nil {
		return fmt.Errorf("give up the lease for delivering: %w", err)
	}
	return nil
}
