package cli

import (
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
)

// NewNotifier makes what notifies other processes, and hears of them, where it is not behind
// a pooler or there is a way past that. The parameters are of the connection past the pooler.
// The error names the setting.
func NewNotifier(e *Env, db *Database, pool *pgxpool.Pool, parameters map[string]string) (*eventlog.Notifier, error) {
	n := eventlog.NewNotifier(pool, e.Logger)
	switch {
	case db.Direct != "":
		cfg, err := pg.ConnConfig(db.Direct, parameters)
		if err != nil {
			return nil, fmt.Errorf("LEDGERFEED_LISTEN_DATABASE_URL: %w", err)
		}
		n.ListenAt(cfg)
	case db.Pooled:
		n.ListenAt(nil)
	}
	return n, nil
}
