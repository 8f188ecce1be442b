package pg

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"
)

const (
	// nodeTimeout bounds what is asked of one node while others are asked, too: a node that
	// does not answer must not keep the answers of the others for long.
	nodeTimeout = 5 * time.Second

	// nodePause is how long a node that could not be reached is not asked again.
	nodePause = time.Second

	// nodesAtOnce is how many nodes are asked at the same time, each on a connection.
	nodesAtOnce = 4
)

// Nodes knows which node of a Citus cluster has the rows of a workspace, and which nodes
// could not be reached of late. What is for workspaces of several nodes is done node by
// node, so that one which is away keeps nobody waiting but its own workspaces.
type Nodes struct {
	pool *pgxpool.Pool

	mu   sync.Mutex
	away map[int32]time.Time // nodes that could not be reached, until when they are not asked
}

// NodesOf returns the nodes of the cluster that a pool's database belongs to; nil: it is one
// PostgreSQL.
func NodesOf(ctx context.Context, pool *pgxpool.Pool) (*Nodes, error) {
	distributed, err := OnCitus(ctx, pool)
	if err != nil || !distributed {
		return nil, err
	}
	return &Nodes{pool: pool, away: map[int32]time.Time{}}, nil
}

// NodeAwayError says that a node of the cluster could not be reached a moment ago.
type NodeAwayError struct{ node int32 }

func (e *NodeAwayError) Error() string {
	return fmt.Sprintf("node group %d of the cluster could not be reached a moment ago", e.node)
}

// nodeOf is the node of each workspace $1. The head of the log stands for all tables: the
// rows of a workspace are together.
const nodeOf = `
	SELECT k.w, p.groupid
	  FROM (SELECT w, get_shard_id_for_distribution_column('log_head', w) AS shard FROM unnest($1::text[]) AS w) AS k
	  JOIN pg_dist_placement p ON p.shardid = k.shard`

// Split returns workspaces by the node that has their rows. Only the coordinator is asked.
func (n *Nodes) Split(ctx context.Context, workspaceIDs []string) (map[int32][]string, error) {
	if len(workspaceIDs) == 0 {
		return map[int32][]string{}, nil
	}
	rows, err := n.pool.Query(ctx, nodeOf, workspaceIDs)
	if err != nil {
		return nil, fmt.Errorf("look for the nodes of workspaces: %w", err)
	}
	var (
		byNode    = map[int32][]string{}
		workspace string
		node      int32
	)
	_, err = pgx.ForEachRow(rows, []any{&workspace, &node}, func() error {
		byNode[node] = append(byNode[node], workspace)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("look for the nodes of workspaces: %w", err)
	}
	return byNode, nil
}

// NodeFailure is what went wrong for the workspaces of one node.
type NodeFailure struct {
	WorkspaceIDs []string
	Err          error
}

// Each calls do with the workspaces of each node, at the same time for several, and returns
// for which it failed. A node that could not be reached is not asked for a second. The error
// says that it is not known which nodes these are; nothing was done.
func (n *Nodes) Each(ctx context.Context, workspaceIDs []string, do func(ctx context.Context, workspaceIDs []string) error) ([]NodeFailure, error) {
	byNode, err := n.Split(ctx, workspaceIDs)
	if err != nil {
		return nil, err
	}
	var (
		mu       sync.Mutex
		failures []NodeFailure
		group    errgroup.Group
	)
	group.SetLimit(nodesAtOnce)
	for _, node := range slices.Sorted(maps.Keys(byNode)) {
		group.Go(func() error {
			err := n.ask(ctx, node, len(byNode) > 1, func(ctx context.Context) error { return do(ctx, byNode[node]) })
			if err != nil {
				mu.Lock()
				defer mu.Unlock()
				failures = append(failures, NodeFailure{byNode[node], err})
			}
			return nil
		})
	}
	_ = group.Wait() // each has its own error
	return failures, nil
}

// workspacesAtOnce is how many workspaces a statement names that cannot be for all of them.
const workspacesAtOnce = 2000

// Everywhere calls do once, for the workspaces of all nodes, which it is given as nil. Where
// that fails because a node is away, it calls it node by node for those of the others, which
// it names. A nil Nodes is one PostgreSQL. The error says for whom it was not done.
func (n *Nodes) Everywhere(ctx context.Context, do func(ctx context.Context, workspaceIDs []string) error) error {
	if n == nil {
		return do(ctx, nil)
	}
	if !n.anyAway() {
		asking, cancel := context.WithTimeout(ctx, nodeTimeout)
		err := do(asking, nil)
		cancel()
		if err == nil || !NodeAway(err) && (asking.Err() == nil || ctx.Err() != nil) {
			return err
		}
	}
	var failed error
	for after := ""; ; {
		page, err := n.workspaces(ctx, after)
		if err != nil {
			return err
		}
		if len(page) == 0 {
			return failed
		}
		failures, err := n.Each(ctx, page, do)
		if err != nil {
			return err
		}
		for i := range failures {
			if !NodeAway(failures[i].Err) || failed == nil {
				failed = failures[i].Err
			}
		}
		after = page[len(page)-1]
	}
}

// deleteAtOnce is how many rows of a workspace a statement of Delete deletes at most, and
// deleteTogether of how many workspaces a transaction deletes.
const (
	deleteAtOnce   = 5000
	deleteTogether = 64
)

// Delete deletes the rows of a table for which a condition on $2, $3 and so on (args) is true,
// workspace by workspace, because a cluster can leave out rows that others have locked only
// there. It waits for other locks no longer than limit. Locked reports that a whole table
// is locked, NodeAway that a node is away; what is on other nodes is deleted.
func (n *Nodes) Delete(ctx context.Context, limit time.Duration, table, condition string, args ...any) error {
	return n.Everywhere(ctx, func(ctx context.Context, workspaceIDs []string) error {
		var left []string
		err := InLimitedTx(ctx, n.pool, limit, func(tx pgx.Tx) error {
			rows, err := tx.Query(ctx, `SELECT DISTINCT workspace_id FROM `+table+` WHERE ($1::text[] IS NULL OR workspace_id = ANY ($1)) AND `+condition,
				append([]any{workspaceIDs}, args...)...)
			if err == nil {
				left, err = pgx.CollectRows(rows, pgx.RowTo[string])
			}
			return err
		})
		if err != nil {
			return fmt.Errorf("look for what is old in %s: %w", table, err)
		}
		for len(left) > 0 {
			some := left[:min(deleteTogether, len(left))]
			full, err := n.deleteSome(ctx, limit, table, condition, some, args)
			if err != nil {
				return fmt.Errorf("delete what is old from %s: %w", table, err)
			}
			left = slices.Concat(full, left[len(some):])
		}
		return nil
	})
}

// deleteSome deletes rows of some workspaces in one transaction, and returns those workspaces
// that may have more of them.
func (n *Nodes) deleteSome(ctx context.Context, limit time.Duration, table, condition string, workspaceIDs []string, args []any) (full []string, err error) {
	b := &pgx.Batch{}
	for _, w := range workspaceIDs {
		b.Queue(`
			DELETE FROM `+table+` WHERE workspace_id = $1 AND ctid = ANY (ARRAY(
			       SELECT ctid FROM `+table+` WHERE workspace_id = $1 AND `+condition+` LIMIT `+strconv.Itoa(deleteAtOnce)+` FOR UPDATE SKIP LOCKED))`,
			append([]any{w}, args...)...).Exec(func(tag pgconn.CommandTag) error {
			if tag.RowsAffected() == deleteAtOnce {
				full = append(full, w)
			}
			return nil
		})
	}
	err = InLimitedTx(ctx, n.pool, limit, func(tx pgx.Tx) error { return tx.SendBatch(ctx, b).Close() })
	return full, err
}

// workspaces is the next page of all workspaces, from the coordinator's copy.
func (n *Nodes) workspaces(ctx context.Context, after string) ([]string, error) {
	rows, err := n.pool.Query(ctx, `SELECT workspace_id FROM workspace WHERE workspace_id > $1 ORDER BY workspace_id LIMIT $2`, after, workspacesAtOnce)
	if err == nil {
		var page []string
		if page, err = pgx.CollectRows(rows, pgx.RowTo[string]); err == nil {
			return page, nil
		}
	}
	return nil, fmt.Errorf("list the workspaces: %w", err)
}

// anyAway reports whether a node could not be reached a moment ago.
func (n *Nodes) anyAway() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, until := range n.away {
		if time.Now().Before(until) {
			return true
		}
	}
	return false
}

// ask asks one node, unless it is away.
func (n *Nodes) ask(ctx context.Context, node int32, limited bool, do func(context.Context) error) error {
	n.mu.Lock()
	away := time.Now().Before(n.away[node]) // not of an injected clock: it measures the servers
	n.mu.Unlock()
	if away {
		return &NodeAwayError{node}
	}
	asking, cancel := ctx, func() {}
	if limited {
		asking, cancel = context.WithTimeout(ctx, nodeTimeout)
	}
	defer cancel()
	err := do(asking)
	if err != nil && ctx.Err() == nil && (asking.Err() != nil || NodeAway(err)) {
		n.mu.Lock()
		n.away[node] = time.Now().Add(nodePause)
		n.mu.Unlock()
	}
	return err
}

// NodeAway reports whether a statement failed because a node of the cluster that it is for
// could not be reached, or ended: the statement may be right, and others, for other nodes,
// are not concerned.
func NodeAway(err error) bool {
	if _, away := errors.AsType[*NodeAwayError](err); away {
		return true
	}
	of, ok := errors.AsType[*pgconn.PgError](err)
	return ok && (slices.Contains([]string{"08000", "08001", "08003", "08004", "08006", "57P01", "57P02", "57P03"}, of.Code) ||
		strings.HasPrefix(of.Message, "failure on connection marked as essential")) // of a node, in a transaction over several
}
