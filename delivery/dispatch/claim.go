package dispatch

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/ledgerfeed/ledgerfeed/delivery/dispatch/scheduler"
	"github.com/ledgerfeed/ledgerfeed/delivery/keyring"
	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/internal/flow"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
)

// claim takes webhooks that no process holds, and loads them.
func (d *Dispatcher) claim(ctx context.Context, c *scheduler.Claim) scheduler.Event {
	limited, cancel := context.WithTimeout(ctx, statementTimeout)
	defer cancel()
	endpoints, more, err := d.store.claimAndLoad(limited, c, d.clock())
	switch {
	case err != nil:
		if ctx.Err() == nil {
			d.outages.claiming.LogTransition(ctx, err)
		}
		flow.Sleep(ctx, retryPause)
		return scheduler.ClaimFailed{Claim: c}
	default:
		d.outages.claiming.LogTransition(ctx, nil)
	}
	return scheduler.Claimed{Claim: c, Endpoints: endpoints, More: more}
}

// maxClaim is how many webhooks one claim takes. All of them must be loaded within
// statementTimeout.
const maxClaim = 500

// claimAndLoad takes webhooks and loads them. more reports whether there may be others to claim at
// once.
func (s *store) claimAndLoad(ctx context.Context, c *scheduler.Claim, now time.Time) (endpoints []scheduler.Loaded, more bool, err error) {
	claimed, err := s.claim(ctx, c, now)
	if err != nil || len(claimed) == 0 {
		return nil, false, err
	}
	endpoints, err = loadOrRelease(ctx, s, c, claimed, now)
	return endpoints, len(claimed) == maxClaim && len(endpoints) > 0, err
}

// loadOrRelease loads claimed webhooks. If it cannot, it releases them.
func loadOrRelease(ctx context.Context, s *store, c *scheduler.Claim, claimed []scheduler.Key, now time.Time) ([]scheduler.Loaded, error) {
	endpoints, err := s.loadClaimed(ctx, claimed)
	if err != nil {
		// ctx may have timed out, so the release gets more time. If it fails too, the webhooks are
		// held only in the database until the next renewal of the lease finds them.
		releasing, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTimeout)
		defer cancel()
		return nil, errors.Join(err, s.release(releasing, c.Lease, unmoved(claimed), now))
	}
	return endpoints, nil
}

// loadClaimed loads webhooks with the positions after their cursors that were sent before. It also
// cancels outdated deliveries.
func (s *store) loadClaimed(ctx context.Context, claimed []scheduler.Key) ([]scheduler.Loaded, error) {
	rows, err := s.load(ctx, claimed)
	if err != nil {
		return nil, err
	}
	for i := range rows {
		if rows[i].outdated {
			if err := s.cancelOutdated(ctx, rows[i].Key); err != nil {
				return nil, err
			}
		}
	}
	sent, err := s.readJournal(ctx, rows)
	if err != nil {
		return nil, err
	}
	endpoints := make([]scheduler.Loaded, len(rows))
	for i := range rows {
		endpoints[i] = rows[i].Loaded
		endpoints[i].Sent = sent[rows[i].Key]
	}
	return endpoints, nil
}

// releaseTimeout bounds the release of the lease, and of webhooks that were claimed and could not be
// loaded. Other processes take over without it when the lease ends.
const releaseTimeout = 5 * time.Second

// free is an SQL condition: no living process holds cursor c.
const free = `(c.holder IS NULL OR NOT EXISTS (SELECT FROM webhook_instance i WHERE i.instance_id = c.holder AND ` + holds + `))`

// KeptEpoch is an SQL expression: the first epoch of webhook w whose results and pending deliveries
// still count. Pausing raises the epoch, so that a process of any program version releases the
// webhook, but deliveries that were pending before stay valid.
const KeptEpoch = `CASE WHEN w.epoch = w.pause_epoch THEN w.kept_epoch ELSE w.epoch END`

// claim takes the webhooks that may have work and that no process holds, at most maxClaim. If a
// webhook is off or paused, its only work is what a person sends by hand. That has the current
// epoch, which is the highest, so the statement finds it without reading what else is pending for a
// paused webhook, which may be a lot. Both lookups use an index by webhook; see PoolSettings.
func (s *store) claim(ctx context.Context, c *scheduler.Claim, now time.Time) ([]scheduler.Key, error) {
	ws, hs := split(c.Keys)
	_, not := split(c.Except)
	return s.keys(ctx, "claim webhooks", `
		WITH wanted AS (
		    SELECT c.workspace_id, c.webhook_id FROM webhook_cursor c WHERE c.workspace_id = ANY ($2)
		    UNION
		    SELECT * FROM unnest($3::text[], $4::text[])
		), locked AS MATERIALIZED (
		    SELECT c.workspace_id, c.webhook_id
		      FROM wanted n
		      JOIN webhook_cursor c ON c.workspace_id = n.workspace_id AND c.webhook_id = n.webhook_id
		      JOIN webhook w ON w.workspace_id = c.workspace_id AND w.webhook_id = c.webhook_id
		      JOIN log_checkpoint v ON v.workspace_id = c.workspace_id AND v.consumer = 'read_models'
		     WHERE `+free+` AND c.webhook_id <> ALL ($6)
		       AND EXISTS (SELECT FROM webhook_instance i WHERE i.instance_id = $1 AND `+holds+`)
		       AND CASE WHEN w.state = 'on' THEN v.position > c.position OR c.replay_until IS NOT NULL OR (
		                SELECT q.next_attempt_at FROM webhook_waiting q
		                 WHERE q.workspace_id = c.workspace_id AND q.webhook_id BETWEEN c.webhook_id AND c.webhook_id
		                 ORDER BY q.webhook_id, q.next_attempt_at LIMIT 1) <= $5
		           ELSE w.epoch = (
		                SELECT q.epoch FROM webhook_waiting q
		                 WHERE q.workspace_id = c.workspace_id AND q.webhook_id BETWEEN c.webhook_id AND c.webhook_id
		                 ORDER BY q.webhook_id DESC, q.epoch DESC LIMIT 1) END
		     LIMIT $7
		       FOR UPDATE OF c SKIP LOCKED)
		UPDATE webhook_cursor c SET holder = $1 FROM locked l
		 WHERE c.workspace_id = l.workspace_id AND c.webhook_id = l.webhook_id
		RETURNING c.workspace_id, c.webhook_id`,
		c.Lease, c.WorkspaceIDs, ws, hs, now, not, maxClaim)
}

// webhookRow is a webhook as stored in its rows.
type webhookRow struct {
	scheduler.Loaded
	outdated bool // it has pending deliveries that must be cancelled
}

// outdatedSQL is an SQL condition: webhook w has deliveries that must be cancelled. The oldest of
// them comes first in its index; see PoolSettings.
const outdatedSQL = `coalesce((
	SELECT q.epoch FROM webhook_waiting q WHERE q.workspace_id = w.workspace_id AND q.webhook_id = w.webhook_id
	 ORDER BY q.epoch LIMIT 1) < ` + KeptEpoch + `, false)`

// load reads webhooks. Those that do not exist are missing from the result.
func (s *store) load(ctx context.Context, keys []scheduler.Key) ([]webhookRow, error) {
	ws, hs := split(keys)
	list, err := pg.Collect(ctx, s.pool, s.scanWebhook, `
		SELECT w.workspace_id, w.webhook_id, w.url, w.name, w.events, w.state = 'on', w.state = 'paused', w.standard_headers, w.version, w.url_version, w.epoch, `+KeptEpoch+`,
		       w.secret, w.old_secret, w.old_secret_until, w.older_secrets, w.older_secrets_until, w.failing_since, w.failures, w.warned,
		       c.position, coalesce(c.replay_position, 0), coalesce(c.replay_until, 0),
		       `+outdatedSQL+`
		  FROM unnest($1::text[], $2::text[]) AS k (w, h)
		  JOIN webhook w ON w.workspace_id = k.w AND w.webhook_id = k.h
		  JOIN webhook_cursor c ON c.workspace_id = k.w AND c.webhook_id = k.h`, ws, hs)
	if err != nil {
		return nil, fmt.Errorf("load webhooks: %w", err)
	}
	return list, nil
}

func (s *store) scanWebhook(row pgx.CollectableRow) (w webhookRow, err error) {
	var (
		e              = &scheduler.Endpoint{}
		secret, old    []byte
		oldUntil       *time.Time
		older          [][]byte
		olderUntil     []time.Time
		failing        *time.Time
		workspaceID    = &w.Key.WorkspaceID
		webhookID      = &w.Key.WebhookID
		position, from = &w.Position, &w.ReplayAfter
	)
	err = row.Scan(workspaceID, webhookID, &e.Address, &e.Name, &e.Events, &e.On, &e.Paused, &e.Standard, &e.Version, &e.AddressVersion, &e.Epoch, &e.Kept,
		&secret, &old, &oldUntil, &older, &olderUntil, &failing, &w.Health.Memory, &w.Health.Warned, position, from, &w.ReplayTo, &w.outdated)
	if err != nil {
		return w, err
	}
	w.Endpoint = e
	if failing != nil {
		w.Health.FailingSince = failing.UTC()
	}
	if e.URL, err = url.Parse(e.Address); err != nil {
		// The error of url.Parse names the whole address, which may hold a token.
		e.URL, e.Broken = &url.URL{}, fmt.Errorf("the address of %s cannot be read: edit the webhook", *webhookID)
	}
	if e.Secret, err = s.keyring.Open(*workspaceID, *webhookID, secret); err != nil {
		e.Broken = err
	}
	if old != nil && oldUntil != nil {
		older, olderUntil = slices.Insert(older, 0, old), slices.Insert(olderUntil, 0, *oldUntil)
	}
	for i, box := range older {
		// If an old secret cannot be opened, the others still sign.
		if text, err := s.keyring.Open(*workspaceID, *webhookID, box); err == nil {
			e.Old = append(e.Old, scheduler.OldSecret{Secret: text, Until: olderUntil[i]})
		}
	}
	return w, nil
}

// readJournal returns the positions after each webhook's cursor that were sent before.
func (s *store) readJournal(ctx context.Context, webhooks []webhookRow) (map[scheduler.Key]map[int64]struct{}, error) {
	keys, after := make([]scheduler.Key, len(webhooks)), make([]int64, len(webhooks))
	for i := range webhooks {
		keys[i], after[i] = webhooks[i].Key, webhooks[i].Position
	}
	ws, hs := split(keys)
	sql := `
		SELECT k.w, k.h, d.position
		  FROM unnest($1::text[], $2::text[], $3::bigint[]) AS k (w, h, after)
		 CROSS JOIN LATERAL (
		       SELECT d.position FROM webhook_delivery d
		        WHERE d.workspace_id = k.w AND d.webhook_id = k.h AND d.position > k.after ORDER BY d.position) AS d`
	sent := map[scheduler.Key]map[int64]struct{}{}
	var (
		k scheduler.Key
		p int64
	)
	err := pg.ForEach(ctx, s.pool, sql, []any{ws, hs, after}, []any{&k.WorkspaceID, &k.WebhookID, &p}, func() error {
		if sent[k] == nil {
			sent[k] = map[int64]struct{}{}
		}
		sent[k][p] = struct{}{}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read what was sent before: %w", err)
	}
	return sent, nil
}

// cancelChunk is how many deliveries one statement cancels.
const cancelChunk = 5000

// cancelOutdated cancels deliveries that are pending from before a webhook was last turned off or
// on. If another transaction has locked some, it leaves the rest to the next sweep.
func (s *store) cancelOutdated(ctx context.Context, k scheduler.Key) error {
	for {
		var n int
		err := pg.InLimitedTx(ctx, s.pool, lockTimeout, func(tx pgx.Tx) error {
			return tx.QueryRow(ctx, `SELECT webhook_cancel($1, $2, $3)`, k.WorkspaceID, k.WebhookID, cancelChunk).Scan(&n)
		})
		if pg.Locked(err) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("cancel the pending deliveries of %s: %w", k.WebhookID, err)
		}
		if n < cancelChunk {
			return nil
		}
	}
}

// unmoved returns releases that do not move cursors: their epoch matches no row.
func unmoved(keys []scheduler.Key) []scheduler.CursorRecord {
	list := make([]scheduler.CursorRecord, len(keys))
	for i, k := range keys {
		list[i] = scheduler.CursorRecord{Key: k, Epoch: -1, Version: -1}
	}
	return list
}

// release releases webhooks and stores their cursors.
func (s *store) release(ctx context.Context, lease string, list []scheduler.CursorRecord, now time.Time) error {
	sql := moveCursors(`holder = NULL, `, `
		   AND EXISTS (SELECT FROM webhook_instance i WHERE i.instance_id = $1 AND `+holds+`) AND `+eventlog.RightClock("$10"))
	if err := s.limited(ctx, sql, append(cursorArguments(lease, list), now)...); err != nil {
		return fmt.Errorf("release webhooks: %w", err)
	}
	return nil
}

const (
	// renewals is how many times a lease is renewed while it lasts, unless Config.Renew says
	// otherwise.
	renewals = 6
	// clockPause is the pause after no lease could be taken because the clock is wrong.
	clockPause = 5 * time.Second
)

// keepLease renews the lease until ctx ends, and takes a new one when the scheduler asks for it. It
// returns the last lease.
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
			d.outages.renewing.LogTransition(ctx, nil)
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
			d.outages.renewing.LogTransition(ctx, err)
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
			d.outages.taking.LogTransition(ctx, nil)
			d.logger.WarnContext(ctx, "this process lost its lease for delivering; it has taken a new one and claims webhooks again")
			d.post(scheduler.LeaseTaken{Lease: lease, At: at})
			return lease
		}
		if isClockError(err) {
			d.logger.ErrorContext(ctx, "cannot deliver", "error", err, "retry_in", clockPause)
			flow.Sleep(ctx, clockPause)
			continue
		}
		if ctx.Err() == nil {
			d.outages.taking.LogTransition(ctx, err)
		}
		flow.Sleep(ctx, 4*retryPause)
	}
	return old
}

// keep stores a copy of a text, because the caller may change its variable.
func keep(in *atomic.Pointer[string], text string) { in.Store(&text) }

// signal puts a token into a channel that has room for one.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// reconcile releases webhooks that are held under the lease in the database and unknown to the
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

// takeLease inserts a lease under a new name. Webhooks of an older lease are free when that one
// ends. The error is a *clockError if the clock is wrong, and a *keyring.MissingError if the
// process lacks the key that seals: it could not open secrets to sign with them.
func (s *store) takeLease(ctx context.Context, now time.Time) (lease string, err error) {
	if err := s.checkClock(ctx, now); err != nil {
		return "", err
	}
	lease = uuid.NewString()
	err = pg.InLimitedTx(ctx, s.leases(), s.leaseTime/renewals, func(tx pgx.Tx) error {
		if err := keyring.Hold(ctx, tx, s.keyring, now); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, `
			INSERT INTO webhook_instance (instance_id, lease_until, secret_keys, of_table) VALUES ($1, statement_timestamp() + $2, $3, 'webhook_instance'::regclass)`, lease, s.leaseTime, s.fingerprints())
		return err //nolint:wrapcheck // wrapped below
	})
	if err != nil {
		return "", fmt.Errorf("take a lease for delivering: %w", err)
	}
	return lease, nil
}

// fingerprints returns the fingerprints of the process's keys. A rotation of the key checks them.
func (s *store) fingerprints() [][]byte {
	var list [][]byte
	for _, f := range s.keyring.Fingerprints() {
		list = append(list, f[:])
	}
	return list
}

var errLeaseOver = errors.New("the lease is over: other processes may have taken over its webhooks")

// codeLeaseOver is the SQLSTATE with which webhook_lease reports the same error.
const codeLeaseOver = "LF007"

func leaseIsOver(err error) bool {
	var pe *pgconn.PgError
	return errors.Is(err, errLeaseOver) || errors.As(err, &pe) && pe.Code == codeLeaseOver
}

// renewLease extends the lease. The error satisfies leaseIsOver if it is too late or the clock is
// wrong, and pg.Locked if another transaction has locked the lease's row. orphans counts the
// webhooks of processes that died.
//
// A statement of its own waits for the row. The time of the UPDATE is therefore the time after the
// wait, so that a lease that ended meanwhile is not renewed.
func (s *store) renewLease(ctx context.Context, lease string, now time.Time) (c scheduler.Census, orphans int, err error) {
	b := &pgx.Batch{}
	b.Queue(`SELECT set_config('lock_timeout', $1, true)`, pg.Milliseconds(s.leaseTime/renewals))
	b.Queue(`SELECT FROM webhook_instance WHERE workspace_id = '*' AND instance_id = $1 FOR NO KEY UPDATE`, lease)
	b.Queue(`
		WITH me AS (
		    UPDATE webhook_instance i SET lease_until = statement_timestamp() + $2
		     WHERE i.instance_id = $1 AND `+holds+` AND `+eventlog.RightClock("$3")+` RETURNING 1)
		SELECT (SELECT count(*) FROM webhook_instance i WHERE `+holds+`),
		       (SELECT count(*) FROM webhook_cursor WHERE holder IS NOT NULL),
		       (SELECT count(*) FROM webhook_cursor WHERE holder = $1),
		       (SELECT count(*) FROM webhook_cursor c WHERE c.holder IS NOT NULL AND `+free+`)
		  FROM me`, lease, s.leaseTime, now).QueryRow(func(row pgx.Row) error {
		return row.Scan(&c.Processes, &c.Held, &c.Mine, &orphans)
	})
	err = s.leases().SendBatch(ctx, b).Close()
	if errors.Is(err, pgx.ErrNoRows) {
		return c, 0, errLeaseOver
	}
	if err != nil {
		return c, 0, fmt.Errorf("renew the lease for delivering: %w", err)
	}
	return c, orphans, nil
}

// dropLease gives up a lease and with it all its webhooks. It also deletes the leases of processes
// that died long ago. A lease whose row another transaction has locked stays until it expires.
func (s *store) dropLease(ctx context.Context, lease string) error {
	_, err := s.leases().Exec(ctx, `
		DELETE FROM webhook_instance
		 WHERE workspace_id = '*' AND instance_id IN (
		       SELECT instance_id FROM webhook_instance
		        WHERE workspace_id = '*' AND (instance_id = $1 OR lease_until < statement_timestamp() - interval '1 hour')
		          FOR UPDATE SKIP LOCKED)`, lease)
	if err != nil {
		return fmt.Errorf("give up the lease for delivering: %w", err)
	}
	return nil
}
