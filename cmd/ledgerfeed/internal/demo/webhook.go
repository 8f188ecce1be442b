package demo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed/internal/operate"
	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed/internal/tryout"
	"github.com/ledgerfeed/ledgerfeed/delivery"
	"github.com/ledgerfeed/ledgerfeed/delivery/receiver"
	"github.com/ledgerfeed/ledgerfeed/internal/datadir"
)

// webhookReceiver receives the demo's own webhook on this machine and prints
// what arrives.
type webhookReceiver struct {
	*receiver.Server
	mu     sync.Mutex
	secret string // guarded by mu
}

// startReceiver starts the receiver on a free port and changes the settings of env so
// that deliveries of this process can reach it.
func startReceiver(ctx context.Context, env *operate.Env, dir string) (r *webhookReceiver, err error) {
	r = &webhookReceiver{}
	cfg := receiver.Config{
		Addr: "127.0.0.1:0", Out: env.Out, Brand: env.Settings.Brand, Clock: env.Clock,
		Secrets: func() []string {
			r.mu.Lock()
			defer r.mu.Unlock()
			return []string{r.secret}
		},
	}
	own := env.Settings.WebhookCAFile
	if r.Server, env.Settings.WebhookCAFile, err = tryout.StartReceiver(ctx, cfg, dir, ""); err != nil {
		return nil, err
	}
	if own != "" {
		if env.Settings.WebhookCAFile, err = joinFiles(dir, env.Settings.WebhookCAFile, own); err != nil {
			return nil, fmt.Errorf("join the receiver's certificate and those of LEDGERFEED_WEBHOOK_CA_FILE: %w", err)
		}
	}
	tryout.AllowLoopback(env)
	return r, nil
}

// joinFiles writes a file into dir with what is in two others.
func joinFiles(dir, first, second string) (file string, err error) {
	var all []byte
	for _, name := range []string{first, second} {
		text, err := os.ReadFile(name)
		if err != nil {
			return "", err
		}
		all = append(append(all, text...), '\n')
	}
	to, err := datadir.Make(dir)
	if err != nil {
		return "", err
	}
	defer func() { _ = to.Close() }()
	return filepath.Join(to.Name(), authoritiesName), to.WriteFile(authoritiesName, all)
}

// authoritiesName is the file with the certificates that deliveries of the demo trust.
const authoritiesName = "webhook-authorities.pem"

// makeWebhook points the demo's webhook at the receiver, and makes it at the
// first start.
func (r *webhookReceiver) makeWebhook(ctx context.Context, store *delivery.Store, s *saved) error {
	url := r.URL()
	var unknown *delivery.UnknownWebhookError
	_, err := store.Edit(ctx, s.Webhook.ID, delivery.Change{URL: &url})
	switch {
	case errors.As(err, &unknown):
		made, err := store.Create(ctx, workspaceID, delivery.Definition{Name: "Demo receiver", URL: url, Events: []string{delivery.AllEvents}, Standard: true})
		if err != nil {
			return err
		}
		s.Webhook = savedWebhook{ID: made.ID, Secret: made.Secret}
		if err := s.save(); err != nil {
			return err
		}
	case err != nil:
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.secret = s.Webhook.Secret
	return nil
}
