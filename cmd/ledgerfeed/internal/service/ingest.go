package service

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/internal/bus"
	"github.com/ledgerfeed/ledgerfeed/internal/bus/jetstream"
	"github.com/ledgerfeed/ledgerfeed/internal/ingest"
	"github.com/ledgerfeed/ledgerfeed/internal/ingest/outbox"
	"github.com/ledgerfeed/ledgerfeed/internal/ingest/stream"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
)

// prepareIngest prepares what appends messages of another system.
func prepareIngest(ctx context.Context, s *Service) error {
	pool, err := s.openPool(ctx, RoleIngest, pg.Options{})
	if err != nil {
		return err
	}
	// A log on connections of its own: appends that wait for a held workspace keep none of
	// those of others.
	log, err := eventlog.New(eventlog.Config{Pool: pool, Clock: s.env.Clock, Notify: s.notifier.Notify, Tracer: s.env.Traces.Tracer()})
	if err != nil {
		return err
	}
	rules, address, err := ingest.CutRules(s.env.Settings.IngestURL)
	if err != nil {
		return fmt.Errorf("LEDGERFEED_INGEST_URL: %w", err)
	}
	source, err := openSource(ctx, s, pool, address)
	if err != nil {
		return fmt.Errorf("LEDGERFEED_INGEST_URL: %w", err)
	}
	i, err := ingest.New(ingest.Config{Source: source, Rules: rules, CreateWorkspaces: s.env.Settings.CreateWorkspaces, Log: log, Logger: s.env.Logger, Clock: s.env.Clock, Metrics: s.metrics})
	if err != nil {
		return err
	}
	s.probes.add(RoleIngest, i.Probe)
	s.Add("ingest", i.Run)
	return nil
}

// openSource opens an outbox or a stream, by the scheme of the address.
func openSource(ctx context.Context, s *Service, pool *pgxpool.Pool, address string) (ingest.Source, error) {
	if strings.HasPrefix(address, "postgres") {
		target, err := outbox.ParseTarget(address)
		if err != nil {
			return nil, err
		}
		return outbox.Open(ctx, target)
	}
	target, err := jetstream.ParseTarget(address)
	if err != nil {
		return nil, err
	}
	return stream.Open(stream.Config{
		Target: target, Name: s.env.Settings.IngestName, Pool: pool, Bus: bus.Config{Name: "ledgerfeed " + s.env.Settings.IngestName, Logger: s.env.Logger},
	})
}
