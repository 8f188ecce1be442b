package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/ledgerfeed/ledgerfeed/internal/datadir"
	"github.com/ledgerfeed/ledgerfeed/readapi/access"
)

// saved is what the demo keeps in a file between starts, so that lines pasted
// yesterday work today: its keys and its webhook, whose secrets are shown only
// once. No other key is ever kept in clear.
type saved struct {
	dir string // the data directory

	Everything savedKey     `json:"everything"`
	WithoutPay savedKey     `json:"without_pay"`
	Webhook    savedWebhook `json:"webhook"`

	LastDay bool `json:"last_day"` // it was made up
}

// savedName is the file in the data directory.
const savedName = "demo-keys.json"

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
func loadSaved(path string) (*saved, error) {
	s := &saved{dir: path}
	dir, err := datadir.Make(path)
	if err != nil {
		return nil, fmt.Errorf("cannot read the demo's keys: %w", err)
	}
	defer func() { _ = dir.Close() }()
	text, err := dir.ReadFile(savedName)
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	if err == nil {
		err = json.Unmarshal(text, s)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read the demo's keys from %s in %s: %w", savedName, path, err)
	}
	return s, nil
}

func (s *saved) save() error {
	text, err := json.MarshalIndent(s, "", "  ")
	var dir *datadir.Dir
	if err == nil {
		dir, err = datadir.Make(s.dir)
	}
	if err == nil {
		err = errors.Join(dir.WriteFile(savedName, append(text, '\n')), dir.Close())
	}
	if err != nil {
		return fmt.Errorf("cannot save the demo's keys: %w", err)
	}
	return nil
}

// makeKeys makes each of the two keys that is missing or no longer works.
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
