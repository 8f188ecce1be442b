package eventtree

import (
	"context"
	"encoding/base64"
	"fmt"
	"strconv"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
	"github.com/ledgerfeed/ledgerfeed/internal/signingkey"
)

// State is how far a tree is built.
type State struct {
	Position int64 // it has the events up to this position of the log
	Chain    [32]byte
	Size     int64
	Root     tlog.Hash
}

// Empty returns the state of a workspace's tree before anything is built.
func Empty(workspaceID string) State {
	return State{Chain: domain.Genesis(workspaceID), Root: (&Tree{}).Root()}
}

// Text returns the text that is signed as a checkpoint (https://c2sp.org/tlog-checkpoint). Its
// extension lines are the position of the workspace's log up to which the tree is built, and the
// log's chain value there.
func (s *State) Text(origin string) string {
	c := signingkey.CheckpointText{Origin: origin, Tree: tlog.Tree{N: s.Size, Hash: s.Root}, Extensions: []string{
		"position " + strconv.FormatInt(s.Position, 10), "chain " + base64.StdEncoding.EncodeToString(s.Chain[:]),
	}}
	return c.String()
}

// Querier is a pool or a connection.
type Querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// Trees holds the states of both trees of a workspace.
type Trees struct {
	WithoutPay, WithPay State

	cosignatures map[Sight][]Cosignature // of the checkpoints of these states
}

// Of returns the state of the tree with a sight.
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
	var (
		id             string
		sight          Sight
		position, size int64
		chain, root    []byte
		origin, line   *string
	)
	if err := pg.ForEach(ctx, db, `
		SELECT t.workspace_id, t.sight, t.position, t.chain, t.size, t.root, c.origin, c.line
		  FROM event_tree t
		  LEFT JOIN event_cosignature c ON c.workspace_id = t.workspace_id AND c.sight = t.sight AND `+sameCheckpoint+`
		 WHERE t.workspace_id = ANY ($1) ORDER BY c.witness`,
		[]any{workspaceIDs}, []any{&id, &sight, &position, &chain, &size, &root, &origin, &line}, func() error {
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

// Cosignature is a witness's signature of a checkpoint, as a line of its note.
type Cosignature struct{ Origin, Line string }

// Cosigned returns the lines of the cosignatures of a tree's current checkpoint, for one origin of
// the tree.
func (t *Trees) Cosigned(s Sight, origin string) (lines []string) {
	for _, c := range t.cosignatures[s] {
		if c.Origin == origin {
			lines = append(lines, c.Line)
		}
	}
	return lines
}

// Uncosigned is a tree whose checkpoint a witness has not cosigned.
type Uncosigned struct {
	Sight Sight
	State State
	Last  int64 // size of the tree when the witness last cosigned it; 0: not known
}

// sameCheckpoint is the SQL condition that cosignature c signs the current checkpoint of tree t.
const sameCheckpoint = `c.position = t.position AND c.chain = t.chain AND c.size = t.size AND c.root = t.root`

// readUncosigned is the SQL that reads trees, and whether the witness has cosigned each.
const readUncosigned = `
	SELECT t.workspace_id, t.sight, t.position, t.chain, t.size, t.root, coalesce(c.size, 0),
	       coalesce(c.origin = $2 || '/' || t.workspace_id || '/' || t.sight AND ` + sameCheckpoint + `, false)
	  FROM event_tree t
	  LEFT JOIN event_cosignature c ON c.workspace_id = t.workspace_id AND c.sight = t.sight AND c.witness = $1`

// ReadUncosigned reads which trees of workspaces a witness must still cosign, and up to which
// position the trees of each workspace are built.
func ReadUncosigned(ctx context.Context, db Querier, witness, host string, workspaceIDs []string) (trees map[string][]Uncosigned, positions map[string]int64, err error) {
	trees, positions, _, err = scanUncosigned(db.Query(ctx, readUncosigned+` WHERE t.workspace_id = ANY ($3)`, witness, host, workspaceIDs))
	return trees, positions, err
}

// FindUncosigned looks at a number of workspaces, in order after the one given, and returns those
// with a tree that a witness must still cosign. last is the last workspace that it looked at;
// empty: there are no more.
func FindUncosigned(ctx context.Context, db Querier, witness, host, after string, workspaces int) (found []string, last string, err error) {
	// Each workspace has both of its trees, or none.
	trees, _, last, err := scanUncosigned(db.Query(ctx, readUncosigned+`
		WHERE t.workspace_id > $3 ORDER BY t.workspace_id, t.sight LIMIT 2 * $4::int`, witness, host, after, workspaces))
	for id := range trees {
		found = append(found, id)
	}
	return found, last, err
}

func scanUncosigned(rows pgx.Rows, err error) (trees map[string][]Uncosigned, positions map[string]int64, last string, _ error) {
	if err != nil {
		return nil, nil, "", fmt.Errorf("read trees to be cosigned: %w", err)
	}
	var (
		u           Uncosigned
		chain, root []byte
		done        bool
	)
	trees, positions = map[string][]Uncosigned{}, map[string]int64{}
	if _, err := pgx.ForEachRow(rows, []any{&last, &u.Sight, &u.State.Position, &chain, &u.State.Size, &root, &u.Last, &done}, func() error {
		positions[last] = u.State.Position
		if !done {
			u.State.Chain, u.State.Root = [32]byte(chain), tlog.Hash(root)
			trees[last] = append(trees[last], u)
		}
		return nil
	}); err != nil {
		return nil, nil, "", fmt.Errorf("read trees to be cosigned: %w", err)
	}
	return trees, positions, last, nil
}

// Execer is a pool or a connection.
type Execer interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
}

// SaveCosignature stores a witness's cosignature of the checkpoint of a state. It replaces one of
// an older state.
func SaveCosignature(ctx context.Context, db Execer, workspaceID, witness string, s Sight, state *State, c Cosignature) error {
	_, err := db.Exec(ctx, `
		INSERT INTO event_cosignature AS c (workspace_id, sight, witness, origin, position, chain, size, root, line)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
		    ON CONFLICT (workspace_id, sight, witness) DO UPDATE
		       SET origin = excluded.origin, position = excluded.position, chain = excluded.chain, size = excluded.size, root = excluded.root, line = excluded.line
		     WHERE c.position <= excluded.position OR c.origin <> excluded.origin`,
		workspaceID, s, witness, c.Origin, state.Position, state.Chain[:], state.Size, state.Root[:], c.Line)
	if err != nil {
		return fmt.Errorf("keep a cosignature of the tree %s of %s: %w", s, workspaceID, err)
	}
	return nil
}
