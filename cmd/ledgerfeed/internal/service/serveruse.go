package service

import (
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed/internal/cli"
)

// Process is a serving process, on whichever machine, as PostgreSQL sees it.
type Process struct {
	Mark        string   `json:"process"` // letters that its sessions in pg_stat_activity have after the roles; empty: of a version before them, whose sessions are not all counted
	Roles       []string `json:"roles"`
	Address     string   `json:"address"` // from which it connects; empty: a Unix socket, or this account may not see it
	Connections int      `json:"connections"`
	Most        int      `json:"most"` // that it may have, with the settings of the one who asks
}

// ServerUse says what PostgreSQL's connections are used for.
type ServerUse struct {
	Max       int       `json:"max_connections"`
	Reserved  int       `json:"reserved"` // for superusers alone, so that they can mend what uses up the others
	Used      int       `json:"used"`     // by clients of all databases
	Left      int       `json:"left"`     // of those that are not reserved
	Processes []Process `json:"processes"`
	Warning   string    `json:"warning,omitempty"` // what to do, where another process would not find enough
}

// ReadServerUse asks PostgreSQL. Any account may; through a pooler, all that is seen of a
// process is the connection that it has past it.
func ReadServerUse(ctx context.Context, env *cli.Env, db *cli.Database, pool *pgxpool.Pool) (*ServerUse, error) {
	u := &ServerUse{Processes: []Process{}}
	// Of other accounts' sessions, an account without pg_read_all_stats sees no type.
	err := pool.QueryRow(ctx, `
		SELECT current_setting('max_connections')::integer, current_setting('superuser_reserved_connections')::integer,
		       (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend' OR backend_type IS NULL AND usesysid IS NOT NULL AND datid IS NOT NULL)`).Scan(&u.Max, &u.Reserved, &u.Used)
	if err != nil {
		return nil, fmt.Errorf("cannot count connections: %w", err)
	}
	u.Left = max(0, u.Max-u.Reserved-u.Used)
	rows, err := pool.Query(ctx, `
		SELECT string_to_array(split_part(substr(application_name, length($1) + 1), ';', 1), ' '), coalesce(host(client_addr), ''), count(*)
		  FROM pg_stat_activity WHERE datname = current_database() AND starts_with(application_name, $1)
		 GROUP BY 1, 2 ORDER BY 2, 1`, sessionPrefix)
	if err != nil {
		return nil, fmt.Errorf("cannot read which processes are connected: %w", err)
	}
	var (
		words []string
		one   Process
	)
	_, err = pgx.ForEachRow(rows, []any{&words, &one.Address, &one.Connections}, func() error {
		one.Roles, one.Mark = rolesAndMark(words)
		one.Most = mostAllowed(env, one.Roles)
		u.Processes = append(u.Processes, one)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("cannot read which processes are connected: %w", err)
	}
	if needed := mostAllowed(env, Roles()); u.Left < needed && !db.Pooled {
		u.Warning = fmt.Sprintf("raise max_connections, or run fewer processes, or bound each by LEDGERFEED_CONNECTIONS: one with all roles uses up to %d (docs/operations/sizing.md)", needed)
	}
	return u, nil
}

// mostAllowed is Allowed, or what the roles use where the settings allow too few.
func mostAllowed(env *cli.Env, roles []string) int {
	if n, err := Allowed(env, roles); err == nil {
		return n
	}
	return Connections(roles...)
}

// rolesAndMark takes the words of a session's name apart.
func rolesAndMark(words []string) (roles []string, mark string) {
	roles = []string{}
	for _, w := range words {
		if slices.Contains(AllRoles(), w) {
			roles = append(roles, w)
		} else {
			mark = w
		}
	}
	return roles, mark
}
