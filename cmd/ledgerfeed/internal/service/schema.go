package service

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"

	"github.com/ledgerfeed/ledgerfeed/internal/flow"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
	"github.com/ledgerfeed/ledgerfeed/internal/plural"
	"github.com/ledgerfeed/ledgerfeed/migrations"
)

// schemaInterval is how often a process that waits for a migration looks for its end.
const schemaInterval = 2 * time.Second

// ErrStoppedWaiting says that the process was ended while it waited for a migration.
var ErrStoppedWaiting = errors.New("ended while it waited for a migration of the database")

// awaitSchema waits until the schema of the database fits the program and its account may
// read the tables. Only operators are answered meanwhile, with what is to be done: a
// process that ended instead would be started again and again, and orchestrators take one
// that is alive and not ready for a reason to keep those of the version before.
func (s *Service) awaitSchema(ctx context.Context) error {
	reason, err := schemaFault(ctx, s.database.URL)
	if err != nil || reason == "" {
		return err
	}
	s.setUnready(reason)
	s.env.Logger.ErrorContext(ctx, "waiting: the process serves nothing yet", "reason", reason, "readiness", s.URL(AdminListener)+"/readyz")
	tellSystemd(ctx, s.env.Logger, daemon.SdNotifyReady+"\nSTATUS=Waiting: "+reason)
	for reason != "" {
		if !flow.Pause(ctx, schemaInterval) {
			return ErrStoppedWaiting
		}
		was := reason
		if reason, err = schemaFault(ctx, s.database.URL); err != nil {
			reason = reasonOf(err)
		}
		if s.setUnready(reason); reason != "" && reason != was {
			s.env.Logger.WarnContext(ctx, "still waiting", "reason", reason)
		}
	}
	s.env.Logger.InfoContext(ctx, "the database was migrated: starting")
	tellSystemd(ctx, s.env.Logger, "STATUS=")
	return nil
}

// schemaFault is what keeps the program from serving the database at url, and what to do;
// empty: nothing does.
func schemaFault(ctx context.Context, url string) (string, error) {
	missing, err := migrations.Missing(ctx, url)
	switch {
	case pg.Forbidden(err):
		return fmt.Sprintf("this account of PostgreSQL may not read the tables (%v): run ledgerfeed migrate --grants apply as their owner", err), nil
	case err != nil:
		return "", fmt.Errorf("look at the schema: %w", err)
	case len(missing) > 0:
		return fmt.Sprintf("the schema of the database is older than this program, %s missing, the first is %s: "+
			"run ledgerfeed migrate as the owner of the tables, and ledgerfeed migrate --grants apply if the service has a role of its own", plural.Of(len(missing), "migration is", "migrations are"), missing[0].Name), nil
	}
	unreadable, err := migrations.Unreadable(ctx, url)
	if err != nil {
		return "", fmt.Errorf("look at the rights of this account: %w", err)
	}
	if len(unreadable) > 0 {
		return fmt.Sprintf("this account of PostgreSQL may not read %v: run ledgerfeed migrate --grants apply as the owner of the tables", unreadable), nil
	}
	return "", nil
}
