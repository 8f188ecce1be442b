package service

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed/internal/operate"
	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed/internal/proof"
	"github.com/ledgerfeed/ledgerfeed/delivery"
	"github.com/ledgerfeed/ledgerfeed/delivery/dispatch"
	"github.com/ledgerfeed/ledgerfeed/delivery/mail"
	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/eventlog/eventtree"
	"github.com/ledgerfeed/ledgerfeed/internal/audit"
	"github.com/ledgerfeed/ledgerfeed/internal/cli"
	"github.com/ledgerfeed/ledgerfeed/internal/console"
	"github.com/ledgerfeed/ledgerfeed/internal/console/pages"
	"github.com/ledgerfeed/ledgerfeed/internal/console/session"
	"github.com/ledgerfeed/ledgerfeed/internal/cosigning"
	"github.com/ledgerfeed/ledgerfeed/internal/listening"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
	"github.com/ledgerfeed/ledgerfeed/internal/relay"
	"github.com/ledgerfeed/ledgerfeed/internal/rollup"
	"github.com/ledgerfeed/ledgerfeed/internal/settings"
	"github.com/ledgerfeed/ledgerfeed/internal/signingkey"
	"github.com/ledgerfeed/ledgerfeed/internal/standby"
	"github.com/ledgerfeed/ledgerfeed/internal/texts"
	"github.com/ledgerfeed/ledgerfeed/projections"
	"github.com/ledgerfeed/ledgerfeed/projections/replay"
	"github.com/ledgerfeed/ledgerfeed/readapi"
	"github.com/ledgerfeed/ledgerfeed/readapi/access"
	"github.com/ledgerfeed/ledgerfeed/readapi/openapi"
	"github.com/ledgerfeed/ledgerfeed/readapi/reference"
	"github.com/ledgerfeed/ledgerfeed/readapi/requestlog"
)

// The roles of a serving process. Those with a listener name it, too.
const (
	RoleAPI     = "api"
	RoleProject = "project"
	RoleDeliver = "deliver"
	RoleConsole = "console"
	RoleRelay   = "relay"
	RoleIngest  = "ingest"

	RoleIngestAPI = "ingest-api"
)

// AdminListener is the listener that every serving process has.
const AdminListener = "admin"

// Roles are the roles of a process for which none are chosen, in the order in which they
// start.
func Roles() []string { return []string{RoleAPI, RoleProject, RoleDeliver, RoleConsole} }

// AllRoles are Roles and the roles that --roles must name: they need another system, or accept entries.
func AllRoles() []string { return append(Roles(), RoleRelay, RoleIngest, RoleIngestAPI) }

// CheckRoles returns a UsageError for an unknown role, for none, or for one that lacks its
// setting.
func CheckRoles(roles []string, set *settings.Settings) error {
	for _, r := range roles {
		if !slices.Contains(AllRoles(), r) {
			return cli.Usagef("--roles: there is no role %q; want some of %s%s", r, strings.Join(AllRoles(), ", "), texts.DidYouMean(r, AllRoles()))
		}
	}
	if len(roles) == 0 {
		return cli.Usagef("--roles: want at least one of %s", strings.Join(AllRoles(), ", "))
	}
	if slices.Contains(roles, RoleRelay) && set.RelayURL == "" {
		return cli.Usagef("the role %s needs LEDGERFEED_RELAY_URL, the address of a message broker, such as nats://127.0.0.1:4222/?replicas=1", RoleRelay)
	}
	if slices.Contains(roles, RoleIngest) && set.IngestURL == "" {
		return cli.Usagef("the role %s needs LEDGERFEED_INGEST_URL, the address of a stream or of a producer's outbox", RoleIngest)
	}
	if slices.Contains(roles, RoleIngestAPI) && set.IngestListen == "" {
		return cli.Usagef("the role %s needs LEDGERFEED_INGEST_LISTEN, the address at which producers append over HTTP, such as 127.0.0.1:8082", RoleIngestAPI)
	}
	return nil
}

// New prepares a process with some roles: it waits until the schema of the database fits
// the program, connects to it and binds the listeners. Run starts it. When ctx ends while
// it waits, the error is ErrStoppedWaiting.
func New(ctx context.Context, env *operate.Env, db *operate.Database, roles []string) (*Service, error) {
	registry := prometheus.NewRegistry()
	s := &Service{env: env, database: db, roles: roles, metrics: registry, pools: NewPools()}
	err := s.prepare(ctx, func() error {
		if err := s.prepareProcess(); err != nil {
			return err
		}
		return s.startAdmin(ctx, s.readyz, registry)
	})
	if err != nil {
		return nil, err
	}
	return s, nil
}

// prepareProcess prepares what a process has once.
func (s *Service) prepareProcess() error {
	s.restoreHeap = cli.LetHeapGrow() // before anything asks how much memory there is
	s.metrics.MustRegister(buildMetric(), collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	s.metrics.MustRegister(s.env.Traces.Collectors()...)
	return s.loadCertificate()
}

// buildMetric is always 1, and has the build as labels.
func buildMetric() prometheus.Collector {
	build := cli.ReadBuildInfo()
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "ledgerfeed_build_info", Help: "Version of the program as labels; the value is always 1.",
		ConstLabels: prometheus.Labels{"version": build.Version, "commit": build.Commit, "go": build.Go},
	}, func() float64 { return 1 })
}

// prepare prepares the service of a database. before is done first.
func (s *Service) prepare(ctx context.Context, before func() error) (err error) {
	if s.connections.most, err = Allowed(s.env, s.roles); err != nil {
		return err
	}
	s.connections.mark = newMark()
	s.connections.of = divide(s.connections.most, s.roles, listsOf(s.env))
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	s.metrics.MustRegister(s.pools)
	s.metrics.MustRegister(s.collectors()...)
	if err := before(); err != nil {
		return err
	}
	if err := s.awaitSchema(ctx); err != nil {
		return err
	}
	if err := s.openPool(ctx); err != nil {
		return err
	}
	return pg.Within(ctx, startQuestions*s.pool.AnswerTimeout(), s.prepareRoles)
}

// A start asks about a dozen questions. startQuestions limits all of them together to the time that so
// many may take, so that one slow answer does not end the start.
const startQuestions = 4

// prepareRoles prepares what the roles run.
func (s *Service) prepareRoles(ctx context.Context) (err error) {
	control := s.share(controlShare, nil)
	if err := s.recordRetention(ctx); err != nil {
		return err
	}
	if err := s.compareClock(ctx); err != nil {
		return err
	}
	s.Add("clock", s.watchClock)
	if err := prepareNotifier(ctx, s); err != nil {
		return err
	}
	if s.Log, err = eventlog.New(eventlog.Config{Pool: s.shared, Clock: s.env.Clock, Notify: s.notifier.Notify, Tracer: s.env.Traces.Tracer(), Metrics: s.metrics}); err != nil {
		return err
	}
	s.Add("notifications", s.notifier.Run)
	if err := followStandbys(s); err != nil {
		return err
	}
	s.metrics.MustRegister(Notifications(s.notifier)...)
	state, err := NewState(s.shared, s.env.Logger, s.metrics)
	if err != nil {
		return err
	}
	s.Add("metrics of the state", state.Run)
	s.Add("database", s.database.Watch)
	for _, r := range []struct {
		role    string
		prepare func(context.Context) error
	}{
		{RoleAPI, func(ctx context.Context) error { return s.prepareAPI(ctx, control) }},
		{RoleProject, func(ctx context.Context) error { return s.prepareProjector(ctx, control) }},
		{RoleDeliver, func(context.Context) error { return s.prepareDelivery(control) }},
		{RoleConsole, s.prepareConsole},
		{RoleRelay, func(context.Context) error { return prepareRelay(s, control) }},
		{RoleIngest, func(ctx context.Context) error { return prepareIngest(ctx, s) }},
		{RoleIngestAPI, func(ctx context.Context) error { return prepareIngestAPI(ctx, s) }},
	} {
		if !slices.Contains(s.roles, r.role) {
			continue
		}
		if needsSecretKey(r.role) {
			if err := s.prepareSecretKeys(ctx); err != nil {
				return err
			}
			if s.refused != nil {
				s.env.Logger.ErrorContext(ctx, "not starting a role, because its keys for webhooks' secrets do not fit the database; the process is not ready", "role", r.role, "error", s.refused)
				continue
			}
		}
		if err := r.prepare(ctx); err != nil {
			return err
		}
	}
	return nil
}

// prepareAPI prepares the read API: keys, limits, the request log and the
// listener.
func (s *Service) prepareAPI(ctx context.Context, control *pg.Share) error {
	set := &s.env.Settings
	pool := s.share(RoleAPI, readapi.PoolSettings())
	notice, err := operate.BrandNotice(ctx, set.Brand, s.shared)
	if err != nil {
		return fmt.Errorf("look for keys: %w", err)
	}
	if notice != "" {
		s.env.Logger.WarnContext(ctx, notice)
	}
	format := access.NewFormat(set.Brand)
	directory, err := access.NewDirectory(access.DirectoryConfig{Pool: control, Format: format, Clock: s.env.Clock, Log: s.env.Logger})
	if err != nil {
		return err
	}
	limiter, err := access.NewLimiter(access.LimiterConfig{Pool: control, Clock: s.env.Clock, Log: s.env.Logger})
	if err != nil {
		return err
	}
	cursorKey, err := readapi.SharedCursorKey(ctx, s.shared)
	if err != nil {
		return err
	}
	signs, err := proof.Keys(ctx, s.env)
	if err != nil {
		return err
	}
	requests, err := requestlog.New(requestlog.Config{Pool: s.shared, Clock: s.env.Clock, Logger: s.env.Logger})
	if err != nil {
		return err
	}
	lists := s.wholeLists(listsShare, max(1, listsOf(s.env)/2))
	standbys, err := copyOf(ctx, s, RoleAPI, listsShare, pageOptions())
	if err != nil {
		return err
	}
	api, err := readapi.New(readapi.Config{
		Copy: standbys, Pool: pool, Feed: eventlog.NewFeed(pool), Keys: keysByClock{directory, &s.wrongClock}, Format: format, Limiter: limiter,
		Clock: s.env.Clock, Logger: s.env.Logger, Metrics: s.metrics, Tracer: s.env.Traces.Tracer(),
		Brand: set.Brand, BaseURL: set.BaseURL, DocsURL: set.DocsURL,
		TrustedProxies: set.TrustedProxies, CursorKey: cursorKey, Retention: set.Retention,
		Requests: requests, WholeLists: lists, Signing: signs, Notifier: s.notifier, CacheBytes: readapi.DefaultCacheBytes / max(1, len(s.env.Cells)),
		MaxWaitsHTTP1: max(1, connectionsOf(RoleAPI, listening.Descriptors())/2),
	})
	if err != nil {
		return fmt.Errorf("cannot prepare the API: %w", err)
	}
	s.probes.add(RoleAPI, api.Probe)
	s.Add("keys", directory.Run)
	s.Add("limits", limiter.Run)
	s.Add("request log", requests.Run)
	s.Add("requests that wait", api.Run)
	s.served.api, s.served.keys = api, directory
	if s.part != nil {
		return nil
	}
	return s.listenAPI(ctx, api, readapi.NewServer(api, s.env.Logger))
}

// listenAPI binds the listener of the API.
func (s *Service) listenAPI(ctx context.Context, api *readapi.API, server *http.Server) error {
	listener, err := s.bind(ctx, binding{
		name: RoleAPI, setting: "LEDGERFEED_LISTEN", address: s.env.Settings.Listen, server: server,
		wrap: api.RewriteErrors, refusal: api.RefuseConnection, certificate: s.certificate,
	})
	s.components = append(s.components, listener)
	return err
}

// listenConsole binds the listener of the console.
func (s *Service) listenConsole(ctx context.Context, server *http.Server) error {
	listener, err := s.bind(ctx, binding{
		name: RoleConsole, setting: "LEDGERFEED_CONSOLE_LISTEN", address: s.env.Settings.ConsoleListen, server: server, certificate: s.certificate,
	})
	s.components = append(s.components, listener)
	return err
}

// wholeLists are the connections of a share, on which as many whole lists are read at the
// same time.
func (s *Service) wholeLists(name string, ofWorkspace int) readapi.WholeLists {
	set := &s.env.Settings
	pool := s.share(name, readapi.WholeListPoolSettings(set.WholeListTimeout))
	return readapi.WholeLists{Pool: pool, Most: pg.Size(pool), MostOfWorkspace: ofWorkspace, Timeout: set.WholeListTimeout, Stall: set.WholeListStall}
}

// downloadKeeps is how long a download of the console keeps its place although somebody of another
// workspace waits for one. There are two places at most, because each is a connection to the
// database, and a workspace has one of them.
const downloadKeeps = 20 * time.Second

// prepareProjector prepares what folds the log into the read models, and what
// verifies them in the background.
func (s *Service) prepareProjector(ctx context.Context, control *pg.Share) error {
	commits := projections.PoolSettings()
	if s.env.Settings.ProjectCommit != "on" {
		commits["synchronous_commit"] = s.env.Settings.ProjectCommit
	}
	pool, mass, aux := s.share(RoleProject, commits), s.share(massShare, commits), control.With(projections.PoolSettings())
	runner, err := projections.NewRunner(projections.RunnerConfig{
		Pool: pool, MassPool: mass, AuxPool: aux, Notifier: s.notifier, Clock: s.env.Clock, Logger: s.env.Logger, Metrics: s.metrics, Tracer: s.env.Traces.Tracer(), Rules: s.env.Rules,
		Workers: min(projections.DefaultWorkers, pg.Size(pool)), MassWorkers: pg.Size(mass),
	})
	if err != nil {
		return err
	}
	s.probes.add(RoleProject, runner.Probe)
	s.Add("projector", runner.Run)
	if err := prepareTrees(ctx, s, pool.With(projections.PoolSettings()), aux); err != nil {
		return err
	}
	s.Add("forgetting", eventlog.NewForgetter(s.shared, s.env.Logger).Run)
	s.Add("counts of events", rollup.NewEvents(s.shared, s.env.Clock, s.env.Logger).Run)
	databases := 1
	if s.part != nil {
		databases = len(s.part.of.parts)
	}
	auditor, err := replay.NewAuditor(replay.AuditorConfig{
		Pool: s.shared.With(replay.PoolSettings()), Changes: s.share(verification, replay.PoolSettings()), Sessions: s.share(sessions, replay.PoolSettings()), Direct: s.database.Direct, Clock: s.env.Clock, Logger: s.env.Logger, Metrics: s.metrics, Rules: s.env.Rules,
		Every: s.env.Settings.AuditEvery, ConvertOnly: s.env.Settings.AuditEvery == 0, Notify: s.notifier.Notify,
		Memory: auditMemory(debug.SetMemoryLimit(-1), databases),
	})
	if err != nil {
		return err
	}
	s.Add("background verification", auditor.Run)
	return nil
}

// auditMemory is how many bytes the background verification of one of the databases may take, beside
// requests and with a heap that may be five times what is in use. limit is Go's memory limit.
func auditMemory(limit int64, databases int) int64 {
	const most = 64 << 20
	return max(1, min(most, limit/4)/int64(databases))
}

// prepareDelivery prepares what sends webhooks.
func (s *Service) prepareDelivery(control *pg.Share) error {
	engine, err := dispatch.New(dispatch.Config{
		Pool: s.share(RoleDeliver, dispatch.PoolSettings()), LeasePool: control.With(dispatch.PoolSettings()), Keyring: s.keyring, Notifier: s.notifier, Clock: s.env.Clock, Logger: s.env.Logger, Metrics: s.metrics, Tracer: s.env.Traces.Tracer(),
		Settings: s.env.Settings.Delivery(), Mail: s.env.Settings.Mail(),
	})
	if err != nil {
		return fmt.Errorf("cannot prepare webhooks: %w", err)
	}
	s.probes.add(RoleDeliver, engine.Probe)
	s.Add("webhooks", engine.Run)
	return nil
}

// prepareConsole prepares the web interface and its listener.
func (s *Service) prepareConsole(ctx context.Context) error {
	set := &s.env.Settings
	options := pg.Options{Settings: console.PoolSettings(), CancelStatements: true}
	pool := s.share(RoleConsole, options.Settings)
	keys, err := access.NewStore(access.StoreConfig{Pool: pool, Format: access.NewFormat(set.Brand), Clock: s.env.Clock})
	if err != nil {
		return err
	}
	// The pages of the API are read with its planner settings, here too: a connection keeps the
	// plan of a statement, whichever share made it.
	reading := pool.With(both(readapi.PoolSettings(), options.Settings))
	feed := eventlog.NewFeed(reading)
	webhooks, err := delivery.NewStore(delivery.StoreConfig{
		Pool: pool, Feed: feed, Keyring: s.keyring, Log: s.Log, Notify: s.notifier.Notify, Clock: s.env.Clock, Settings: set.Delivery(),
	})
	if err != nil {
		return err
	}
	sessions, err := session.NewStore(session.Config{Pool: pool, Clock: s.env.Clock, Cell: s.env.Cell, Others: s.part.otherSessions()})
	if err != nil {
		return err
	}
	url := set.ConsoleAddress()
	if set.ConsoleURL == "" && strings.HasPrefix(url, "https:") {
		s.env.Logger.WarnContext(ctx, "LEDGERFEED_CONSOLE_URL is not set: people can sign in to the console over https only", "expected_at", url)
	}
	look, err := set.Theme()
	if err != nil {
		return err
	}
	mailer, err := mail.New(set.Mail(), pool, s.env.Clock, s.env.Logger)
	if err != nil {
		return err
	}
	cursorKey, err := readapi.SharedCursorKey(ctx, s.shared)
	if err != nil {
		return err
	}
	files := s.wholeLists(downloads, 1)
	files.Keep = downloadKeeps
	standbys, err := copyOf(ctx, s, RoleConsole, downloads, options)
	if err != nil {
		return err
	}
	reader, err := readapi.NewReader(readapi.Config{
		Copy: standbys, Pool: reading, Feed: feed, Format: access.NewFormat(set.Brand), Clock: s.env.Clock, Logger: s.env.Logger, Brand: set.Brand,
		BaseURL: set.BaseURL, DocsURL: set.DocsURL, CursorKey: cursorKey, Retention: set.Retention, Timeout: pages.BesideTimeout, WholeLists: files,
	})
	if err != nil {
		return fmt.Errorf("cannot prepare what the console reads: %w", err)
	}
	signingKeys, err := proof.Keys(ctx, s.env)
	if err != nil {
		return err
	}
	documentation, err := reference.Pages(openapi.Info{Brand: set.Brand, BaseURL: set.BaseURL, DocsURL: set.DocsURL}, signingKeys, reference.Under(console.ReferencePath))
	if err != nil {
		return err
	}
	c, err := console.New(console.Config{
		Pool: pool, LogPool: pool.With(both(replay.PoolSettings(), options.Settings)), Sessions: sessions, Audit: audit.NewTrail(pool), Keys: keys, Webhooks: webhooks, Log: s.Log, Mailer: mailer, Feed: feed, Reader: reader,
		Clock: s.env.Clock, Logger: s.env.Logger, Tracer: s.env.Traces.Tracer(), Settings: set.Delivery(), URL: url, EmbedOrigins: set.ConsoleEmbedOrigins, Theme: look, APIURL: set.BaseURL, Identity: set.Identity(), Reference: documentation, Signing: signingKeys,
	})
	if err != nil {
		return fmt.Errorf("cannot prepare the console: %w", err)
	}
	s.probes.add(RoleConsole, func(ctx context.Context) error {
		_, err := sessions.Workspaces(ctx, []string{})
		return err
	})
	s.Add("identity provider", c.Run)
	s.served.console, s.served.sessions = c, sessions
	if s.part != nil {
		return nil
	}
	return s.listenConsole(ctx, console.NewServer(c))
}

// both merges settings; others replace those of the same name.
func both(first, others map[string]string) map[string]string {
	all := maps.Clone(first)
	maps.Copy(all, others)
	return all
}

// prepareRelay prepares what sends the log to a message broker.
func prepareRelay(s *Service, control *pg.Share) error {
	set := &s.env.Settings
	claims := both(projections.PoolSettings(), relay.PoolSettings()) // the same statements as the projector's
	pool, aux := s.share(RoleRelay, claims), control.With(claims)
	o, broker, err := relay.CutOptions(set.RelayURL)
	if err != nil {
		return fmt.Errorf("LEDGERFEED_RELAY_URL: %w", err)
	}
	publisher, err := relay.OpenJetStream(broker, relay.BrokerConfig{Name: "ledgerfeed " + o.Name, Logger: s.env.Logger})
	if err != nil {
		return fmt.Errorf("LEDGERFEED_RELAY_URL: %w", err)
	}
	r, err := relay.New(relay.Config{
		Pool: pool, AuxPool: aux, Notifier: s.notifier, Publisher: publisher, Clock: s.env.Clock, Logger: s.env.Logger, Metrics: s.metrics,
		Name: o.Name, Form: o.Form, Envelope: o.Envelope, Source: set.BaseURL,
	})
	if err != nil {
		return err
	}
	s.probes.add(RoleRelay, r.Probe)
	s.Add("relay", r.Run)
	return nil
}

// pageOptions are the options of a pool that reads pages.
func pageOptions() pg.Options {
	return pg.Options{ReadBuffer: readapi.ReadBuffer, Settings: readapi.PoolSettings(), CancelStatements: true}
}

// listOptions are the options of a pool that reads whole lists.
func listOptions(set *settings.Settings) pg.Options {
	return pg.Options{ReadBuffer: readapi.ReadBuffer, Settings: readapi.WholeListPoolSettings(set.WholeListTimeout), CancelStatements: true}
}

// standbyConfig is how the standbys of the settings are followed.
func standbyConfig(env *operate.Env, pool pg.DB, logger *slog.Logger) standby.Config {
	return standby.Config{URL: env.Settings.ReadURL, Primary: pool, Logger: logger}
}

// followStandbys follows the standbys of the settings, if a role reads from them.
func followStandbys(s *Service) (err error) {
	if s.env.Settings.ReadURL == "" || !slices.Contains(s.roles, RoleAPI) && !slices.Contains(s.roles, RoleConsole) {
		return nil
	}
	cfg := standbyConfig(s.env, s.shared, s.env.Logger)
	cfg.Metrics = s.metrics
	if s.connections.standbys, err = standby.New(cfg); err != nil {
		return err
	}
	s.Add("standbys", s.connections.standbys.Run)
	return nil
}

// LookAtStandbys finds out, for a command, how the standbys of the settings are; nil: the
// settings name none.
func LookAtStandbys(ctx context.Context, env *operate.Env, pool pg.DB) (*standby.State, error) {
	if env.Settings.ReadURL == "" {
		return nil, nil
	}
	is, err := standby.Look(ctx, standbyConfig(env, pool, slog.New(slog.DiscardHandler)))
	return &is, err
}

// copyOf opens two pools of connections to the standbys, of the sizes of two shares of those to
// the primary, the first one for pages and with options; nil: there are no standbys.
// LEDGERFEED_CONNECTIONS is about the primary: the standbys take as many beside them.
func copyOf(ctx context.Context, s *Service, rows, lists string, o pg.Options) (c *readapi.Copy, err error) {
	from := s.connections.standbys
	if from == nil {
		return nil, nil
	}
	c = &readapi.Copy{Usable: from.Usable, Alive: from.Alive}
	if c.Pool, err = openStandbys(ctx, s, rows, o); err != nil {
		return nil, err
	}
	c.WholeLists, err = openStandbys(ctx, s, lists, listOptions(&s.env.Settings))
	return c, err
}

func openStandbys(ctx context.Context, s *Service, pool string, o pg.Options) (*pg.Pool, error) {
	o.MaxConns = int32(s.connections.of[pool].Most)
	o.Tracer = s.env.Traces.Statements()
	opened, err := s.connections.standbys.Open(ctx, o)
	if err != nil {
		return nil, err
	}
	s.pools.Add(pool+" at standbys", opened)
	return opened, nil
}

// prepareTrees prepares what adds events to the trees of their workspaces.
func prepareTrees(ctx context.Context, s *Service, pool, aux *pg.Share) error {
	gatherer, err := newGatherer(ctx, s)
	if err != nil {
		return err
	}
	var grown func(string, int64)
	if gatherer != nil {
		grown = gatherer.Grown
	}
	builder, err := eventtree.NewBuilder(eventtree.BuilderConfig{
		Pool: pool, AuxPool: aux, Notifier: s.notifier, Clock: s.env.Clock, Logger: s.env.Logger, Metrics: s.metrics,
		Grown: grown,
	})
	if err != nil {
		return err
	}
	s.Add("trees of events", builder.Run)
	if gatherer != nil {
		s.Add("cosignatures of witnesses", gatherer.Run)
	}
	return nil
}

// newGatherer makes what gathers the cosignatures of witnesses; nil: there are none.
func newGatherer(ctx context.Context, s *Service) (*cosigning.Gatherer, error) {
	set := &s.env.Settings
	if len(set.Witnesses) == 0 {
		return nil, nil
	}
	keys, err := proof.Keys(ctx, s.env)
	if err != nil {
		return nil, err
	}
	if keys == nil {
		return nil, fmt.Errorf("LEDGERFEED_WITNESSES: witnesses cosign what the service signs: %w", proof.ErrNoKey)
	}
	host, err := signingkey.Host(set.BaseURL)
	if err != nil {
		return nil, fmt.Errorf("LEDGERFEED_WITNESSES needs LEDGERFEED_BASE_URL, with which the names of trees begin: %w", err)
	}
	return cosigning.New(cosigning.Config{
		Pool: s.shared.With(readapi.PoolSettings()), Witnesses: set.Witnesses, Keys: keys, Host: host, Clock: s.env.Clock, Logger: s.env.Logger, Metrics: s.metrics,
		HTTP: http.DefaultTransport,
	})
}
