package service

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed/internal/cli"
	"github.com/ledgerfeed/ledgerfeed/eventlog/eventtree"
	"github.com/ledgerfeed/ledgerfeed/internal/connlimit"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
	"github.com/ledgerfeed/ledgerfeed/internal/relay"
	"github.com/ledgerfeed/ledgerfeed/projections"
)

// The most connections of the listeners beside the API's, which is a setting.
const (
	maxConsoleConnections = 512
	maxAdminConnections   = 64
)

// unprovenIdle is how long a connection to a listener may be idle before a valid key
// came over it. Those of the console and of operators never have one. It must not be
// shorter than what the listener's server allows for a request, which it bounds, too.
func unprovenIdle(name string) time.Duration {
	if name == RoleAPI {
		return 10 * time.Second
	}
	return 30 * time.Second
}

// connectionsOf is how many connections a listener may have, with so many
// descriptors for the process. All listeners together get one half of them: the
// other half stays for PostgreSQL, webhooks and files.
func connectionsOf(name string, descriptors, maxAPI int) int {
	half := descriptors / 2
	switch name {
	case RoleAPI:
		return max(1, min(maxAPI, half/4*3))
	case RoleConsole:
		return max(1, min(maxConsoleConnections, half/16*3))
	default:
		return max(1, min(maxAdminConnections, half/16))
	}
}

// limitConnections bounds the connections of a listener, whose server it prepares.
func (s *Service) limitConnections(ctx context.Context, b *binding, bound net.Listener) *connlimit.Listener {
	refused := prometheus.NewCounter(prometheus.CounterOpts{
		Name: "ledgerfeed_connections_refused_total", Help: "Connections for which a listener had no place.",
		ConstLabels: prometheus.Labels{"listener": b.name},
	})
	evicted := prometheus.NewCounter(prometheus.CounterOpts{
		Name: "ledgerfeed_connections_evicted_total", Help: "Idle connections that a listener closed to make room for others.",
		ConstLabels: prometheus.Labels{"listener": b.name},
	})
	most := connectionsOf(b.name, connlimit.Descriptors(), s.env.Settings.MaxConnections)
	var logged atomic.Int64 // the minute
	cfg := connlimit.Config{
		Max: most, MaxPerAddress: (most + 1) / 2, Proxies: s.env.Settings.TrustedProxies, UnprovenIdle: unprovenIdle(b.name), Refusal: b.refusal,
		Evicted: evicted.Inc,
		Refused: func() {
			refused.Inc()
			if minute := s.env.Clock().Unix() / 60; logged.Swap(minute) != minute {
				s.env.Logger.WarnContext(ctx, "connections are refused: the listener has reached its limit, in all or from one address; further refusals are not logged this minute",
					"listener", b.name, "most", most, "most_from_one_address", (most+1)/2)
			}
		},
	}
	if cfg.Refusal == nil {
		cfg.Refusal = refuseInWords
	}
	limited := connlimit.Wrap(bound, cfg)
	b.server.ConnState = limited.ConnState
	s.metrics.MustRegister(refused, evicted, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "ledgerfeed_connections", Help: "Connections that a listener has.",
		ConstLabels: prometheus.Labels{"listener": b.name},
	}, func() float64 { return float64(limited.Open()) }))
	return limited
}

// refuseInWords is the answer of listeners for people and operators to a connection
// for which they have no place.
func refuseInWords(string) []byte {
	const text = "There are as many connections as this address of the service may have. Try again in a few seconds.\n"
	return fmt.Appendf(nil, "HTTP/1.1 %d %s\r\nContent-Type: text/plain; charset=utf-8\r\nRetry-After: 10\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s",
		http.StatusServiceUnavailable, http.StatusText(http.StatusServiceUnavailable), len(text), text)
}

// Pools that are not those of a role alone.
const (
	sharedPool   = "shared"
	verification = "verification"
	listsPool    = "whole lists"
	downloads    = "downloads" // of the console
	treesPool    = "event trees"
)

// share is a pool's part of the connections of a process. Each pool is on its own, so that
// one slow reader, locked row or flood of requests keeps those of another role waiting as
// little as keys and leases.
type share struct {
	pool        string
	role        string // whose it is; empty: of all
	least, most int
}

// shares returns the share of each pool. With its least number of connections, no role waits for
// itself: the API has one connection beside those for pages, the dispatcher one for its lease
// beside four that may wait for locks, and the projector one claim beside the claims that change
// many rows. Each whole list that is read takes one connection. Where the API runs, following
// changes of keys and counting requests hold two of the shared ones.
func shares(lists int) []share {
	return []share{
		{sharedPool, "", 2, 5},
		{sharedPool, RoleAPI, 2, 2},
		{RoleAPI, RoleAPI, 4, 11}, // pages read at the same time; more would only make each slower
		{listsPool, RoleAPI, 1, lists},
		{RoleProject, RoleProject, projections.LeastConnections, projections.Connections},
		{verification, RoleProject, 3, 3},
		{treesPool, RoleProject, eventtree.Connections, eventtree.Connections},
		{RoleDeliver, RoleDeliver, 6, 7},
		{RoleConsole, RoleConsole, 4, 4},
		{downloads, RoleConsole, 1, 2},
		{RoleRelay, RoleRelay, relay.Connections, relay.Connections},
		{RoleIngest, RoleIngest, 6, 6}, // beside those to a producer's database
	}
}

// single is how many connections a process with some roles has that are in no pool: that
// which receives notifications, and that which verification opens for temporary tables.
func single(roles []string) int {
	if slices.Contains(roles, RoleProject) {
		return 2
	}
	return 1
}

// sharesOf are those of some roles, and of so many whole lists at the same time.
func sharesOf(roles []string, lists int) []share {
	return slices.DeleteFunc(shares(lists), func(s share) bool { return s.role != "" && !slices.Contains(roles, s.role) })
}

// Connections is how many connections to the database a process with some roles has at
// most, with the settings' defaults.
func Connections(roles ...string) int { return mostOf(roles, defaultLists) }

// defaultLists is the default of LEDGERFEED_WHOLE_LISTS.
const defaultLists = 4

func mostOf(roles []string, lists int) int {
	n := single(roles)
	for _, s := range sharesOf(roles, lists) {
		n += s.most
	}
	return n
}

// LeastConnections is how many it needs.
func LeastConnections(roles ...string) int {
	n := single(roles)
	for _, s := range sharesOf(roles, defaultLists) {
		n += s.least
	}
	return n
}

// Allowed is how many connections a process with some roles may have. The error names the
// setting that allows too few.
func Allowed(env *cli.Env, roles []string) (int, error) {
	who := "serve --roles " + strings.Join(roles, ",")
	return cli.Connections(env, who, LeastConnections(roles...), mostOf(roles, listsOf(env)))
}

// listsOf is how many whole lists are read at the same time, as the settings have it.
func listsOf(env *cli.Env) int { return cmp.Or(env.Settings.WholeLists, defaultLists) }

// divide gives each pool its part of the connections that a process may have: what it
// needs, and of the rest as much as it could use of all that could be used.
func divide(all int, roles []string, lists int) map[string]int {
	least, most := LeastConnections(roles...), mostOf(roles, lists)
	sizes := map[string]int{}
	var given, wanted int
	for _, s := range sharesOf(roles, lists) {
		sizes[s.pool] += s.least
		if most > least {
			// Each gets the difference of two rounded sums, so that nothing is left over.
			before := given
			wanted += s.most - s.least
			given = wanted * (all - least) / (most - least)
			sizes[s.pool] += given - before
		}
	}
	return sizes
}

// prepareNotifier makes what notifies other processes, and says it where it hears of none.
func prepareNotifier(ctx context.Context, s *Service) (err error) {
	parameters := map[string]string{"application_name": sessionName(s.roles, s.connections.mark, "")}
	s.notifier, err = cli.NewNotifier(s.env, s.database, s.pool, parameters)
	if err != nil {
		return err
	}
	if len(s.notifier.Ways()) == 0 {
		s.env.Logger.WarnContext(ctx, "the pooler passes no notifications on, and LEDGERFEED_LISTEN_DATABASE_URL is not set: this process finds the changes of others by sweeps, after about a second")
	}
	return nil
}

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
	Left      int       `json:"left"`     // how many of the server's connections are free for others, without its reserved ones
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
