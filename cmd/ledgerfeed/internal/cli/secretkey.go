package cli

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/ledgerfeed/ledgerfeed/delivery/keyring"
)

// Keyring encrypts and decrypts webhooks' secrets with LEDGERFEED_SECRET_KEY.
// Without it, with a key in the data directory, made at the first use.
func (e *Env) Keyring(ctx context.Context, db *Database) (*keyring.Keyring, error) {
	text := e.Settings.SecretKey
	if text == "" {
		var err error
		if text, err = e.ownSecretKey(ctx, filepath.Join(db.DataDir(e.Settings.DataDir), "secret.key"), !db.IsLocal()); err != nil {
			return nil, err
		}
	}
	k, err := keyring.New(text)
	if err != nil {
		return nil, fmt.Errorf("cannot use the key for webhooks' secrets: %w", err)
	}
	return k, nil
}

// ownSecretKey reads the key in the data directory, or makes it. With shared,
// programs on other machines may use the same database.
func (e *Env) ownSecretKey(ctx context.Context, name string, shared bool) (string, error) {
	for {
		text, err := os.ReadFile(name)
		if err == nil {
			return string(text), nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return "", fmt.Errorf("cannot read the key for webhooks' secrets: %w", err)
		}
		if err := makeSecretKey(name); err != nil && !errors.Is(err, fs.ErrExist) {
			return "", fmt.Errorf("cannot make a key for webhooks' secrets: %w", err)
		}
		if shared {
			e.Logger.WarnContext(ctx, "made a key for webhooks' secrets; programs on other machines that use this database need it in LEDGERFEED_SECRET_KEY", "file", name)
		}
	}
}

// makeSecretKey writes a fresh key. The file appears whole or not at all, and
// when two programs make one at the same time, the first one stays.
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
