package doctor

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed/internal/service"
	"github.com/ledgerfeed/ledgerfeed/internal/plural"
)

// checkProcesses looks for roles that no process has which is connected to the database,
// on whichever machine. The console is a choice, and so is delivering without webhooks.
func checkProcesses(ctx context.Context, x *examination) ([]Finding, error) {
	if x.db.Pooled && x.db.Direct == "" {
		return ok("which ones serve cannot be told through a pooler without LEDGERFEED_LISTEN_DATABASE_URL"), nil
	}
	there, err := service.ConnectedRoles(ctx, x.pool)
	if err != nil {
		return nil, err
	}
	wanted := []string{service.RoleAPI, service.RoleProject}
	var webhooks bool
	if err := x.pool.QueryRow(ctx, `SELECT EXISTS (SELECT FROM webhook WHERE state <> 'off')`).Scan(&webhooks); err != nil {
		return nil, fmt.Errorf("cannot look for webhooks: %w", err)
	}
	if webhooks {
		wanted = append(wanted, service.RoleDeliver)
	}
	gone := slices.DeleteFunc(wanted, func(role string) bool { return slices.Contains(there, role) })
	if len(gone) == 0 {
		return ok("the roles %s are connected to the database", strings.Join(there, ", ")), nil
	}
	feels := map[string]string{service.RoleAPI: "readers get no answer", service.RoleProject: "read models do not get new entries", service.RoleDeliver: "webhooks are not sent"}
	var felt []string
	for _, role := range gone {
		felt = append(felt, feels[role])
	}
	return []Finding{{
		Level: Error, Text: fmt.Sprintf("no process with the role %s is connected to the database: %s", strings.Join(gone, " or "), strings.Join(felt, ", ")),
		Do: fmt.Sprintf("see why it ended (journalctl -u ledgerfeed, kubectl get pods) and start one: ledgerfeed serve --roles %s", strings.Join(gone, ",")),
	}}, nil
}

// checkThisMachine asks the process that serves on this machine, if one does, whether it is
// ready. One that hangs takes connections and does not answer.
func checkThisMachine(ctx context.Context, x *examination) ([]Finding, error) {
	listen := x.env.Settings.AdminListen
	answer, err := service.Ask(ctx, listen)
	var dial *net.OpError
	switch {
	case errors.As(err, &dial) && dial.Op == "dial":
		return ok("none serves at %s (LEDGERFEED_ADMIN_LISTEN) that can be asked from here", listen), nil
	case err != nil:
		return []Finding{{
			Level: Error, Text: fmt.Sprintf("what listens at %s takes connections and does not answer as a serving process does: %v", listen, err),
			Do: "if it is one, read its log and start it again; if not, give LEDGERFEED_ADMIN_LISTEN another address",
		}}, nil
	case !answer.Ready:
		return []Finding{{
			Level: Error, Text: fmt.Sprintf("the process at %s is not ready: %s", listen, answer),
			Do: "docs/operations/alerts.md says under LedgerfeedNotReady what to do about each reason",
		}}, nil
	}
	c := answer.Connections
	if c.Refused > 0 {
		return []Finding{{
			Level: Warning, Text: fmt.Sprintf("PostgreSQL has refused the process at %s %s since its start, because there were too many; requests waited for others of its own", listen, plural.Of(c.Refused, "new connection", "new connections")),
			Do: "raise max_connections, or bound processes by LEDGERFEED_CONNECTIONS (docs/operations/sizing.md)",
		}}, nil
	}
	return ok("the process at %s is ready; %d of the %d connections to the database that it may have %s used, %s idle", listen, c.Used, c.Most, plural.Word(c.Used, "is", "are"), plural.Of(c.Idle, "is", "are")), nil
}
