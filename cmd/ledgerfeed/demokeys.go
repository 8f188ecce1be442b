package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/ledgerfeed/ledgerfeed/readapi/access"
)

// demoKeys are the demo's two keys and its webhook.
type demoKeys struct {
	Everything demoKey     `json:"everything"`
	WithoutPay demoKey     `json:"without_pay"`
	Webhook    demoWebhook `json:"webhook"`
}

type demoKey struct {
	ID  string `json:"id"`
	Key string `json:"key"`
}

// findKeys returns the keys of the last start if they are still live, and
// otherwise makes new ones.
func (m *demonstration) findKeys(ctx context.Context) (demoKeys, error) {
	store, err := m.program.keyStore(m.workbench)
	if err != nil {
		return demoKeys{}, err
	}
	var keys demoKeys
	text, err := os.ReadFile(m.demoKeysFile())
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return keys, fmt.Errorf("read the demo's keys: %w", err)
	default:
		if err := json.Unmarshal(text, &keys); err != nil {
			return keys, fmt.Errorf("read the demo's keys in %s: %w", m.demoKeysFile(), err)
		}
	}
	changed := false
	for _, k := range []struct {
		key         *demoKey
		name        string
		permissions access.Permissions
	}{
		{&keys.Everything, "Demo: everything", access.PermissionsOf(access.AllPermissions()...)},
		{&keys.WithoutPay, "Demo: without pay", permissionsWithoutPay()},
	} {
		if m.works(ctx, store, k.key) {
			continue
		}
		r, secret, err := store.Create(ctx, access.NewKey{WorkspaceID: demoWorkspace, Name: k.name, Permissions: k.permissions})
		if err != nil {
			return keys, fmt.Errorf("make the demo's keys: %w", err)
		}
		*k.key = demoKey{ID: r.ID, Key: secret.Reveal()}
		changed = true
	}
	if !changed {
		return keys, nil
	}
	if err := m.keepKeys(&keys); err != nil {
		return keys, err
	}
	return keys, nil
}

func (m *demonstration) works(ctx context.Context, store *access.Store, k *demoKey) bool {
	if k.ID == "" {
		return false
	}
	r, err := store.Get(ctx, demoWorkspace, k.ID)
	return err == nil && r.State(m.program.clock()) == access.Live
}

func (m *demonstration) keepKeys(keys *demoKeys) error {
	text, err := json.MarshalIndent(keys, "", "  ")
	if err != nil {
		return fmt.Errorf("keep the demo's keys: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(m.demoKeysFile()), 0o700); err != nil {
		return fmt.Errorf("keep the demo's keys: %w", err)
	}
	if err := os.WriteFile(m.demoKeysFile(), append(text, '\n'), 0o600); err != nil {
		return fmt.Errorf("keep the demo's keys: %w", err)
	}
	return nil
}
