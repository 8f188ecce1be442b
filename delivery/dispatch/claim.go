package dispatch

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/delivery/dispatch/scheduler"
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
			d.outages.claiming.Note(ctx, err)
		}
		flow.Pause(ctx, retryPause)
		return scheduler.ClaimFailed{Claim: c}
	default:
		d.outages.claiming.Note(ctx, nil)
	}
	return scheduler.Claimed{Claim: c, Endpoints: endpoints, More: more}
}

// maxClaim is how many webhooks one claim takes. All of them are loaded within the time of
// one statement.
const maxClaim = 500

// claimAndLoad takes webhooks and loads them; more tells whether others may be left that
// can be claimed at once.
func (s *store) claimAndLoad(ctx context.Context, c *scheduler.Claim, now time.Time) (endpoints []scheduler.Loaded, more bool, err error) {
	claimed, err := s.claim(ctx, c, now)
	if err != nil || len(claimed) == 0 {
		return nil, false, err
	}
	endpoints, err = loadOrRelease(ctx, s, c, claimed, now)
	return endpoints, len(claimed) == maxClaim && len(endpoints) > 0, err
}

// loadOrRelease loads webhooks that were claimed, and gives back those that it cannot load.
func loadOrRelease(ctx context.Context, s *store, c *scheduler.Claim, claimed []scheduler.Key, now time.Time) ([]scheduler.Loaded, error) {
	endpoints, err := s.loadClaimed(ctx, claimed)
	if err != nil {
		// The time of the statements before may be over. If this fails too they are
		// held in the database only, until the next renewal of the lease finds that.
		releasing, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTimeout)
		defer cancel()
		return nil, errors.Join(err, s.release(releasing, c.Lease, unmoved(claimed), now))
	}
	return endpoints, nil
}

// loadClaimed loads webhooks and what was sent to them before.
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

// releaseTimeout bounds how long webhooks are given back that were claimed and could not be
// loaded.
const releaseTimeout = 5 * time.Second

// free is true of a cursor c that no living process holds.
const free = `(c.holder IS NULL OR NOT EXISTS (SELECT FROM webhook_instance i WHERE i.instance_id = c.holder AND ` + holds + `))`

// KeptEpoch is, in SQL, the epoch of a webhook w since which what was decided or is pending
// still counts. Pausing raises the epoch, so that a process gives the webhook back whatever
// version of the program it runs, but what is pending from before stays valid.
const KeptEpoch = `CASE WHEN w.epoch = w.pause_epoch THEN w.kept_epoch ELSE w.epoch END`

// claim takes those of the webhooks that may have something to do and that no
// process holds, at most maxClaim. A webhook that is off or paused can only have to do what a person
// sends by hand, which has its present epoch: the highest, found
// without a look at what else is pending for one that is paused, which may be much. Both looks
// go along an index of the webhook alone; see PoolSettings.
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

// webhookRow is a webhook as its rows have it.
type webhookRow struct {
	scheduler.Loaded
	outdated bool // deliveries are pending that must be cancelled
}

// outdatedSQL is true of a webhook w that has deliveries which must be cancelled. The oldest of
// them is the first along its index; see PoolSettings.
const outdatedSQL = `coalesce((
	SELECT q.epoch FROM webhook_waiting q WHERE q.workspace_id = w.workspace_id AND q.webhook_id = w.webhook_id
	 ORDER BY q.epoch LIMIT 1) < ` + KeptEpoch + `, false)`

// load reads webhooks. Those that do not exist are missing from the result.
func (s *store) load(ctx context.Context, keys []scheduler.Key) ([]webhookRow, error) {
	ws, hs := split(keys)
	rows, err := s.pool.Query(ctx, `
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
	list, err := pgx.CollectRows(rows, s.scanWebhook)
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
		// Without an old secret messages are still signed with the others.
		if text, err := s.keyring.Open(*workspaceID, *webhookID, box); err == nil {
			e.Old = append(e.Old, scheduler.OldSecret{Secret: text, Until: olderUntil[i]})
		}
	}
	return w, nil
}

// readJournal reads which positions after each webhook's cursor were sent before.
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
	rows, err := s.pool.Query(ctx, sql, ws, hs, after)
	if err != nil {
		return nil, fmt.Errorf("read what was sent before: %w", err)
	}
	sent := map[scheduler.Key]map[int64]struct{}{}
	var (
		k scheduler.Key
		p int64
	)
	_, err = pgx.ForEachRow(rows, []any{&k.WorkspaceID, &k.WebhookID, &p}, func() error {
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

// cancelOutdated cancels deliveries that are pending from before a webhook was last
// turned off or on. Those that another transaction has locked are left to the next sweep.
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

// unmoved are releases that do not move cursors: their epoch matches no row.
func unmoved(keys []scheduler.Key) []scheduler.CursorRecord {
	list := make([]scheduler.CursorRecord, len(keys))
	for i, k := range keys {
		list[i] = scheduler.CursorRecord{Key: k, Epoch: -1, Version: -1}
	}
	return list
}

// release gives webhooks back, with their cursors where they belong.
func (s *store) release(ctx context.Context, lease string, list []scheduler.CursorRecord, now time.Time) error {
	var (
		n                = len(list)
		ws, hs           = make([]string, n), make([]string, n)
		epochs, versions = make([]int, n), make([]int, n)
		done, replayed   = make([]int64, n), make([]int64, n)
		expired          = make([]int64, n)
		replayExpired    = make([]int64, n)
	)
	for i, r := range list {
		ws[i], hs[i], epochs[i], versions[i], done[i], replayed[i] = r.Key.WorkspaceID, r.Key.WebhookID, r.Epoch, r.Version, r.Position, r.Replayed
		expired[i], replayExpired[i] = r.Expired, r.ReplayExpired
	}
	err := s.limited(ctx, `
		UPDATE webhook_cursor c
		   SET holder = NULL,
		       expired = c.expired + CASE WHEN w.epoch = m.epoch AND m.done > c.position THEN m.expired ELSE 0 END
		               + CASE WHEN w.version = m.version AND m.replay > c.replay_position THEN m.replay_expired ELSE 0 END,
		       position = CASE WHEN w.epoch = m.epoch THEN greatest(c.position, m.done) ELSE c.position END,
		       replay_position = CASE WHEN w.version <> m.version OR m.replay = 0 THEN c.replay_position
		                              WHEN m.replay < c.replay_until THEN m.replay END,
		       replay_until = CASE WHEN w.version = m.version AND m.replay > 0 AND m.replay >= c.replay_until THEN NULL ELSE c.replay_until END
		  FROM unnest($2::text[], $3::text[], $4::integer[], $5::integer[], $6::bigint[], $7::bigint[], $8::bigint[], $9::bigint[])
		       AS m (w, h, epoch, version, done, replay, expired, replay_expired)
		  JOIN webhook w ON w.workspace_id = m.w AND w.webhook_id = m.h
		 WHERE c.workspace_id = m.w AND c.webhook_id = m.h AND c.holder IS NOT DISTINCT FROM $1
		   AND EXISTS (SELECT FROM webhook_instance i WHERE i.instance_id = $1 AND `+holds+`) AND `+eventlog.RightClock("$10"),
		lease, ws, hs, epochs, versions, done, replayed, expired, replayExpired, now)
	if err != nil {
		return fmt.Errorf("release webhooks: %w", err)
	}
	return nil
}
