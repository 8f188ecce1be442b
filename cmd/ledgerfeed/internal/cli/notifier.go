package cli

import (
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/eventlog/natsnotify"
	"github.com/ledgerfeed/ledgerfeed/internal/bus"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
)

// NewNotifier makes what notifies other processes, and hears of them, in the ways that the
// settings leave: PostgreSQL's NOTIFY, where it is not behind a pooler or there is a way past
// that, and NATS. The parameters are of the connection past the pooler. The error names the
// setting; the caller calls Close of the Notifier.
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
	if e.Settings.WakeURL != "" {
		target, err := natsnotify.ParseTarget(e.Settings.WakeURL)
		if err != nil {
			return nil, fmt.Errorf("LEDGERFEED_WAKE_URL: %w", err)
		}
		n.CarryBy(natsnotify.New(target, bus.Config{Name: "ledgerfeed", Logger: e.Logger}))
	}
	return n, nil
}
