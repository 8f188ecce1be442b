// This file has the role ingest, and its source as commands see it.

package service

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed/internal/operate"
	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/internal/cli"
	"github.com/ledgerfeed/ledgerfeed/internal/ingest"
	"github.com/ledgerfeed/ledgerfeed/internal/ingestapi"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
	"github.com/ledgerfeed/ledgerfeed/internal/relay"
	"github.com/ledgerfeed/ledgerfeed/internal/texts"
)

// prepareIngest prepares what appends messages of another system.
func prepareIngest(ctx context.Context, s *Service) error {
	pool := s.share(RoleIngest, nil)
	// A log on connections of its own: appends that wait for a held workspace keep none of
	// those of others.
	log, err := eventlog.New(eventlog.Config{Pool: pool, Clock: s.env.Clock, Notify: s.notifier.Notify, Tracer: s.env.Traces.Tracer()})
	if err != nil {
		return err
	}
	source, rules, err := OpenSource(ctx, s.env, pool)
	if err != nil {
		return err
	}
	i, err := ingest.New(ingest.Config{Source: source, Rules: rules, CreateWorkspaces: s.env.Settings.CreateWorkspaces, Log: log, Logger: s.env.Logger, Clock: s.env.Clock, Metrics: s.metrics})
	if err != nil {
		return err
	}
	s.probes.add(RoleIngest, i.Probe)
	s.Add("ingest", i.Run)
	return nil
}

// OpenSource opens the source of the settings, with the rules for it: an outbox or a stream. Only what
// ingests needs a pool.
func OpenSource(ctx context.Context, env *operate.Env, pool pg.DB) (source ingest.Source, rules ingest.Rules, err error) {
	if env.Settings.IngestURL == "" {
		return nil, rules, cli.Usagef("LEDGERFEED_INGEST_URL is not set: set it to the address that it has for ledgerfeed serve --roles ingest")
	}
	rules, address, err := ingest.CutRules(env.Settings.IngestURL)
	if err == nil {
		source, err = openSource(ctx, address, ingest.StreamConfig{Name: rules.Name, Pool: pool, Broker: relay.BrokerConfig{Name: "ledgerfeed " + rules.Name, Logger: env.Logger}})
	}
	if err != nil {
		return nil, rules, fmt.Errorf("LEDGERFEED_INGEST_URL: %w", err)
	}
	return source, rules, nil
}

func openSource(ctx context.Context, address string, stream ingest.StreamConfig) (ingest.Source, error) {
	if ingest.IsOutbox(address) {
		target, err := ingest.ParseTarget(address)
		if err != nil {
			return nil, err
		}
		return ingest.OpenOutbox(ctx, target, stream.Broker.Logger)
	}
	var err error
	if stream.Target, err = relay.ParseTarget(address); err != nil {
		return nil, err
	}
	return ingest.OpenStream(stream)
}

// deadLettersTimeout bounds a look at dead letters.
const deadLettersTimeout = 5 * time.Second

// longHeld is how long messages may wait for a transaction before it is worth a word.
const longHeld = time.Minute

// DeadLetters are the dead letters of a source, as status and doctor show them, and what waits there.
type DeadLetters struct {
	Source  string    `json:"source"`
	Count   int64     `json:"count"`             // ingest.MostWaiting: so many or more
	Newest  time.Time `json:"newest,omitzero"`   // when it became one
	Reason  string    `json:"reason,omitempty"`  // of the newest one
	Problem string    `json:"problem,omitempty"` // why they cannot be read

	Held *ingest.Held `json:"held,omitempty"` // what keeps other messages waiting
}

// HeldUp says which messages wait for what.
func (d *DeadLetters) HeldUp() string {
	h := d.Held
	return fmt.Sprintf("%s of %s %s for the transaction of session %d there, which is open since %s", texts.Count(h.Messages, "message", "messages"), d.Source,
		texts.Plural(h.Messages, "waits", "wait"), h.Session, domain.FormatTime(h.Since))
}

// Counted says how many there are.
func (d *DeadLetters) Counted() string {
	return ingest.Counted(d.Count) + " " + texts.Plural(d.Count, "message of "+d.Source+" is a dead letter", "messages of "+d.Source+" are dead letters")
}

// LookAtDeadLetters counts, for a command, the dead letters of the source of the settings; nil: the
// settings name none. A source that is away is no error, so that it hides nothing else.
func LookAtDeadLetters(ctx context.Context, env *operate.Env) *DeadLetters {
	if env.Settings.IngestURL == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, deadLettersTimeout)
	defer cancel()
	d := &DeadLetters{Source: "the source"}
	source, _, err := OpenSource(ctx, env, nil)
	if err == nil {
		defer source.Close()
		d.Source = source.Name()
		d.Count, err = source.Waiting(ctx)
	}
	if err == nil && d.Count > 0 {
		var newest *ingest.Letter
		if newest, err = source.Newest(ctx); newest != nil {
			d.Newest, d.Reason = newest.At, cli.Printable(newest.Reason)
		}
	}
	if err == nil {
		d.Held, err = source.Held(ctx, longHeld)
	}
	if err != nil {
		d.Problem = strings.Join(strings.Fields(err.Error()), " ")
	}
	return d
}

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
