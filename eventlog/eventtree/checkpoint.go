package eventtree

import (
	"context"
	"encoding/base64"
	"fmt"
	"strconv"

	"github.com/jackc/pgx/v5"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/internal/tlogcheckpoint"
)

// State is how far a tree is built.
type State struct {
	Position int64 // it has the events up to this position of the log
	Chain    [32]byte
	Size     int64
	Root     tlog.Hash
}

// Empty is the state of a tree of a workspace of which nothing is built.
func Empty(workspaceID string) State {
	return State{Chain: domain.Genesis(workspaceID), Root: (&Tree{}).Root()}
}

// Text is what is signed as a checkpoint (https://c2sp.org/tlog-checkpoint). Its extension
// lines are the position of the workspace's log that the tree is of and the log's chain
// value there.
func (s *State) Text(origin string) string {
	c := tlogcheckpoint.Checkpoint{Origin: origin, Tree: tlog.Tree{N: s.Size, Hash: s.Root}, Extensions: []string{
		"position " + strconv.FormatInt(s.Position, 10), "chain " + base64.StdEncoding.EncodeToString(s.Chain[:]),
	}}
	return c.Text()
}

// Querier is a pool or a connection.
type Querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// Trees are the states of both trees of a workspace.
type Trees struct {
	WithoutPay, WithPay State

	cosignatures map[Sight][]Cosignature // of the checkpoints of these states
}

// Of is the state of the tree of a sight.
func (t *Trees) Of(s Sight) *State {
	if s == WithPay {
		return &t.WithPay
	}
	return &t.WithoutPay
}

// ReadStates reads the states of the trees of workspaces, with the cosignatures of their
// checkpoints.
func ReadStates(ctx context.Context, db Querier, workspaceIDs []string) (map[string]*Trees, error) {
	states := make(map[string]*Trees, len(workspaceIDs))
	for _, id := range workspaceIDs {
		states[id] = &Trees{WithoutPay: Empty(id), WithPay: Empty(id)}
	}
	rows, err := db.Query(ctx, `
		SELECT t.workspace_id, t.sight, t.position, t.chain, t.size, t.root, c.origin, c.line
		  FROM event_tree t
		  LEFT JOIN event_cosignature c ON c.workspace_id = t.workspace_id AND c.sight = t.sight AND `+sameCheckpoint+`
		 WHERE t.workspace_id = ANY ($1) ORDER BY c.witness`, workspaceIDs)
	if err != nil {
		return nil, fmt.Errorf("read the states of trees: %w", err)
	}
	var (
		id             string
		sight          Sight
		position, size int64
		chain, root    []byte
		origin, line   *string
	)
	if _, err := pgx.ForEachRow(rows, []any{&id, &sight, &position, &chain, &size, &root, &origin, &line}, func() error {
		if line != nil {
			if states[id].cosignatures == nil {
				states[id].cosignatures = map[Sight][]Cosignature{}
			}
			states[id].cosignatures[sight] = append(states[id].cosignatures[sight], Cosignature{*origin, *line})
		}
		*states[id].Of(sight) = State{position, [32]byte(chain), size, tlog.Hash(root)}
		return nil
	}); err != nil {
		return nil, fmt.Errorf("read the states of trees: %w", err)
	}
	return states, nil
}
