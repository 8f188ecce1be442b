package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/internal/flow"
	"github.com/ledgerfeed/ledgerfeed/internal/heap"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
	"github.com/ledgerfeed/ledgerfeed/projections"
)

// service is a serving process: its parts, which run together and of which
// none outlives another's failure.
type service struct {
	program  *program
	database *database
	logger   *slog.Logger
	metrics  *prometheus.Registry
	notifier *eventlog.Notifier
	log      *eventlog.Log
	pool     *pgxpool.Pool // for everything but requests and projecting
	pools    []*pgxpool.Pool
	ready    atomic.Bool // readiness ends before the listeners do

	parts     []part
	admin     part // outlives the others, to say that it is not ready
	listening []listening
}

// part is something that runs until its context ends.
type part struct {
	name string
	run  func(context.Context) error
}

// listening is an address that a part has bound, for the line that says so.
type listening struct{ name, url string }

func (p *program) newService(ctx context.Context, d *database, roles []string) (_ *service, err error) {
	s := &service{program: p, database: d, logger: p.logger, metrics: prometheus.NewRegistry()}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	s.metrics.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	if s.pool, err = s.openPool(ctx, pg.Options{MaxConns: 8}); err != nil {
		return nil, err
	}
	s.notifier = eventlog.NewNotifier(s.pool, p.logger)
	if s.log, err = eventlog.New(eventlog.Config{Pool: s.pool, Clock: p.clock, Notify: s.notifier.Notify}); err != nil {
		return nil, err
	}
	s.add("wake-ups", s.notifier.Run)
	s.add("database", s.watchDatabase)
	for _, r := range []struct {
		role    string
		prepare func(context.Context) error
	}{
		{roleAPI, s.prepareAPI},
		{roleProject, s.prepareProjector},
		{roleDeliver, s.prepareDeliveries},
		{roleConsole, s.prepareConsole},
	} {
		if !slices.Contains(roles, r.role) {
			continue
		}
		if err := r.prepare(ctx); err != nil {
			return nil, err
		}
	}
	if err := s.prepareAdmin(ctx); err != nil {
		return nil, err
	}
	return s, nil
}

func (s *service) openPool(ctx context.Context, o pg.Options) (*pgxpool.Pool, error) {
	pool, err := pg.Open(ctx, s.database.url, o)
	if err != nil {
		return nil, err
	}
	s.pools = append(s.pools, pool)
	return pool, nil
}

func (s *service) add(name string, run func(context.Context) error) {
	s.parts = append(s.parts, part{name, run})
}

func (s *service) prepareProjector(ctx context.Context) error {
	pool, err := s.openPool(ctx, pg.Options{MaxConns: projections.DefaultWorkers + 1, Settings: projections.PoolSettings()})
	if err != nil {
		return err
	}
	runner, err := projections.NewRunner(projections.RunnerConfig{
		Pool: pool, Notifier: s.notifier, Clock: s.program.clock, Logger: s.logger, Metrics: s.metrics, Rules: s.program.rules,
	})
	if err != nil {
		return err
	}
	s.add("projector", runner.Run)
	return s.prepareAudit(ctx)
}

// prepareAudit lets every workspace be verified in the background.
func (s *service) prepareAudit(ctx context.Context) error {
	if s.program.settings.AuditEvery == 0 {
		return nil
	}
	pool, err := s.openPool(ctx, pg.Options{MaxConns: 3, Settings: projections.ReplaySettings()})
	if err != nil {
		return err
	}
	auditor, err := projections.NewAuditor(projections.AuditConfig{
		Pool: pool, Clock: s.program.clock, Logger: s.logger, Metrics: s.metrics, Rules: s.program.rules,
		Every: s.program.settings.AuditEvery, Rate: s.program.settings.AuditRate,
	})
	if err != nil {
		return err
	}
	s.add("audit", auditor.Run)
	return nil
}

// run runs all parts until ctx ends or one of them fails, and waits for all.
// When ctx ends, readiness goes first: for a while everything is served as
// before, so that whoever spreads the requests hears of it and sends no more.
func (s *service) run(ctx context.Context) error {
	defer s.close()
	restore := heap.LetGrow()
	defer restore()
	for _, l := range s.listening {
		s.logger.InfoContext(ctx, "listening", "for", l.name, "url", l.url)
	}
	s.ready.Store(true)
	admin := runParts(ctx, []part{s.admin})
	others := runParts(ctx, s.parts)
	select {
	case <-ctx.Done():
	case <-admin.failed.Done():
	case <-others.failed.Done():
	}
	s.ready.Store(false)
	if ctx.Err() != nil && s.program.settings.DrainDelay > 0 {
		s.logger.InfoContext(ctx, "not ready any more, stopping soon", "in", s.program.settings.DrainDelay)
		flow.Pause(others.failed, s.program.settings.DrainDelay)
	}
	s.logger.InfoContext(ctx, "stopping")
	err := others.stop()
	flush, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	if err := s.notifier.Flush(flush); err != nil {
		s.logger.WarnContext(ctx, "the last wake-ups were not sent; others find out by their sweeps", "error", err)
	}
	return cmp.Or(err, admin.stop())
}

// running is parts at work.
type running struct {
	failed context.Context // ends when one of them has failed //nolint:containedctx // it is only waited for
	cancel context.CancelCauseFunc
	group  sync.WaitGroup
}

// runParts starts parts that end when they are told to stop, or with the first
// that fails; the end of ctx alone does not end them.
func runParts(ctx context.Context, parts []part) *running {
	working, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	r := &running{failed: working, cancel: cancel}
	for _, p := range parts {
		r.group.Go(func() {
			err := p.run(working)
			if err == nil && working.Err() == nil {
				err = errors.New("ended by itself")
			}
			if err != nil {
				cancel(fmt.Errorf("%s: %w", p.name, err)) // the first is the cause
			}
		})
	}
	return r
}

// errStopped is why parts end that nothing is wrong with.
var errStopped = errors.New("stopped")

// stop ends the parts and returns what failed first.
func (r *running) stop() error {
	r.cancel(errStopped)
	r.group.Wait()
	if err := context.Cause(r.failed); !errors.Is(err, errStopped) {
		return err
	}
	return nil
}

func (s *service) close() {
	for _, p := range s.pools {
		p.Close()
	}
}

// drainPatience is how long requests under way may take to end.
const drainPatience = 15 * time.Second

// listen binds an address now, so that a taken one is an error at once, and
// serves it as a part. Requests under way are finished when the service stops.
func (s *service) listen(ctx context.Context, name, setting, address string, server *http.Server, guards ...func(net.Listener) net.Listener) error {
	p, err := s.listener(ctx, name, setting, address, server, guards...)
	s.parts = append(s.parts, p)
	return err
}

func (s *service) listener(ctx context.Context, name, setting, address string, server *http.Server, guards ...func(net.Listener) net.Listener) (part, error) {
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", address)
	if err != nil {
		return part{}, fmt.Errorf("listen for the %s (%s chooses where): %w", name, setting, err)
	}
	for _, guard := range guards {
		listener = guard(listener)
	}
	s.listening = append(s.listening, listening{name, "http://" + listener.Addr().String()})
	return part{name, func(ctx context.Context) error {
		failed := make(chan error, 1)
		go func() { failed <- server.Serve(listener) }()
		select {
		case err := <-failed:
			return fmt.Errorf("serve: %w", err)
		case <-ctx.Done():
		}
		drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainPatience)
		defer cancel()
		if err := server.Shutdown(drain); err != nil {
			s.logger.WarnContext(ctx, "requests were cut off", "listener", name, "error", err)
			_ = server.Close()
		}
		if err := <-failed; !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("serve: %w", err)
		}
		return nil
	}}, nil
}
