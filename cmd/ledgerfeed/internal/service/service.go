// Package service runs a serving process: the components of its roles, their
// listeners, and how they start and stop together.
package service

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"github.com/prometheus/client_golang/prometheus"

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
