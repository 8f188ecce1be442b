package dispatch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/delivery/dispatch/scheduler"
	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
)

// On a Citus cluster what is for many webhooks is done node by node, and there by a statement
// for each workspace or webhook, many in one round trip: Citus plans those that lock, and those
// that read a few rows of each of several, for one workspace only. Leases are rows of the
// coordinator, which cannot be joined with webhooks. On one PostgreSQL a statement is for many
// webhooks, because one for each costs twice as many a delivery.

// claimByNode claims the webhooks of each node.
func claimByNode(ctx context.Context, s *store, c *scheduler.Claim, now time.Time) (endpoints []scheduler.Loaded, more bool, err error) {
	var mu sync.Mutex
	failures, err := s.nodes.Each(ctx, workspacesOf(c), func(ctx context.Context, workspaces []string) error {
		part := &scheduler.Claim{Lease: c.Lease, Except: c.Except}
		here := make(map[string]bool, len(workspaces))
		for _, w := range workspaces {
			here[w] = true
		}
		for _, w := range c.WorkspaceIDs {
			if here[w] {
				part.WorkspaceIDs = append(part.WorkspaceIDs, w)
			}
		}
		for _, k := range c.Keys {
			if here[k.WorkspaceID] {
				part.Keys = append(part.Keys, k)
			}
		}
		some, left, err := claimOnNode(ctx, s, part, now)
		mu.Lock()
		defer mu.Unlock()
		endpoints, more = append(endpoints, some...), more || left
		return err
	})
	if err != nil {
		return nil, false, err
	}
	for i := range failures {
		err = errors.Join(err, failures[i].Err)
	}
	return endpoints, more, err
}

// workspacesOf are the workspaces that a claim is about.
func workspacesOf(c *scheduler.Claim) []string {
	among := slices.Clone(c.WorkspaceIDs)
	for _, k := range c.Keys {
		among = append(among, k.WorkspaceID)
	}
	slices.Sort(among)
	return slices.Compact(among)
}

// claimAtOnce is how many workspaces a transaction of a claim is for.
const claimAtOnce = 64

// claimOnNode takes those of the webhooks of one node that may have something to do and that no
// process holds, about maxClaim, and loads them; more tells whether others may be left.
func claimOnNode(ctx context.Context, s *store, c *scheduler.Claim, now time.Time) (endpoints []scheduler.Loaded, more bool, err error) {
	workspaces := workspacesOf(c)
	over, err := leasesOver(ctx, s.pool, workspaces, c.Lease)
	if leaseIsOver(err) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	named := map[string][]string{}
	for _, k := range c.Keys {
		named[k.WorkspaceID] = append(named[k.WorkspaceID], k.WebhookID)
	}
	for _, w := range c.WorkspaceIDs {
		delete(named, w) // all of its webhooks
	}
	_, except := split(c.Except)
	var claimed []scheduler.Key
	for len(workspaces) > 0 && len(claimed) < maxClaim {
		some := workspaces[:min(claimAtOnce, len(workspaces))]
		workspaces = workspaces[len(some):]
		each := max(1, (maxClaim-len(claimed))/len(some))
		b := &pgx.Batch{}
		var got []scheduler.Key
		for _, w := range some {
			b.Queue(claimOneSQL, c.Lease, w, over, now, except, each, named[w]).Query(func(rows pgx.Rows) error {
				ids, err := pgx.CollectRows(rows, pgx.RowTo[string])
				for _, id := range ids {
					got = append(got, scheduler.Key{WorkspaceID: w, WebhookID: id})
				}
				more = more || len(ids) == each
				return err
			})
		}
		if err = inLimitedTx(ctx, s, b); err != nil {
			err = fmt.Errorf("claim webhooks: %w", err)
			break
		}
		claimed = append(claimed, got...)
	}
	more = more || len(workspaces) > 0 && err == nil
	if len(claimed) == 0 {
		return nil, false, err
	}
	endpoints, failed := loadOrRelease(ctx, s, c, claimed, now)
	return endpoints, more && len(endpoints) > 0, errors.Join(err, failed)
}

// claimOneSQL takes at most $6 webhooks of workspace $2, those named $7 or, if that is null, of
// all, as the claim of many does. $3 are the leases that are over.
const claimOneSQL = `
	WITH locked AS MATERIALIZED (
	    SELECT c.webhook_id
	      FROM webhook_cursor c
	      JOIN webhook w ON w.workspace_id = c.workspace_id AND w.webhook_id = c.webhook_id
	      JOIN log_checkpoint v ON v.workspace_id = c.workspace_id AND v.consumer = 'read_models'
	     WHERE c.workspace_id = $2 AND ` + freeOf + ` AND c.webhook_id <> ALL ($5) AND ($7::text[] IS NULL OR c.webhook_id = ANY ($7))
	       AND CASE WHEN w.state = 'on' THEN v.position > c.position OR c.replay_until IS NOT NULL OR EXISTS (
	                SELECT 1 FROM webhook_waiting q
	                 WHERE q.workspace_id = $2 AND q.webhook_id = c.webhook_id AND q.next_attempt_at <= $4)
	           ELSE w.epoch = (
	                SELECT max(q.epoch) FROM webhook_waiting q
	                 WHERE q.workspace_id = $2 AND q.webhook_id = c.webhook_id) END
	     LIMIT $6
	       FOR UPDATE OF c SKIP LOCKED)
	UPDATE webhook_cursor c SET holder = $1 FROM locked l
	 WHERE c.workspace_id = $2 AND c.webhook_id = l.webhook_id
	RETURNING c.webhook_id`

// freeOf is true of a cursor c that no living process holds, where $3 are the leases that are
// over.
const freeOf = `(c.holder IS NULL OR c.holder = ANY ($3::text[]))`

// queryer is a pool, a connection or a transaction.
type queryer interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// leasesOver are the leases that webhooks of workspaces (nil: all) are held under and that are
// over. Who holds webhooks is asked first: a lease that holds one and is not among those which
// last is over, and stays so. One that was taken meanwhile holds none of them. The error
// satisfies leaseIsOver unless the leases that are named last.
func leasesOver(ctx context.Context, db queryer, workspaces []string, lasting ...string) (over []string, err error) {
	holders, err := texts(ctx, db, `SELECT DISTINCT c.holder FROM webhook_cursor c WHERE c.holder IS NOT NULL`+among("$1", workspaces, "c"), argsOf(workspaces)...)
	if err != nil {
		return nil, fmt.Errorf("look for holders of webhooks: %w", err)
	}
	living, err := texts(ctx, db, `SELECT i.instance_id FROM webhook_instance i WHERE `+holds)
	if err != nil {
		return nil, fmt.Errorf("look for leases that last: %w", err)
	}
	for _, l := range lasting {
		if !slices.Contains(living, l) {
			return nil, errLeaseOver
		}
	}
	return slices.DeleteFunc(holders, func(h string) bool { return slices.Contains(living, h) }), nil
}

// texts are the values of a query's one column.
func texts(ctx context.Context, db queryer, sql string, args ...any) ([]string, error) {
	rows, err := db.Query(ctx, sql, args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}

// among is the condition that rows of tables are of workspaces, by the name of each table; none
// where they are nil.
func among(parameter string, workspaces []string, tables ...string) (sql string) {
	if workspaces == nil {
		return ""
	}
	for _, t := range tables {
		sql += " AND " + t + ".workspace_id = ANY (" + parameter + ")"
	}
	return sql
}

// argsOf are the arguments of among.
func argsOf(workspaces []string) []any {
	if workspaces == nil {
		return nil
	}
	return []any{workspaces}
}

// renewOnCluster is renewLease. The lease is renewed before webhooks are counted, which may need
// a node that is away: those of the others are counted then.
func renewOnCluster(ctx context.Context, s *store, lease string, now time.Time) (c scheduler.Census, orphans int, err error) {
	err = pg.InLimitedTx(ctx, s.pool, s.leaseTime/renewals, func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, `
			UPDATE webhook_instance i SET lease_until = clock_timestamp() + $2
			 WHERE i.workspace_id = '*' AND i.instance_id = $1 AND `+holds+` AND `+eventlog.RightClock("$3"), lease, s.leaseTime, now)
		if err != nil {
			return fmt.Errorf("write it: %w", err)
		}
		if tag.RowsAffected() == 0 {
			return errLeaseOver
		}
		return nil
	})
	if err != nil {
		return c, 0, fmt.Errorf("renew the lease for delivering: %w", err)
	}
	held, err := countHeld(ctx, s)
	if err != nil && !pg.NodeAway(err) {
		return c, 0, err
	}
	living, err := texts(ctx, s.pool, `SELECT i.instance_id FROM webhook_instance i WHERE `+holds)
	if err != nil {
		return c, 0, fmt.Errorf("look for leases that last: %w", err)
	}
	c.Processes, c.Mine = len(living), held[lease]
	for holder, n := range held {
		c.Held += n
		if !slices.Contains(living, holder) {
			orphans += n
		}
	}
	return c, orphans, nil
}

// countHeld counts the webhooks that are held under each lease.
func countHeld(ctx context.Context, s *store) (map[string]int, error) {
	var mu sync.Mutex
	held := map[string]int{}
	err := s.nodes.Everywhere(ctx, func(ctx context.Context, workspaces []string) error {
		rows, err := s.pool.Query(ctx, `
			SELECT c.holder, count(*) FROM webhook_cursor c WHERE c.holder IS NOT NULL`+among("$1", workspaces, "c")+` GROUP BY c.holder`, argsOf(workspaces)...)
		if err != nil {
			return fmt.Errorf("count the webhooks that are held: %w", err)
		}
		var (
			counted = map[string]int{}
			holder  string
			n       int
		)
		if _, err = pgx.ForEachRow(rows, []any{&holder, &n}, func() error {
			counted[holder] = n
			return nil
		}); err != nil {
			return fmt.Errorf("count the webhooks that are held: %w", err)
		}
		mu.Lock()
		defer mu.Unlock()
		for holder, n := range counted {
			held[holder] += n
		}
		return nil
	})
	return held, err
}

// releaseByOne is release.
func releaseByOne(ctx context.Context, s *store, lease string, list []scheduler.CursorRecord, now time.Time) error {
	if len(list) == 0 {
		return nil
	}
	b := &pgx.Batch{}
	queueLease(b, lease, now)
	for i := range list {
		r := &list[i]
		b.Queue(releaseOneSQL, lease, r.Key.WorkspaceID, r.Key.WebhookID, r.Epoch, r.Version, r.Position, r.Replayed, r.Expired, r.ReplayExpired)
	}
	if err := inLimitedTx(ctx, s, b); err != nil && !leaseIsOver(err) {
		return fmt.Errorf("release webhooks: %w", err)
	}
	return nil
}

const releaseOneSQL = `
	UPDATE webhook_cursor c
	   SET holder = NULL,
	       expired = c.expired + CASE WHEN w.epoch = $4::integer AND $6::bigint > c.position THEN $8::bigint ELSE 0 END
	               + CASE WHEN w.version = $5::integer AND $7::bigint > c.replay_position THEN $9::bigint ELSE 0 END,
	       position = CASE WHEN w.epoch = $4 THEN greatest(c.position, $6) ELSE c.position END,
	       replay_position = CASE WHEN w.version <> $5 OR $7 = 0 THEN c.replay_position
	                              WHEN $7 < c.replay_until THEN $7 END,
	       replay_until = CASE WHEN w.version = $5 AND $7 > 0 AND $7 >= c.replay_until THEN NULL ELSE c.replay_until END
	  FROM webhook w
	 WHERE w.workspace_id = $2 AND w.webhook_id = $3
	   AND c.workspace_id = $2 AND c.webhook_id = $3 AND c.holder = $1`

// queueLease makes a batch fail where the lease is over or the clock is wrong, with an error
// that satisfies leaseIsOver.
func queueLease(b *pgx.Batch, lease string, now time.Time) {
	b.Queue(`SELECT webhook_lease(CASE WHEN `+eventlog.RightClock("$2")+` THEN $1 ELSE '' END)`, lease, now)
}
