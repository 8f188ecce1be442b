package ingest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/internal/flow"
)

const (
	// firstWait doubles until longestWait between two attempts that fail.
	firstWait   = 100 * time.Millisecond
	longestWait = 5 * time.Second

	// finishTimeout bounds what happens after messages were appended. It does not end with
	// the program's context.
	finishTimeout = 30 * time.Second

	// lagInterval is how often the lag is asked for.
	lagInterval = 5 * time.Second
)

// Config of an Ingest.
type Config struct {
	Source Source // closed by Run
	Rules  Rules  // of the source

	// CreateWorkspaces makes the workspaces of entries that do not exist yet. A relay's exist or are
	// made in either case.
	CreateWorkspaces bool

	Log     *eventlog.Log
	Logger  *slog.Logger
	Clock   func() time.Time
	Metrics prometheus.Registerer // nil: none
}

// Ingest appends the messages of a source while it runs. Any number of processes may run
// one of the same source.
type Ingest struct {
	source   Source
	appender appender
	logger   *slog.Logger
	clock    func() time.Time
	metrics  *metrics

	mu     sync.Mutex
	reason error     // why it cannot go on; nil: it can. Guarded by mu
	since  time.Time // guarded by mu
}

var errNotTried = errors.New("the source has not answered yet")

// New makes an Ingest; Run starts it.
func New(cfg Config) (*Ingest, error) {
	if cfg.Source == nil || cfg.Log == nil || cfg.Logger == nil || cfg.Clock == nil {
		return nil, errors.New("ingest: Config needs a Source, a Log, a Logger and a Clock")
	}
	i := &Ingest{
		source: cfg.Source, appender: appender{log: cfg.Log, rules: cfg.Rules, create: cfg.CreateWorkspaces, known: map[string]bool{}}, logger: cfg.Logger, clock: cfg.Clock, reason: errNotTried, since: cfg.Clock(),
	}
	var err error
	i.metrics, err = newMetrics(cfg.Metrics, i)
	return i, err
}

// Probe says why messages cannot be appended, and since when; nil: they can.
func (i *Ingest) Probe(context.Context) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.reason == nil {
		return nil
	}
	return fmt.Errorf("nothing can be ingested since %s: %w", i.since.UTC().Format(time.RFC3339), i.reason)
}

// set notes how an attempt ended, and logs when that changes.
func (i *Ingest) set(ctx context.Context, reason error) {
	i.mu.Lock()
	was := i.reason
	if was == nil && reason != nil {
		i.since = i.clock()
	}
	i.reason = reason
	i.mu.Unlock()
	switch {
	case reason != nil && (was == nil || errors.Is(was, errNotTried)):
		i.logger.ErrorContext(ctx, "messages cannot be ingested; trying again", "error", reason)
	case reason == nil && was != nil:
		i.logger.InfoContext(ctx, "messages can be ingested")
	}
}

// Run appends until ctx ends, and finishes what is under way.
func (i *Ingest) Run(ctx context.Context) error {
	defer i.source.Close()
	var (
		wait  = firstWait
		asked time.Time
	)
	for ctx.Err() == nil {
		if now := time.Now(); now.Sub(asked) > lagInterval { // not of the injected clock: it is about the load of the source
			i.askLag(ctx)
			asked = now
		}
		err := i.once(ctx)
		if ctx.Err() != nil {
			return nil
		}
		i.set(ctx, err)
		if err == nil {
			wait = firstWait
			continue
		}
		flow.Pause(ctx, wait)
		wait = min(2*wait, longestWait)
	}
	return nil
}

func (i *Ingest) askLag(ctx context.Context) {
	if lag, err := i.source.Lag(ctx); err == nil && lag >= 0 {
		i.metrics.lag.Set(float64(lag))
	}
}

// once appends the next messages.
func (i *Ingest) once(ctx context.Context) error {
	b, err := i.source.Next(ctx)
	if err != nil || b == nil {
		return err
	}
	result, err := i.appender.append(ctx, b)
	finish, cancel := context.WithTimeout(context.WithoutCancel(ctx), finishTimeout)
	defer cancel()
	if err != nil {
		b.Release(finish)
		return err
	}
	if err := b.Done(finish, result.dead); err != nil {
		return err
	}
	for _, d := range result.dead {
		i.logger.WarnContext(ctx, "a message became a dead letter", "message", d.Message.UUID, "reason", d.Reason)
	}
	i.metrics.count(&result)
	return nil
}
