package service

import (
	"context"
	"fmt"

	"github.com/ledgerfeed/ledgerfeed/internal/bus"
	"github.com/ledgerfeed/ledgerfeed/internal/bus/jetstream"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
	"github.com/ledgerfeed/ledgerfeed/internal/relay"
)

// brokers are the kinds of message brokers. One more is a line here: any Watermill
// publisher that can be a bus.Publisher.
func brokers() bus.Schemes {
	schemes := bus.Schemes{}
	for _, scheme := range jetstream.Schemes() {
		schemes[scheme] = jetstream.Open
	}
	return schemes
}

// prepareRelay prepares what sends the log to a message broker.
func prepareRelay(ctx context.Context, s *Service) error {
	set := &s.env.Settings
	pool, err := s.openPool(ctx, RoleRelay, pg.Options{Settings: relay.PoolSettings()})
	if err != nil {
		return err
	}
	publisher, err := brokers().Open(set.RelayURL, bus.Config{Name: "ledgerfeed " + set.RelayName, Logger: s.env.Logger})
	if err != nil {
		return fmt.Errorf("LEDGERFEED_RELAY_URL: %w", err)
	}
	r, err := relay.New(relay.Config{
		Pool: pool, Notifier: s.notifier, Publisher: publisher, Clock: s.env.Clock, Logger: s.env.Logger, Metrics: s.metrics,
		Name: set.RelayName, Form: set.RelayForm, Envelope: set.RelayEnvelope, Source: set.BaseURL,
	})
	if err != nil {
		return err
	}
	s.probes.add(RoleRelay, r.Probe)
	s.Add("relay", r.Run)
	return nil
}
