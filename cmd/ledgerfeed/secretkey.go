package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/ledgerfeed/ledgerfeed/delivery"
)

// keyring opens and seals webhooks' secrets with LEDGERFEED_SECRET_KEY.
// Without it, a key in the data directory serves, made at the first use.
func (p *program) keyring(ctx context.Context, d *database) (*delivery.Keyring, error) {
	text := p.settings.SecretKey
	if text == "" {
		dir := p.settings.DataDir
		if d.local != nil {
			dir = d.local.DataDir()
		}
		var err error
		if text, err = p.ownSecretKey(ctx, filepath.Join(dir, "secret.key"), d.local == nil); err != nil {
			return nil, err
		}
	}
	k, err := delivery.NewKeyring(text)
	if err != nil {
		return nil, usagef("LEDGERFEED_SECRET_KEY: %w", err)
	}
	return k, nil
}

// ownSecretKey reads the key in the data directory, or makes it. Shared says
// that programs elsewhere may use the same database.
func (p *program) ownSecretKey(ctx context.Context, name string, shared bool) (string, error) {
	for {
		text, err := os.ReadFile(name)
		if err == nil {
			return string(text), nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return "", fmt.Errorf("read the key for webhooks' secrets: %w", err)
		}
		if err := makeSecretKey(name); err != nil && !errors.Is(err, fs.ErrExist) {
			return "", fmt.Errorf("make a key for webhooks' secrets: %w", err)
		}
		if shared {
			p.logger.WarnContext(ctx, "made a key for webhooks' secrets; programs elsewhere on this database need the same one in LEDGERFEED_SECRET_KEY", "file", name)
		}
	}
}

// makeSecretKey writes a fresh key. It appears whole or not at all, and of two
// programs that make one only one's stays.
func makeSecretKey(name string) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return err
	}
	var key [32]byte
	_, _ = rand.Read(key[:]) // never fails: the program ends when the system has no randomness
	file, err := os.CreateTemp(filepath.Dir(name), ".secret-*")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(file.Name()) }()
	_, err = file.WriteString(hex.EncodeToString(key[:]))
	if err := errors.Join(err, file.Sync(), file.Close()); err != nil {
		return err
	}
	return os.Link(file.Name(), name)
}
