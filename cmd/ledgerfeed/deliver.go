package main

import (
	"context"
	"fmt"

	"github.com/ledgerfeed/ledgerfeed/delivery"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
)

// deliverConnections is what an engine can use.
const deliverConnections = 8

// prepareDeliveries makes the part that sends webhooks.
func (s *service) prepareDeliveries(ctx context.Context) error {
	keyring, err := s.program.keyring(ctx, s.database)
	if err != nil {
		return err
	}
	pool, err := s.openPool(ctx, pg.Options{MaxConns: deliverConnections, Settings: delivery.PoolSettings()})
	if err != nil {
		return err
	}
	engine, err := delivery.New(delivery.Config{
		Pool: pool, Keyring: keyring, Notifier: s.notifier, Clock: s.program.clock, Logger: s.logger, Metrics: s.metrics,
		Settings: s.program.settings.delivery(), Mail: s.program.settings.Mail,
	})
	if err != nil {
		return fmt.Errorf("prepare webhooks: %w", err)
	}
	s.add("webhooks", engine.Run)
	return nil
}

// delivery are the settings of webhooks, with those that they share.
func (s *settings) delivery() delivery.Settings {
	d := s.Webhooks
	d.Brand, d.Retention = s.Brand, s.Retention
	return d
}

// webhooks opens the store of webhooks.
func (p *program) webhooks(ctx context.Context, w *workbench) (*delivery.Store, error) {
	keyring, err := p.keyring(ctx, w.database)
	if err != nil {
		return nil, err
	}
	return delivery.NewStore(delivery.StoreConfig{
		Pool: w.pool, Keyring: keyring, Log: w.log, Notify: w.notifier.Notify, Clock: p.clock, Settings: p.settings.delivery(),
	})
}
