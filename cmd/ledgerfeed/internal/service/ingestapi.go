package service

import (
	"context"
	"time"

	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/internal/ingestapi"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
)

// producersLockTimeout is how long a producer's request waits for a locked workspace. It is short:
// the request holds its body meanwhile, and its producer sends it again.
const producersLockTimeout = 2 * time.Second

// prepareIngestAPI prepares what lets producers append over HTTP, and its listener.
func prepareIngestAPI(ctx context.Context, s *Service) error {
	set := &s.env.Settings
	pool := s.share(RoleIngestAPI, nil)
	// A log on connections of its own, as ingest has.
	log, err := eventlog.New(eventlog.Config{
		Pool: pool, Clock: s.env.Clock, Notify: s.notifier.Notify, Tracer: s.env.Traces.Tracer(), LockTimeout: producersLockTimeout,
	})
	if err != nil {
		return err
	}
	format := ingestapi.KeyFormat(set.Brand)
	keys, err := ingestapi.NewKeyDirectory(s.shared, format, s.env.Clock)
	if err != nil {
		return err
	}
	api, err := ingestapi.New(ingestapi.Config{
		Log: log, Keys: keys, Format: format, Logger: s.env.Logger,
		InFlight: int64(set.IngestInFlight) << 20, Connections: pg.Size(pool), Metrics: s.metrics,
	})
	if err != nil {
		return err
	}
	s.probes.add(RoleIngestAPI, api.Probe)
	listener, err := s.bind(ctx, binding{
		name: RoleIngestAPI, setting: "LEDGERFEED_INGEST_LISTEN", address: set.IngestListen, server: ingestapi.NewServer(api, s.env.Logger), refusal: ingestapi.RefuseConnection, certificate: s.certificate,
	})
	s.components = append(s.components, listener)
	return err
}
