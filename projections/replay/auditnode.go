package replay

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
)

// claimOnCluster is claimNext on a Citus cluster: who is due is looked for first, on the nodes
// that can be reached, and then claimed by a statement of its workspace.
func claimOnCluster(ctx context.Context, a *Auditor, now time.Time) (id string, older bool, err error) {
	next, err := dueOnCluster(ctx, a, now)
	if err != nil || next == nil {
		return "", false, err
	}
	err = a.cfg.Pool.QueryRow(ctx, `
		INSERT INTO replay_audit AS a (workspace_id, claimed_until) VALUES ($1, $2)
		    ON CONFLICT (workspace_id) DO UPDATE SET claimed_until = excluded.claimed_until, error = NULL
		     WHERE a.claimed_until IS NULL OR a.claimed_until < $3
		RETURNING workspace_id`, next.WorkspaceID, now.Add(claimFor), now).Scan(&id)
	if errors.Is(err, pgx.ErrNoRows) {
		return "", false, nil // another process was first
	}
	if err != nil {
		return "", false, fmt.Errorf("claim a workspace to audit: %w", err)
	}
	a.claim = auditClaim{id, now}
	return id, next.Older, nil
}

// due is a workspace that may be audited.
type due struct {
	WorkspaceID string
	Older       bool       // its rows were made by older rules
	AuditedAt   *time.Time // nil: never
}

// before tells whether a workspace comes before another.
func (d *due) before(o *due) bool {
	switch {
	case o == nil:
		return true
	case d.Older != o.Older:
		return d.Older
	case (d.AuditedAt == nil) != (o.AuditedAt == nil):
		return d.AuditedAt == nil
	case d.AuditedAt != nil && !d.AuditedAt.Equal(*o.AuditedAt):
		return d.AuditedAt.Before(*o.AuditedAt)
	}
	return d.WorkspaceID < o.WorkspaceID
}

// dueOnCluster is the workspace to audit next; nil: none, or another is being audited.
func dueOnCluster(ctx context.Context, a *Auditor, now time.Time) (next *due, err error) {
	var (
		mu   sync.Mutex
		busy bool
	)
	err = a.cfg.Nodes.Everywhere(ctx, func(ctx context.Context, workspaces []string) error {
		var other bool
		err := a.cfg.Pool.QueryRow(ctx, `
			SELECT EXISTS (SELECT 1 FROM replay_audit u
			                WHERE ($2::text[] IS NULL OR u.workspace_id = ANY ($2)) AND u.claimed_until >= $1 AND u.error IS NULL)`, now, workspaces).Scan(&other)
		if err != nil {
			return fmt.Errorf("look for another audit: %w", err)
		}
		rows, err := a.cfg.Pool.Query(ctx, `
			SELECT h.workspace_id, coalesce(c.position > 0 AND c.rules < $4, false) AS older, o.audited_at
			  FROM log_head h
			  LEFT JOIN replay_audit o ON o.workspace_id = h.workspace_id
			  LEFT JOIN log_checkpoint c ON c.workspace_id = h.workspace_id AND c.consumer = $5
			 WHERE ($8::text[] IS NULL OR h.workspace_id = ANY ($8)) AND (o.claimed_until IS NULL OR o.claimed_until < $1)
			   AND (c.position > 0 AND c.rules < $4 AND coalesce(o.audited_at, '-infinity') <= $6
			     OR NOT $7 AND (o.audited_at IS NULL OR o.audited_at <= CASE WHEN o.differences > 0 THEN $3::timestamptz ELSE $2::timestamptz END))
			 ORDER BY 2 DESC, 3 NULLS FIRST, 1 LIMIT 1`,
			now, now.Add(-a.cfg.Every), now.Add(-a.cfg.Every/sooner), a.replay.cfg.Rules.Version, eventlog.ReadModels, now.Add(-convertAgain), a.cfg.ConvertOnly, workspaces)
		if err != nil {
			return fmt.Errorf("find a workspace to audit: %w", err)
		}
		found, err := pgx.CollectRows(rows, pgx.RowToAddrOfStructByPos[due])
		if err != nil {
			return fmt.Errorf("find a workspace to audit: %w", err)
		}
		mu.Lock()
		defer mu.Unlock()
		busy = busy || other
		for _, d := range found {
			if d.before(next) {
				next = d
			}
		}
		return nil
	})
	if pg.NodeAway(err) && next != nil {
		err = nil // the others are audited meanwhile
	}
	if busy {
		next = nil
	}
	return next, err
}
