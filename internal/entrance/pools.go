package entrance

import (
	"context"
	"fmt"
	"iter"
	"maps"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ledgerfeed/ledgerfeed/internal/pg"
)

// Pools are the connections of one purpose: one pool to each entrance.
type Pools struct {
	set *Set
	of  map[*Entrance]*pgxpool.Pool
}

// Open opens pools, whether or not the nodes answer now.
// The caller closes them. They are nil for a nil Set.
func (s *Set) Open(ctx context.Context, o pg.Options) (*Pools, error) {
	if s == nil {
		return nil, nil
	}
	p := &Pools{set: s, of: map[*Entrance]*pgxpool.Pool{}}
	o.Later = true
	o.Settings = pg.SettingsOfNode(o.Settings)
	for _, e := range s.entrances {
		o.Host = e.Name
		pool, err := pg.Open(ctx, s.cfg.URL, o)
		if err != nil {
			p.Close()
			return nil, fmt.Errorf("the node %s: %w", e.Name, err)
		}
		p.of[e] = pool
	}
	return p, nil
}

// PoolOf is the pool for statements of some workspaces: that of the node that has them all, or
// else the coordinator's, which is that of one PostgreSQL where the Pools are nil.
func PoolOf(ctx context.Context, p *Pools, coordinator *pgxpool.Pool, workspaceIDs ...string) *pgxpool.Pool {
	if p == nil || len(workspaceIDs) == 0 {
		return coordinator
	}
	at := p.set.Of(ctx, workspaceIDs[0])
	for _, id := range workspaceIDs[1:] {
		if p.set.Of(ctx, id) != at {
			return coordinator
		}
	}
	if pool, found := p.of[at]; found {
		return pool
	}
	return coordinator
}

// EntranceOf is the entrance for the statements of a workspace; nil: the coordinator, as with
// nil Pools.
func (p *Pools) EntranceOf(ctx context.Context, workspaceID string) *Entrance {
	if p == nil {
		return nil
	}
	return p.set.Of(ctx, workspaceID)
}

// At is the pool to an entrance; nil: there is none, as with nil Pools.
func (p *Pools) At(e *Entrance) *pgxpool.Pool {
	if p == nil {
		return nil
	}
	return p.of[e]
}

// All are the pools to entrances; none for nil.
func (p *Pools) All() iter.Seq2[*Entrance, *pgxpool.Pool] {
	if p == nil {
		return func(func(*Entrance, *pgxpool.Pool) bool) {}
	}
	return maps.All(p.of)
}

// Close closes the pools to entrances.
func (p *Pools) Close() {
	for _, pool := range p.All() {
		pool.Close()
	}
}
