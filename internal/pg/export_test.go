//go:build full

package pg

import (
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// NodesWithoutCitus are the nodes that a test describes in tables as Citus has them.
func NodesWithoutCitus(pool *pgxpool.Pool) *Nodes {
	return &Nodes{pool: pool, away: map[int32]time.Time{}}
}
