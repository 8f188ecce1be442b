package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/ledgerfeed/ledgerfeed/readapi/access"
)

// saved is what the demo keeps in a file between starts, so that lines pasted
// yesterday work today: its keys and its webhook, whose secrets are shown only
// once. No other key is ever kept in clear.
type saved struct {
	file string

	Everything savedKey     `json:"everything"`
	WithoutPay savedKey     `json:"without_pay"`
	Webhook    savedWebhook `json:"webhook"`
}

type savedKey struct {
	ID  string `json:"id"`
	Key string `json:"key"`
}

type savedWebhook struct {
	ID     string `json:"id"`
	Secret string `json:"secret"`
}

// loadSaved reads the file in the data directory, which does not exist at the
// first start.
func loadSaved(dir string) (*saved, error) {
	s := &saved{file: filepath.Join(dir, "demo-keys.json")}
	text, err := os.ReadFile(s.file)
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	if err == nil {
		err = json.Unmarshal(text, s)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read the demo's keys from %s: %w", s.file, err)
	}
	return s, nil
}

func (s *saved) save() error {
	text, err := json.MarshalIndent(s, "", "  ")
	if err == nil {
		err = os.MkdirAll(filepath.Dir(s.file), 0o700)
	}
	if err == nil {
		err = os.WriteFile(s.file, append(text, '\n'), 0o600)
	}
	if err != nil {
		return fmt.Errorf("cannot save the demo's keys: %w", err)
	}
	return nil
}

// makeKeys makes those of the two keys that are not live any more, or not there
// yet.
func (s *saved) makeKeys(ctx context.Context, store *access.Store, now time.Time) error {
	changed := false
	for _, k := range []struct {
		key         *savedKey
		name        string
		permissions access.Permissions
	}{
		{&s.Everything, "Demo: everything", access.PermissionsOf(access.AllPermissions()...)},
		{&s.WithoutPay, "Demo: without pay", permissionsWithoutPay()},
	} {
		if isLive(ctx, store, k.key.ID, now) {
			continue
		}
		r, secret, err := store.Create(ctx, access.NewKey{WorkspaceID: workspaceID, Name: k.name, Permissions: k.permissions})
		if err != nil {
			return fmt.Errorf("cannot make the demo's keys: %w", err)
		}
		*k.key = savedKey{ID: r.ID, Key: secret.Reveal()}
		changed = true
	}
	if !changed {
		return nil
	}
	return s.save()
}

func isLive(ctx context.Context, store *access.Store, id string, now time.Time) bool {
	if id == "" {
		return false
	}
	r, err := store.Get(ctx, workspaceID, id)
	return err == nil && r.State(now) == access.Live
}

// permissionsWithoutPay are all that a key can have without seeing pay.
func permissionsWithoutPay() access.Permissions {
	var list []access.Permission
	for _, p := range access.AllPermissions() {
		if p != access.PayRead && p != access.MarginRead {
			list = append(list, p)
		}
	}
	return access.PermissionsOf(list...)
}
