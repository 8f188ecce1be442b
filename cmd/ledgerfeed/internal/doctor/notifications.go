package doctor

import "context"

// checkNotifications looks at how processes hear of each other's changes. Nothing depends on
// it but how soon.
func checkNotifications(_ context.Context, x *examination) ([]Finding, error) {
	if x.db.Pooled && x.db.Direct == "" {
		return []Finding{{
			Level: Warning, Text: "processes behind the pooler hear nothing of each other's changes: they find them by sweeps, after about a second",
			Do: "set LEDGERFEED_LISTEN_DATABASE_URL, the address of PostgreSQL past the pooler (docs/operations/pooler.md)",
		}}, nil
	}
	return ok("by PostgreSQL's NOTIFY"), nil
}
