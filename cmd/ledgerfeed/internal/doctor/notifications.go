package doctor

import (
	"context"
	"fmt"

	"github.com/ledgerfeed/ledgerfeed/eventlog/natsnotify"
	"github.com/ledgerfeed/ledgerfeed/internal/bus"
)

// checkNotifications looks at how processes hear of each other's changes. Nothing depends on
// it but how soon.
func checkNotifications(ctx context.Context, x *examination) ([]Finding, error) {
	listens := !x.db.Pooled || x.db.Direct != ""
	if x.env.Settings.WakeURL == "" {
		if !listens {
			return []Finding{{
				Level: Warning, Text: "processes behind the pooler hear nothing of each other's changes: they find them by sweeps, after about a second",
				Do: "set LEDGERFEED_LISTEN_DATABASE_URL, the address of PostgreSQL past the pooler, or LEDGERFEED_WAKE_URL, that of a NATS server (docs/operations/pooler.md)",
			}}, nil
		}
		return ok("by PostgreSQL's NOTIFY"), nil
	}
	target, err := natsnotify.ParseTarget(x.env.Settings.WakeURL)
	if err != nil {
		return nil, fmt.Errorf("LEDGERFEED_WAKE_URL: %w", err)
	}
	err = natsnotify.Check(ctx, target, bus.Config{Name: "ledgerfeed doctor", Logger: x.env.Logger})
	switch {
	case err != nil && listens:
		return []Finding{{
			Level: Warning, Text: fmt.Sprintf("NATS at LEDGERFEED_WAKE_URL carries no notifications (%v): processes notify each other by PostgreSQL's NOTIFY meanwhile", err),
			Do: "see that the server runs, and that it takes the account and the subject",
		}}, nil
	case err != nil:
		return []Finding{{
			Level: Warning, Text: fmt.Sprintf("NATS at LEDGERFEED_WAKE_URL carries no notifications (%v): processes behind the pooler find changes by sweeps, after about a second", err),
			Do: "see that the server runs, and that it takes the account and the subject",
		}}, nil
	case listens:
		return ok("over NATS; those of producers in SQL by PostgreSQL's NOTIFY"), nil
	}
	return ok("over NATS; those of producers in SQL if a process with LEDGERFEED_WAKE_URL listens to PostgreSQL, too, and by sweeps otherwise"), nil
}
