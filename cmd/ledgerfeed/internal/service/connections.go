package service

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed/internal/operate"
	"github.com/ledgerfeed/ledgerfeed/internal/listening"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
	"github.com/ledgerfeed/ledgerfeed/internal/relay"
	"github.com/ledgerfeed/ledgerfeed/projections"
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
// other half stays for PostgreSQL, webhooks and files. A connection takes about
// 13 KB, so all of the API's together take 50 MB.
func connectionsOf(name string, descriptors int) int {
	most, sixteenths := 64, 1
	switch name {
	case RoleAPI:
		most, sixteenths = 4096, 9
	case RoleConsole, RoleIngestAPI:
		most, sixteenths = 512, 3
	}
	return max(1, min(most, descriptors/2/16*sixteenths))
}

// limitConnections bounds the connections of a listener, whose server it prepares.
func (s *Service) limitConnections(ctx context.Context, b *binding, bound net.Listener) *listening.LimitedListener {
	refused := prometheus.NewCounter(prometheus.CounterOpts{
		Name: "ledgerfeed_connections_refused_total", Help: "Connections for which a listener had no place.",
		ConstLabels: prometheus.Labels{"listener": b.name},
	})
	evicted := prometheus.NewCounter(prometheus.CounterOpts{
		Name: "ledgerfeed_connections_evicted_total", Help: "Idle connections that a listener closed to make room for others.",
		ConstLabels: prometheus.Labels{"listener": b.name},
	})
	most := connectionsOf(b.name, listening.Descriptors())
	var logged atomic.Int64 // the minute
	cfg := listening.LimitConfig{
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
	limited := listening.WithLimits(bound, cfg)
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

// Shares of the connections to the database that do not belong to one role alone.
const (
	sharedShare  = "shared"
	controlShare = "control"      // keys, limits, leases, and marks of what is in progress
	massShare    = "mass changes" // claims of entries that change very many rows
	verification = "verification"
	sessions     = "verification sessions" // with temporary tables
	listsShare   = "whole lists"
	downloads    = "downloads" // of the console
)

// share is a part of the connections of a process.
type share struct {
	name    string
	role    string // whose it is; empty: every role's
	least   int    // connections that are reserved for it
	want    int    // more than so many would make nothing faster
	long    bool   // one use may take minutes
	cancels bool   // it only reads, for callers who may go away
}

// sharesOf returns the shares of a process with some roles that reads up to lists whole lists
// at a time. A slow reader, a locked row or a flood of requests holds up its own share: every
// other one has a connection reserved. A claim or a verification that needs a second connection
// takes it from another share, in which nobody waits for one of the first.
func sharesOf(roles []string, lists int) []share {
	all := []share{
		{name: sharedShare, least: 1, want: 5},
		{name: controlShare, least: 2, want: 6},
		{name: RoleAPI, role: RoleAPI, least: 1, want: 11, cancels: true}, // more pages at a time would only make each slower
		{name: listsShare, role: RoleAPI, want: lists, long: true, cancels: true},
		{name: RoleProject, role: RoleProject, least: 1, want: projections.DefaultWorkers + 1}, // and one for the trees of events
		{name: massShare, role: RoleProject, want: projections.DefaultMassWorkers, long: true},
		{name: verification, role: RoleProject, want: 1},
		{name: sessions, role: RoleProject, want: 2, long: true},
		{name: RoleDeliver, role: RoleDeliver, least: 1, want: 7},
		{name: RoleConsole, role: RoleConsole, least: 1, want: 4, cancels: true},
		{name: downloads, role: RoleConsole, want: 2, long: true, cancels: true},
		{name: RoleRelay, role: RoleRelay, least: 1, want: relay.Workers},
		{name: RoleIngest, role: RoleIngest, least: 1, want: 6}, // in addition to those to a producer's database
		{name: RoleIngestAPI, role: RoleIngestAPI, least: 1, want: 8},
	}
	return slices.DeleteFunc(all, func(s share) bool { return s.role != "" && !slices.Contains(roles, s.role) })
}

const (
	// single is how many connections are in no share: the one that receives notifications.
	single = 1

	// leastCommon is how many connections there must be that are reserved for no share.
	leastCommon = 2

	// spareConnections is how many more connections than it needs a process has by default, unless
	// its roles cannot use as many. With the first four roles that makes 20.
	spareConnections = 10

	// defaultLists is the default of LEDGERFEED_WHOLE_LISTS.
	defaultLists = 4
)

// Connections is how many connections to the database a process with some roles has at
// most, with the settings' defaults.
func Connections(roles ...string) int { return defaultOf(roles, defaultLists) }

func defaultOf(roles []string, lists int) int {
	return min(LeastConnections(roles...)+spareConnections, mostOf(roles, lists))
}

// mostOf is how many connections a process with some roles can use.
func mostOf(roles []string, lists int) int {
	n := single
	for _, s := range sharesOf(roles, lists) {
		n += s.want
	}
	return n
}

// LeastConnections is how many it needs.
func LeastConnections(roles ...string) int {
	n := single + leastCommon
	for _, s := range sharesOf(roles, defaultLists) {
		n += s.least
	}
	return n
}

// Allowed is how many connections a process with some roles may have. The error names the
// setting that allows too few.
func Allowed(env *operate.Env, roles []string) (int, error) {
	most := mostOf(roles, listsOf(env))
	if env.Settings.Connections == 0 {
		most = defaultOf(roles, listsOf(env))
	}
	return operate.Connections(env, "serve --roles "+strings.Join(roles, ","), LeastConnections(roles...), most)
}

// listsOf is how many whole lists are read at the same time, as the settings have it.
func listsOf(env *operate.Env) int { return cmp.Or(env.Settings.WholeLists, defaultLists) }

// enoughCommon is the number of unreserved connections from which one of them is reserved for mass
// changes, so that long reads never stop a workspace from being projected.
const enoughCommon = 4

// divide returns the reserved connections and the limit of each share, for a process with all
// connections. A share may use up to two thirds of the connections that are not reserved, or two
// fifths if its uses take minutes.
func divide(all int, roles []string, lists int) map[string]pg.ShareOptions {
	shares := sharesOf(roles, lists)
	common := all - single
	for _, s := range shares {
		common -= s.least
	}
	options := map[string]pg.ShareOptions{}
	for _, s := range shares {
		part := max(1, common*2/3)
		if s.long {
			part = max(1, common*2/5)
		}
		if s.name == massShare && common >= enoughCommon {
			s.least = 1
		}
		options[s.name] = pg.ShareOptions{
			Name: s.name, Least: s.least, Most: min(s.want, s.least+part), Long: s.long, CancelStatements: s.cancels,
		}
	}
	return options
}

// prepareNotifier makes what notifies other processes, and says it where it hears of none.
func prepareNotifier(ctx context.Context, s *Service) (err error) {
	parameters := map[string]string{"application_name": sessionName(s.roles, s.connections.mark, "")}
	s.notifier, err = operate.NewNotifier(s.env, s.database, s.shared, parameters)
	if err != nil {
		return err
	}
	if s.notifier.Listening() == nil {
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
func ReadServerUse(ctx context.Context, env *operate.Env, db *operate.Database, pool pg.DB) (*ServerUse, error) {
	u := &ServerUse{Processes: []Process{}}
	// Of other accounts' sessions, an account without pg_read_all_stats sees no type.
	err := pool.QueryRow(ctx, `
		SELECT current_setting('max_connections')::integer, current_setting('superuser_reserved_connections')::integer,
		       (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend' OR backend_type IS NULL AND usesysid IS NOT NULL AND datid IS NOT NULL)`).Scan(&u.Max, &u.Reserved, &u.Used)
	if err != nil {
		return nil, fmt.Errorf("cannot count connections: %w", err)
	}
	u.Left = max(0, u.Max-u.Reserved-u.Used)
	var (
		words []string
		one   Process
	)
	err = pg.ForEach(ctx, pool, `
		SELECT string_to_array(split_part(substr(application_name, length($1) + 1), ';', 1), ' '), coalesce(host(client_addr), ''), count(*)
		  FROM pg_stat_activity WHERE datname = current_database() AND starts_with(application_name, $1)
		 GROUP BY 1, 2 ORDER BY 2, 1`, []any{sessionPrefix}, []any{&words, &one.Address, &one.Connections}, func() error {
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
func mostAllowed(env *operate.Env, roles []string) int {
	if n, err := Allowed(env, roles); err == nil {
		return n
	}
	return Connections(roles...)
}

// rolesAndMark takes the words of a session's name apart.
func rolesAndMark(words []string) (roles []string, mark string) {
	roles = []string{}
	for _, w := range words {
		if i := slices.IndexFunc(AllRoles(), func(r string) bool { return w == r || w == shortRole(r) }); i >= 0 {
			roles = append(roles, AllRoles()[i])
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
// roles. They are few, because PostgreSQL keeps 63 bytes of a name. No role has as many, long or short.
func newMark() string {
	mark := make([]byte, 4)
	_, _ = rand.Read(mark) // never fails
	for i, b := range mark {
		mark[i] = 'a' + b%26
	}
	return string(mark)
}

// longestName is how many bytes of a session's name PostgreSQL keeps.
const longestName = 63

// shortRole is a role in the name of a session in which all names do not fit. It has three letters,
// so it is no mark.
func shortRole(role string) string {
	if role == RoleIngestAPI {
		return "put"
	}
	return role[:3]
}

// sessionName is the application_name that tells the roles of a process. A name that the
// operator chose follows them.
func sessionName(roles []string, mark, own string) string {
	name := sessionPrefix + strings.Join(roles, " ") + " " + mark
	if len(name) > longestName {
		name = sessionPrefix
		for _, r := range roles {
			name += shortRole(r) + " "
		}
		name += mark
	}
	if own != "" {
		name += "; " + own
	}
	return name
}

// nameSessions gives the name to the sessions of the pool, and of the single connections
// that are made like them. Through a pooler, the connection that listens past it alone
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

// NoProjector says that no connected process has the role project, and what to do; empty: one has it,
// or a pooler hides which processes there are.
func NoProjector(ctx context.Context, d *operate.Deps) string {
	if d.Pooled && d.Direct == "" {
		return ""
	}
	if there, err := ConnectedRoles(ctx, d.Pool); err != nil || slices.Contains(there, RoleProject) {
		return ""
	}
	return "No connected process has the role project. Start one: ledgerfeed serve --roles project"
}

// ConnectedRoles lists the roles, of all serving processes together, that are connected to
// the database, in the order of AllRoles. Any account may ask.
func ConnectedRoles(ctx context.Context, pool pg.DB) ([]string, error) {
	var short []string
	for _, r := range AllRoles() {
		short = append(short, shortRole(r))
	}
	list, err := pg.Collect(ctx, pool, pgx.RowTo[string], `
		SELECT role FROM unnest($2::text[], $3::text[]) WITH ORDINALITY AS r (role, short, n)
		 WHERE EXISTS (SELECT FROM pg_stat_activity a
		                WHERE a.datname = current_database() AND starts_with(a.application_name, $1)
		                  AND ARRAY[role, short] && string_to_array(split_part(substr(a.application_name, length($1) + 1), ';', 1), ' '))
		 ORDER BY n`, sessionPrefix, AllRoles(), short)
	if err != nil {
		return nil, fmt.Errorf("cannot read which processes are connected: %w", err)
	}
	return list, nil
}
