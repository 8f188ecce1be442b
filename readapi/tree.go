package readapi

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"strings"
	"time"

	"github.com/ledgerfeed/ledgerfeed/eventlog/eventtree"
	"github.com/ledgerfeed/ledgerfeed/internal/flow"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
	"github.com/ledgerfeed/ledgerfeed/internal/signingkey"
	"github.com/ledgerfeed/ledgerfeed/readapi/answer"
)

// treesQuery asks for the states of a workspace's trees.
type treesQuery struct {
	workspaceID string

	trees *eventtree.Trees
	err   error
}

// newTreesReader makes a coalescer that reads the states of trees.
func newTreesReader(pool pg.DB, timeout time.Duration) *flow.Coalescer[*treesQuery] {
	return newCoalescer(pool, timeout, func(ctx context.Context, queries []*treesQuery) {
		ids := make([]string, len(queries))
		for i, q := range queries {
			ids[i] = q.workspaceID
		}
		found, err := eventtree.ReadStates(ctx, pool, ids)
		for _, q := range queries {
			q.trees, q.err = found[q.workspaceID], err
		}
	})
}

// sight returns which tree the request's key sees.
func sight(q *request) eventtree.Sight { return eventtree.SightOf(q.visible.pay) }

// checkpoint is the content of a checkpoint, before it is signed.
type checkpoint struct {
	origin, text string
	cosigned     string // the lines of the witnesses that cosigned it
	version      version
}

// readCheckpoint reads the state of the tree that the key sees.
func readCheckpoint(q *request) (*checkpoint, error) {
	if q.api.signer.keys == nil {
		return nil, answer.Unsigned()
	}
	query := &treesQuery{workspaceID: q.key.WorkspaceID}
	if err := q.from.trees.Do(q, query); err != nil {
		return nil, q.readError(err)
	}
	if query.err != nil {
		return nil, q.readError(query.err)
	}
	state := query.trees.Of(sight(q))
	c := &checkpoint{origin: eventtree.Origin(q.api.signer.host, q.key.WorkspaceID, sight(q))}
	c.text = state.Text(c.origin)
	c.cosigned = strings.Join(query.trees.Cosigned(sight(q), c.origin), "")
	c.version = version{name: q.api.signer.names + c.text + c.cosigned, position: state.Position}
	return c, nil
}

// signer signs checkpoints.
type signer struct {
	keys  *signingkey.Keys // nil: nothing is signed
	host  string           // the names of trees begin with it
	names string           // the names of the keys, for versions of checkpoints
}

func newSigner(cfg *Config) (signer, error) {
	if cfg.Signing == nil {
		return signer{}, nil
	}
	s := signer{keys: cfg.Signing}
	var err error
	if s.host, err = signingkey.Host(cfg.BaseURL); err != nil {
		return signer{}, fmt.Errorf("readapi: %w", err)
	}
	for _, key := range cfg.Signing.Public() {
		s.names += key.String() + " "
	}
	return s, nil
}

// checkpointVersion returns the version of the checkpoint that the key sees.
func checkpointVersion(q *request) (version, error) {
	c, err := readCheckpoint(q)
	if err != nil {
		return version{}, err
	}
	return c.version, nil
}

// answerCheckpoint answers with the signed checkpoint of the tree that the key sees.
func answerCheckpoint(q *request) error {
	c, err := readCheckpoint(q)
	if err != nil {
		return err
	}
	if err := reached(q, c.version); err != nil {
		return err
	}
	signed, err := q.api.signer.keys.Sign(c.origin, c.text)
	if err != nil {
		return fmt.Errorf("sign a checkpoint: %w", err)
	}
	q.rows = 1
	return q.answerWith(append(signed, c.cosigned...), c.version)
}

// answerTile answers with hashes of the tree that the key sees.
func answerTile(q *request) error {
	return answerOfTree(q, func(path eventtree.Path) ([]byte, int64, error) {
		return eventtree.ReadTile(q, q.from.pool, q.key.WorkspaceID, sight(q), path)
	})
}

// answerBundle answers with leaves of the tree that the key sees.
func answerBundle(q *request) error {
	return answerOfTree(q, func(path eventtree.Path) ([]byte, int64, error) {
		return eventtree.ReadBundle(q, q.from.pool, q.key.WorkspaceID, sight(q), path, q.oldestKept())
	})
}

// answerOfTree answers with what read returns for the path of a tile; a nil body becomes a 404.
// What the tree has at a path never changes.
func answerOfTree(q *request, read func(eventtree.Path) (body []byte, position int64, err error)) error {
	if q.tile == nil {
		return answer.UnknownTile()
	}
	release, err := q.from.shares.take(q, q.key.WorkspaceID)
	if err != nil {
		return q.readError(err)
	}
	body, position, err := read(*q.tile)
	release()
	if err != nil {
		return q.readError(err)
	}
	sum := sha256.Sum256(body)
	found := version{name: string(sum[:]), position: position}
	if err := reached(q, found); err != nil {
		return err
	}
	if body == nil {
		return answer.UnknownTile()
	}
	q.rows = q.tile.Width
	return q.answerWith(body, found)
}

// parseTile reads which tile a path names; nil: the path names no possible tile. The path of a bundle
// has no level.
func parseTile(level, tile string) *eventtree.Path {
	p, ok := eventtree.ParsePath(cmp.Or(level, "0") + "/" + tile)
	if !ok {
		return nil
	}
	return &p
}
