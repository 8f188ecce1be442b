package cli

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/ledgerfeed/ledgerfeed/delivery/keyring"
	"github.com/ledgerfeed/ledgerfeed/internal/datadir"
)

// Keyring encrypts and decrypts webhooks' secrets with LEDGERFEED_SECRET_KEY.
// Without it, with a key in the data directory, made at the first use.
func (e *Env) Keyring(ctx context.Context, db *Database) (*keyring.Keyring, error) {
	text := e.Settings.SecretKey
	if text == "" {
		var err error
		if text, err = e.ownSecretKey(ctx, db.DataDir(e.Settings.DataDir), !db.IsLocal()); err != nil {
			return nil, err
		}
	}
	k, err := keyring.New(text)
	if err != nil {
		return nil, fmt.Errorf("cannot use the key for webhooks' secrets: %w", err)
	}
	return k, nil
}

// secretKeyName is the file in the data directory that holds the key.
const secretKeyName = "secret.key"

// ownSecretKey reads the key in the data directory, or makes it. With shared,
// programs on other machines may use the same database.
func (e *Env) ownSecretKey(ctx context.Context, path string, shared bool) (string, error) {
	dir, err := datadir.Make(path)
	if err != nil {
		return "", fmt.Errorf("cannot read the key for webhooks' secrets: %w", err)
	}
	defer func() { _ = dir.Close() }()
	for {
		text, err := dir.ReadFile(secretKeyName)
		if err == nil {
			return string(text), nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return "", fmt.Errorf("cannot read the key for webhooks' secrets: %w", err)
		}
		var key [32]byte
		_, _ = rand.Read(key[:]) // never fails: the program ends when the system has no randomness
		// When two programs make one at the same time, the first one stays.
		if err := dir.CreateFile(secretKeyName, []byte(hex.EncodeToString(key[:]))); err != nil && !errors.Is(err, fs.ErrExist) {
			return "", fmt.Errorf("cannot make a key for webhooks' secrets: %w", err)
		}
		if shared {
			e.Logger.WarnContext(ctx, "made a key for webhooks' secrets; programs on other machines that use this database need it in LEDGERFEED_SECRET_KEY", "file", filepath.Join(path, secretKeyName))
		}
	}
}
