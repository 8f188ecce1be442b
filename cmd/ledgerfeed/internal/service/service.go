// Package service runs a serving process: the components of its roles, their
// listeners, and how they start and stop together.
package service

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed/internal/operate"
	"github.com/ledgerfeed/ledgerfeed/delivery/keyring"
	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/internal/console"
	"github.com/ledgerfeed/ledgerfeed/internal/console/session"
	"github.com/ledgerfeed/ledgerfeed/internal/flow"
	"github.com/ledgerfeed/ledgerfeed/internal/listening"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
	"github.com/ledgerfeed/ledgerfeed/internal/standby"
	"github.com/ledgerfeed/ledgerfeed/readapi"
	"github.com/ledgerfeed/ledgerfeed/readapi/access"
)

// Service is a serving process. Its components run together: when one fails,
// all stop.
type Service struct {
	Log *eventlog.Log

	env      *operate.Env
	database *operate.Database
	metrics  prometheus.Registerer
	part     *part                // of a process with several cells; nil: the process has one database
	registry *prometheus.Registry // what metrics registers; nil: not of a part
	served   served
	notifier *eventlog.Notifier
	pool     *pg.Pool  // all connections to the database but that for notifications
	shared   *pg.Share // of what has no share of its own
	pools    *Pools

	connections struct { // to the database
		most     int
		of       map[string]pg.ShareOptions
		mark     string           // in their names, for this process
		name     string           // of their sessions in PostgreSQL; empty: as DATABASE_URL has it
		standbys *standby.Address // answers are read from; nil: all from the database
	}
	ready   atomic.Bool            // becomes false before the listeners close
	unready atomic.Pointer[string] // why it is not ready although it runs; nil or empty: it is

	roles  []string
	probes probes

	wrongClock  atomic.Pointer[string] // what is wrong with the clock; nil: nothing
	certificate *listening.Certificate // of the API and the console; nil: no TLS

	keysAsked bool                  // a role needs the keys for webhooks' secrets
	keyring   *keyring.Keyring      // these keys
	refused   *keyring.MissingError // why there are none

	components []component
	admin      *group // the listener for operators and the watchdog: from the beginning to the very end
	listeners  []listener

	restoreHeap func() // nil: this Service has not changed how the heap grows
}

// served is what answers the requests of a process with several cells.
type served struct {
	api      *readapi.API
	keys     *access.Directory
	console  *console.Console
	sessions *session.Store
}

// openPool opens the pool of the process.
func (s *Service) openPool(ctx context.Context) (err error) {
	if err := nameSessions(s); err != nil {
		return err
	}
	o := pg.Options{
		MaxConns: int32(s.connections.most - single), ReadBuffer: readapi.ReadBuffer, Tracer: s.env.Traces.Statements(),
	}
	if s.connections.name != "" {
		o.Settings = map[string]string{"application_name": s.connections.name}
	}
	if s.pool, err = pg.Open(ctx, s.database.URL, o); err != nil {
		return err
	}
	s.pools.Add("", s.pool)
	s.shared = s.share(sharedShare, nil)
	return nil
}

// share makes a share of the pool, whose statements have settings.
func (s *Service) share(name string, settings map[string]string) *pg.Share {
	o := s.connections.of[name]
	o.Settings = settings
	share := s.pool.NewShare(o)
	s.pools.AddShare(share)
	return share
}

// Add adds a component; run returns when its context ends.
func (s *Service) Add(name string, run func(context.Context) error) {
	s.components = append(s.components, component{name, run})
}

// SayFirstStep makes the process log, once it serves, how to begin on a database without a workspace.
func (s *Service) SayFirstStep() {
	s.Add("first step", func(ctx context.Context) error {
		if step, err := operate.FirstStep(ctx, s.shared); err == nil && step != "" {
			s.env.Logger.InfoContext(ctx, step)
		}
		<-ctx.Done()
		return nil
	})
}

// flushTimeout bounds the last notifications to other processes.
const flushTimeout = time.Second

// Run runs all components until ctx ends or one of them fails, and waits for
// all. When ctx ends, /readyz says so first and requests are still served for the
// drain delay, so that load balancers see it and stop sending requests.
func (s *Service) Run(ctx context.Context) error {
	defer s.close()
	for _, l := range s.listeners {
		s.env.Logger.InfoContext(ctx, "listening", "for", l.name, "url", l.url)
	}
	s.ready.Store(true)
	others := start(ctx, s.components)
	tellSystemd(ctx, s.env.Logger, daemon.SdNotifyReady)
	select {
	case <-ctx.Done():
	case <-s.admin.ctx.Done():
	case <-others.ctx.Done():
	}
	s.ready.Store(false)
	drain(ctx, s.env, others)
	return cmp.Or(s.finish(ctx, others), s.admin.stop())
}

// drain goes on for the drain delay when the process was told to stop, unless a component fails.
func drain(ctx context.Context, env *operate.Env, components *group) {
	tellSystemd(ctx, env.Logger, daemon.SdNotifyStopping)
	if delay := env.Settings.DrainDelay; ctx.Err() != nil && delay > 0 {
		env.Logger.InfoContext(ctx, "not ready any more, stopping soon", "in", delay)
		flow.Sleep(components.ctx, delay)
	}
	env.Logger.InfoContext(ctx, "stopping")
}

// finish ends the components, and notifies other processes of the last changes.
func (s *Service) finish(ctx context.Context, components *group) error {
	err := components.stop()
	flush, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushTimeout)
	defer cancel()
	if err := s.notifier.Flush(flush); err != nil {
		s.env.Logger.WarnContext(ctx, "cannot notify other processes of the last changes; they find them within seconds by polling", "error", err)
	}
	return err
}

func (s *Service) close() {
	if s.admin != nil {
		_ = s.admin.stop() // what it failed with is not what ends the process
	}
	s.pools.Close()
	if s.restoreHeap != nil {
		s.restoreHeap()
	}
}

// URL is the address of a listener, by the name of its role or AdminListener;
// empty when the process does not have it.
func (s *Service) URL(name string) string {
	for _, l := range s.listeners {
		if l.name == name {
			return l.url
		}
	}
	return ""
}

// listener is an address that the process listens at.
type listener struct{ name, url string }

// binding is what bind binds.
type binding struct {
	name             string
	setting, address string // setting is the variable that chose the address, for the error
	server           *http.Server
	wrap             func(net.Listener) net.Listener // nil: none
	refusal          func(peer string) []byte        // nil: one for people
	certificate      *listening.Certificate          // nil: no TLS
}

// bind binds an address now, so that one that is taken is an error at once, and
// returns the component that serves it. The component finishes requests under way
// before it ends.
func (s *Service) bind(ctx context.Context, b binding) (component, error) {
	var config net.ListenConfig
	bound, err := config.Listen(ctx, "tcp", b.address)
	if errors.Is(err, syscall.EADDRINUSE) {
		err = fmt.Errorf("%w: a demo or another ledgerfeed serve may be running on this machine", err)
	}
	if err != nil {
		return component{}, fmt.Errorf("cannot listen for the %s (%s sets the address): %w", b.name, b.setting, err)
	}
	scheme := "http://"
	if b.certificate != nil {
		scheme, b.refusal = "https://", listening.TLSRefusal
	}
	s.listeners = append(s.listeners, listener{b.name, scheme + bound.Addr().String()})
	bound = s.limitConnections(ctx, &b, bound)
	if b.certificate != nil {
		bound = listening.WithTLS(bound, b.certificate)
	}
	if b.wrap != nil {
		bound = b.wrap(bound)
	}
	return component{b.name, func(ctx context.Context) error { return serve(ctx, b.name, bound, b.server, s.env.Logger) }}, nil
}

// startAdmin starts what runs as long as the process: systemd's watchdog, and the listener
// for operators, which says whether the process is alive, whether it is ready for requests,
// and its metrics. It is not for the internet.
func (s *Service) startAdmin(ctx context.Context, ready http.HandlerFunc, metrics prometheus.Gatherer) error {
	r := chi.NewRouter()
	r.Use(middleware.GetHead)
	r.Get("/healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	r.Get("/readyz", ready)
	r.Method(http.MethodGet, "/metrics", promhttp.HandlerFor(metrics, promhttp.HandlerOpts{Registry: s.metrics, EnableOpenMetrics: true}))
	if s.env.Settings.PProf {
		profiles(r)
	}
	listener, err := s.bind(ctx, binding{name: AdminListener, setting: "LEDGERFEED_ADMIN_LISTEN", address: s.env.Settings.AdminListen, server: &http.Server{
		Handler:           r,
		ReadHeaderTimeout: 5 * time.Second,
		WriteTimeout:      30 * time.Second,
		IdleTimeout:       time.Minute,
		ErrorLog:          slog.NewLogLogger(s.env.Logger.Handler(), slog.LevelWarn),
	}})
	if err != nil {
		return err
	}
	s.admin = start(ctx, []component{listener, {"watchdog", func(ctx context.Context) error { return feedWatchdog(ctx, s.env.Logger) }}})
	return nil
}

// profiles offers what go tool pprof reads.
func profiles(r chi.Router) {
	r.Get("/debug/pprof/*", pprof.Index)
	r.Get("/debug/pprof/cmdline", pprof.Cmdline)
	r.Get("/debug/pprof/profile", pprof.Profile)
	r.Get("/debug/pprof/symbol", pprof.Symbol)
	r.Get("/debug/pprof/trace", pprof.Trace)
}

// tellSystemd tells systemd about a change of state, where it started the process
// with Type=notify; elsewhere it does nothing.
func tellSystemd(ctx context.Context, logger *slog.Logger, state string) {
	if _, err := daemon.SdNotify(false, state); err != nil {
		logger.WarnContext(ctx, "cannot notify systemd", "state", state, "error", err)
	}
}

// feedWatchdog tells systemd's watchdog, where the unit has one (WatchdogSec), that
// the process is alive, until ctx ends. It does so three times in each period. A
// database that is away is no reason to be restarted, so it is not asked.
func feedWatchdog(ctx context.Context, logger *slog.Logger) error {
	period, err := daemon.SdWatchdogEnabled(false)
	if err != nil {
		logger.WarnContext(ctx, "cannot read the period of systemd's watchdog", "error", err)
	}
	if period == 0 {
		<-ctx.Done()
		return nil
	}
	ticker := time.NewTicker(period / 3)
	defer ticker.Stop()
	for {
		tellSystemd(ctx, logger, daemon.SdNotifyWatchdog)
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// loadCertificate reads the certificate with which the API and the console speak TLS,
// if there is one.
func (s *Service) loadCertificate() (err error) {
	set := &s.env.Settings
	if set.TLSCert == "" {
		return nil
	}
	s.certificate, err = listening.LoadCertificate(listening.CertificateConfig{CertFile: set.TLSCert, KeyFile: set.TLSKey, Clock: s.env.Clock, Logger: s.env.Logger})
	if err != nil {
		return fmt.Errorf("LEDGERFEED_TLS_CERT is %q and LEDGERFEED_TLS_KEY is %q: %w", set.TLSCert, set.TLSKey, err)
	}
	s.metrics.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "ledgerfeed_tls_certificate_expiry_timestamp_seconds", Help: "When the TLS certificate of the API and the console ends, in seconds since 1970.",
	}, func() float64 { return float64(s.certificate.Expires().Unix()) }))
	return nil
}
