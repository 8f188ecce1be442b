// Package lastday makes up what happened in the last day of a demo: requests of its keys,
// and deliveries to webhooks that work, that fail and that were turned off. There is
// something to look at from the first minute on.
package lastday

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// length is how much is made up.
const length = 24 * time.Hour

// Maker makes it up, the same for the same clock and database.
type Maker struct {
	Pool        *pgxpool.Pool // as the owner of the tables
	Clock       func() time.Time
	Logger      *slog.Logger
	WorkspaceID string
}

// random is a source of its own for each subject, so that a change of one leaves the others
// as they are.
func random(subject uint64) *rand.Rand { return rand.New(rand.NewPCG(7, subject)) }

// Key is a key that has sent requests.
type Key struct{ ID, Prefix string }

// Webhooks are three, by how they have done. Each exists and is on.
type Webhooks struct {
	Well    string // answers
	Failing string // refuses every connection
	Off     string // is turned off here
}

// Make makes up the requests of two keys and the deliveries to the webhooks. It is called
// once.
func (m *Maker) Make(ctx context.Context, keys [2]Key, w Webhooks) error {
	if err := m.requests(ctx, keys); err != nil {
		return err
	}
	return m.deliveries(ctx, w)
}
