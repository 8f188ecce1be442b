package service

import (
	"context"
	"crypto/rand"
	"fmt"
	"maps"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ledgerfeed/ledgerfeed/internal/pg"
)

// sessionPrefix begins the application_name of the sessions of every serving process; its
// roles and its mark follow. The server ends them with the process, and without its machine
// after half a minute, so they tell which processes there are without anything being written.
const sessionPrefix = "ledgerfeed serves "

// newMark makes letters that tell a process's sessions from those of others with the same
// roles. They are few, because PostgreSQL keeps 63 bytes of a name, and no role has as many.
func newMark() string {
	mark := make([]byte, 4)
	_, _ = rand.Read(mark) // never fails
	for i, b := range mark {
		mark[i] = 'a' + b%26
	}
	return string(mark)
}

// sessionName is the application_name that tells the roles of a process. A name that the
// operator chose follows them.
func sessionName(roles []string, mark, own string) string {
	name := sessionPrefix + strings.Join(roles, " ") + " " + mark
	if own != "" {
		name += "; " + own
	}
	return name
}

// nameSessions gives the name to the sessions of all pools, and of the single connections
// that are made like theirs. Through a pooler, the connection that listens past it alone
// tells the roles: the pooler's own connections keep the name of a process that is gone.
func nameSessions(s *Service) error {
	if s.database.Pooled {
		return nil
	}
	cfg, err := pg.ParseConfig(s.database.URL)
	if err != nil {
		return err
	}
	s.connections.name = sessionName(s.roles, s.connections.mark, cfg.ConnConfig.RuntimeParams["application_name"])
	return nil
}

// named adds the name of a process's sessions to the settings of a pool.
func named(name string, settings map[string]string) map[string]string {
	if name == "" {
		return settings
	}
	all := map[string]string{"application_name": name}
	maps.Copy(all, settings)
	return all
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
