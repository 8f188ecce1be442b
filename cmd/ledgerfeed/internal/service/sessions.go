package service

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed/internal/cli"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
)

// sessionPrefix begins the application_name of the sessions that every serving process
// has; its roles follow. The server ends them with the process, and without its machine
// after half a minute, so they tell which roles there are without anything being written.
const sessionPrefix = "ledgerfeed serves "

// sessionName is the application_name that tells the roles of a process. A name that the
// operator chose follows them.
func sessionName(roles []string, own string) string {
	name := sessionPrefix + strings.Join(roles, " ")
	if own != "" {
		name += "; " + own
	}
	return name
}

// sharedOptions are those of the pool for everything but requests, projecting and
// delivering. Beside it a connection with the same name is always open: that which
// listens to notifications. Through a pooler, that one alone tells the roles: the
// pooler's own connections keep the name of a process that is gone.
func sharedOptions(db *cli.Database, roles []string) (o pg.Options, err error) {
	if db.Pooled {
		return o, nil
	}
	cfg, err := pg.ParseConfig(db.URL)
	if err != nil {
		return o, err
	}
	name := sessionName(roles, cfg.ConnConfig.RuntimeParams["application_name"])
	return pg.Options{Settings: map[string]string{"application_name": name}}, nil
}

// ConnectedRoles lists the roles, of all serving processes together, that are connected to
// the database, in the order of AllRoles. Any account may ask.
func ConnectedRoles(ctx context.Context, pool *pgxpool.Pool) ([]string, error) {
	rows, err := pool.Query(ctx, `
		SELECT role FROM unnest($2::text[]) WITH ORDINALITY AS r (role, n)
		 WHERE EXISTS (SELECT FROM pg_stat_activity a
		                WHERE a.datname = current_database() AND starts_with(a.application_name, $1)
		                  AND role = ANY(string_to_array(split_part(substr(a.application_name, length($1) + 1), ';', 1), ' ')))
		 ORDER BY n`, sessionPrefix, AllRoles())
	if err != nil {
		return nil, fmt.Errorf("cannot read which processes are connected: %w", err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, fmt.Errorf("cannot read which processes are connected: %w", err)
	}
	return list, nil
}
