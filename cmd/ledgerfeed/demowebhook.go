package main

import (
	"context"
	"errors"
	"net/netip"
	"sync"

	"github.com/ledgerfeed/ledgerfeed/delivery"
)

// demoWebhook is the demo's webhook, kept between starts with its keys: its
// secret is shown only once.
type demoWebhook struct {
	ID     string `json:"id"`
	Secret string `json:"secret"`
}

// demoReceiver receives the demo's own webhook on this machine and prints what
// arrives.
type demoReceiver struct {
	*delivery.Listener
	mu     sync.Mutex
	secret string
}

// newDemoReceiver listens on a free port, and lets this process's deliveries
// reach it.
func (p *program) newDemoReceiver(ctx context.Context, dir string) (*demoReceiver, error) {
	r := &demoReceiver{}
	l, err := delivery.NewListener(ctx, delivery.ListenConfig{
		Addr: "127.0.0.1:0", Out: p.out, Brand: p.settings.Brand, Clock: p.clock,
		Secrets: func() []string {
			r.mu.Lock()
			defer r.mu.Unlock()
			return []string{r.secret}
		},
	})
	if err != nil {
		return nil, err
	}
	r.Listener = l
	if p.settings.Webhooks.CAFile, err = keepCertificate(dir, l); err != nil {
		return nil, err
	}
	p.settings.Webhooks.Allow = append(p.settings.Webhooks.Allow, netip.MustParsePrefix("127.0.0.0/8"))
	return r, nil
}

// connect points the demo's webhook at the receiver.
func (m *demonstration) connect(ctx context.Context) error {
	store, err := m.program.webhooks(ctx, m.workbench)
	if err != nil {
		return err
	}
	url := m.receiver.URL()
	hook := &m.keys.Webhook
	var unknown *delivery.UnknownWebhookError
	_, err = store.Edit(ctx, hook.ID, &url, nil)
	switch {
	case errors.As(err, &unknown):
		made, err := store.Create(ctx, demoWorkspace, url, []string{delivery.AllEvents})
		if err != nil {
			return err
		}
		*hook = demoWebhook{ID: made.ID, Secret: made.Secret}
		if err := m.keepKeys(&m.keys); err != nil {
			return err
		}
	case err != nil:
		return err
	}
	m.receiver.mu.Lock()
	defer m.receiver.mu.Unlock()
	m.receiver.secret = hook.Secret
	return nil
}
