package delivery

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// errLeaseOver means that others may have taken this process's webhooks over.
var errLeaseOver = errors.New("the lease of this process is over")

// codeLeaseOver is webhook_record's SQLSTATE for it.
const codeLeaseOver = "LF007"

// rows is the engine's view of the database.
type rows struct {
	pool    *pgxpool.Pool
	keyring *Keyring
	lease   time.Duration
	self    string // this process's row in webhook_instance; changes when a lease was lost
}

// enlist makes a new lease for this process, under a new name: what an older
// one held is nobody's once that is over.
func (r *rows) enlist(ctx context.Context) error {
	self := uuid.NewString()
	_, err := r.pool.Exec(ctx, `
		INSERT INTO webhook_instance (instance_id, lease_until) VALUES ($1, clock_timestamp() + $2)`, self, r.lease)
	if err != nil {
		return fmt.Errorf("take a lease for delivering: %w", err)
	}
	r.self = self
	return nil
}

// census is what an instance learns when it renews its lease.
type census struct {
	instances  int // that live, with this one
	held, mine int // webhooks
	orphans    int // webhooks of those that died
}

// renew prolongs the lease; the error is errLeaseOver when it is too late.
func (r *rows) renew(ctx context.Context) (census, error) {
	var c census
	err := r.pool.QueryRow(ctx, `
		WITH me AS (
		    UPDATE webhook_instance SET lease_until = clock_timestamp() + $2
		     WHERE workspace_id = '*' AND instance_id = $1 AND lease_until > clock_timestamp() RETURNING 1)
		SELECT (SELECT count(*) FROM webhook_instance WHERE workspace_id = '*' AND lease_until > clock_timestamp()),
		       (SELECT count(*) FROM webhook_cursor WHERE holder IS NOT NULL),
		       (SELECT count(*) FROM webhook_cursor WHERE holder = $1),
		       (SELECT count(*) FROM webhook_cursor c WHERE c.holder IS NOT NULL AND `+free+`)
		  FROM me`, r.self, r.lease).Scan(&c.instances, &c.held, &c.mine, &c.orphans)
	if errors.Is(err, pgx.ErrNoRows) {
		return c, errLeaseOver
	}
	if err != nil {
		return c, fmt.Errorf("renew the lease for delivering: %w", err)
	}
	return c, nil
}

// retire gives the lease up, and with it every webhook at once.
func (r *rows) retire(ctx context.Context) error {
	// Rows of processes that died are of no use after a while either.
	_, err := r.pool.Exec(ctx, `
		DELETE FROM webhook_instance
		 WHERE workspace_id = '*' AND (instance_id = $1 OR lease_until < clock_timestamp() - interval '1 hour')`, r.self)
	if err != nil {
		return fmt.Errorf("give up the lease for delivering: %w", err)
	}
	return nil
}

func leaseOver(err error) bool {
	var pe *pgconn.PgError
	return errors.Is(err, errLeaseOver) || errors.As(err, &pe) && pe.Code == codeLeaseOver
}

// free is true of a cursor c that nobody living holds.
const free = `(c.holder IS NULL OR NOT EXISTS (
	SELECT FROM webhook_instance i WHERE i.workspace_id = '*' AND i.instance_id = c.holder AND i.lease_until > clock_timestamp()))`

// claim takes those of the webhooks, named or of the workspaces, that may have
// something to do and are held by nobody; those in except are left to others.
// All that one which is off can have to do is "Send again".
func (r *rows) claim(ctx context.Context, workspaces []string, keys, except []key, now time.Time) ([]key, error) {
	ws, hs := split(keys)
	_, not := split(except)
	return r.keys(ctx, "claim webhooks", `
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
		       AND EXISTS (SELECT FROM webhook_instance me
		                    WHERE me.workspace_id = '*' AND me.instance_id = $1 AND me.lease_until > clock_timestamp())
		       AND (w.state = 'on' AND (v.position > c.position OR c.replay_until IS NOT NULL) OR EXISTS (
		            SELECT FROM webhook_waiting q
		             WHERE q.workspace_id = c.workspace_id AND q.webhook_id = c.webhook_id AND q.next_attempt_at <= $5
		               AND (w.state = 'on' OR q.epoch = w.epoch)))
		       FOR UPDATE OF c SKIP LOCKED)
		UPDATE webhook_cursor c SET holder = $1 FROM locked l
		 WHERE c.workspace_id = l.workspace_id AND c.webhook_id = l.webhook_id
		RETURNING c.workspace_id, c.webhook_id`,
		r.self, workspaces, ws, hs, now, not)
}

func split(keys []key) (workspaces, webhooks []string) {
	workspaces, webhooks = make([]string, len(keys)), make([]string, len(keys))
	for i, k := range keys {
		workspaces[i], webhooks[i] = k.workspaceID, k.webhookID
	}
	return workspaces, webhooks
}

// leaving is a lane on its way out, and how far it came.
type leaving struct {
	key            key
	epoch, version int
	done, replay   int64
}

// held are the webhooks that are claimed under this process's name.
func (r *rows) held(ctx context.Context) ([]key, error) {
	return r.keys(ctx, "look for webhooks held", `SELECT workspace_id, webhook_id FROM webhook_cursor WHERE holder = $1`, r.self)
}

// keys are the webhooks that a statement returns; doing is what for.
func (r *rows) keys(ctx context.Context, doing, sql string, args ...any) ([]key, error) {
	list, err := r.pool.Query(ctx, sql, args...)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", doing, err)
	}
	keys, err := pgx.CollectRows(list, func(row pgx.CollectableRow) (k key, err error) {
		err = row.Scan(&k.workspaceID, &k.webhookID)
		return k, err
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", doing, err)
	}
	return keys, nil
}

// inName releases webhooks without moving their cursors.
func inName(keys []key) []leaving {
	list := make([]leaving, len(keys))
	for i, k := range keys {
		list[i] = leaving{key: k, epoch: -1, version: -1} // matches none
	}
	return list
}

// release gives webhooks back, with their cursors where they belong.
func (r *rows) release(ctx context.Context, list []leaving) error {
	var (
		ws, hs           = make([]string, len(list)), make([]string, len(list))
		epochs, versions = make([]int, len(list)), make([]int, len(list))
		done, replay     = make([]int64, len(list)), make([]int64, len(list))
	)
	for i, l := range list {
		ws[i], hs[i], epochs[i], versions[i], done[i], replay[i] = l.key.workspaceID, l.key.webhookID, l.epoch, l.version, l.done, l.replay
	}
	_, err := r.pool.Exec(ctx, `
		UPDATE webhook_cursor c
		   SET holder = NULL,
		       position = CASE WHEN w.epoch = m.epoch THEN greatest(c.position, m.done) ELSE c.position END,
		       replay_position = CASE WHEN w.version <> m.version OR m.replay = 0 THEN c.replay_position
		                              WHEN m.replay < c.replay_until THEN m.replay END,
		       replay_until = CASE WHEN w.version = m.version AND m.replay > 0 AND m.replay >= c.replay_until THEN NULL ELSE c.replay_until END
		  FROM unnest($2::text[], $3::text[], $4::integer[], $5::integer[], $6::bigint[], $7::bigint[]) AS m (w, h, epoch, version, done, replay)
		  JOIN webhook w ON w.workspace_id = m.w AND w.webhook_id = m.h
		 WHERE c.workspace_id = m.w AND c.webhook_id = m.h AND c.holder = $1`,
		r.self, ws, hs, epochs, versions, done, replay)
	if err != nil {
		return fmt.Errorf("release webhooks: %w", err)
	}
	return nil
}
