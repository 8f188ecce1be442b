package operate

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/delivery/keyring"
	"github.com/ledgerfeed/ledgerfeed/internal/datadir"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
	"github.com/ledgerfeed/ledgerfeed/internal/texts"
)

// Keyring has the keys that encrypt and decrypt webhooks' secrets. They are in
// LEDGERFEED_SECRET_KEY, or without it in a file of the data directory, which is made at
// the first use of a database that has never had a key. The error is a
// *keyring.MissingError when the database needs other keys.
func (e *Env) Keyring(ctx context.Context, db *Database, pool pg.DB) (*keyring.Keyring, error) {
	k, err := e.ReadKeyring(db)
	if err != nil {
		return nil, err
	}
	err = pg.InTx(ctx, pool, func(tx pgx.Tx) (err error) {
		if k == nil {
			k, err = e.makeSecretKey(ctx, tx, db)
			return err
		}
		return keyring.Register(ctx, tx, k, e.Clock())
	})
	if err != nil {
		return nil, err
	}
	return k, nil
}

// ReadKeyring is Keyring without a look at the database: nil if there is no key.
func (e *Env) ReadKeyring(db *Database) (*keyring.Keyring, error) {
	text := e.Settings.SecretKey
	if text == "" {
		var err error
		if text, err = e.readSecretKeyFile(db); text == "" || err != nil {
			return nil, err
		}
	}
	k, err := keyring.New(text)
	if err != nil {
		return nil, fmt.Errorf("cannot use the key for webhooks' secrets from %s: %w", e.SecretKeySource(db), err)
	}
	return k, nil
}

// SecretKeySource says where the keys are: the variable, or the file's path.
func (e *Env) SecretKeySource(db *Database) string {
	if e.Settings.SecretKey != "" {
		return "LEDGERFEED_SECRET_KEY"
	}
	return filepath.Join(db.DataDir(e.Settings.DataDir), secretKeyName)
}

// secretKeyName is the file in the data directory that holds the key, or several as
// LEDGERFEED_SECRET_KEY does.
const secretKeyName = "secret.key"

// readSecretKeyFile returns the file's text; empty if there is none.
func (e *Env) readSecretKeyFile(db *Database) (string, error) {
	return e.readKeyFile(db, secretKeyName)
}

func (e *Env) readKeyFile(db *Database, name string) (string, error) {
	text, err := ReadKeyFile(filepath.Join(db.DataDir(e.Settings.DataDir), name), "if there never was one")
	if err != nil {
		return "", fmt.Errorf("cannot read the key for webhooks' secrets: %w", err)
	}
	return text, nil
}

// ReadKeyFile returns the text of a file with keys in the data directory; empty if there is none. An
// empty file is an error, which says when to remove it.
func ReadKeyFile(path, remove string) (string, error) {
	if _, err := os.Stat(filepath.Dir(path)); errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	dir, err := datadir.Make(filepath.Dir(path))
	if err != nil {
		return "", err
	}
	defer func() { _ = dir.Close() }()
	text, err := dir.ReadFile(filepath.Base(path))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	// A person may have put the file back, with an editor of Windows.
	if text, err = texts.Plain(text); err != nil {
		return "", fmt.Errorf("%s: %w", path, err)
	}
	if len(bytes.TrimSpace(text)) == 0 {
		return "", fmt.Errorf("%s is empty: put the key back from where it is kept, or remove the file %s", path, remove)
	}
	return string(text), nil
}

// makeSecretKey makes the first key of a database, and the file that holds it. It is
// the database's own once tx commits; of processes that make one at the same time,
// one succeeds. Where the database has had a key, none is made: the error is a
// *keyring.MissingError.
func (e *Env) makeSecretKey(ctx context.Context, tx pgx.Tx, db *Database) (*keyring.Keyring, error) {
	text := newSecretKey()
	k, err := keyring.New(text)
	if err != nil {
		return nil, fmt.Errorf("cannot make a key for webhooks' secrets: %w", err)
	}
	file := e.SecretKeySource(db)
	err = keyring.Register(ctx, tx, k, e.Clock())
	var missing *keyring.MissingError
	if errors.As(err, &missing) {
		// A process beside this one may have made the file meanwhile.
		if made, err := e.ReadKeyring(db); err != nil || made != nil {
			return made, errors.Join(err, keyring.Register(ctx, tx, made, e.Clock()))
		}
		missing.Reason = noKey(file)
	}
	if err != nil {
		return nil, err
	}
	dir, err := datadir.Make(filepath.Dir(file))
	if err == nil {
		err = errors.Join(dir.CreateFile(secretKeyName, []byte(text)), dir.Close())
	}
	if errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("another process is making the key for webhooks' secrets in %s: try again", file)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot make a key for webhooks' secrets: %w", err)
	}
	if !db.IsLocal() {
		e.Logger.WarnContext(ctx, "made a key for webhooks' secrets: keep a copy on another disk than the data directory's, because without it nobody can open the secrets in the database; "+
			"programs on other machines that use this database need it in LEDGERFEED_SECRET_KEY", "file", file, "fingerprint", k.Fingerprints()[0].String())
	}
	return k, nil
}

func newSecretKey() string {
	var key [32]byte
	_, _ = rand.Read(key[:]) // never fails: the program ends when the system has no randomness
	return hex.EncodeToString(key[:])
}

// CheckSecretKeys is State.Check for the keys from a source, with an error that says where
// they were looked for if there are none.
func CheckSecretKeys(s *keyring.State, k *keyring.Keyring, source string) error {
	err := s.Check(k)
	var missing *keyring.MissingError
	if k == nil && errors.As(err, &missing) {
		missing.Reason = noKey(source)
	}
	return err
}

// noKey says why there is no key at all.
func noKey(file string) string {
	return "LEDGERFEED_SECRET_KEY is not set (is --config or a variable missing?), and there is no file " + file
}

// AddSecretKey puts a new key before those of the file in the data directory, and
// returns all of them. The function undo makes the file what it was.
func (e *Env) AddSecretKey(db *Database) (k *keyring.Keyring, undo func() error, err error) {
	before, err := e.readSecretKeyFile(db)
	if err != nil {
		return nil, nil, err
	}
	text := newSecretKey()
	if before != "" {
		text += "," + before
	}
	k, err = e.writeSecretKeys(db, text)
	return k, func() error {
		if before == "" {
			if err := os.Remove(e.SecretKeySource(db)); err != nil {
				return fmt.Errorf("cannot remove the key that was made: %w", err)
			}
			return nil
		}
		return e.writeKeyFile(db, secretKeyName, before)
	}, err
}

// formerKeysName is the file in the data directory that holds the keys that were
// replaced, because backups of the database from before need them.
const formerKeysName = "secret.key.former"

// KeepSecretKey moves the keys behind one in the file to the file of the former keys, and
// returns what is left and the path of the other file. What stands before the key stays: another
// rotation may have put a new one there meanwhile.
func (e *Env) KeepSecretKey(db *Database, last keyring.Fingerprint) (k *keyring.Keyring, former string, err error) {
	text, err := e.readSecretKeyFile(db)
	if err != nil {
		return nil, "", err
	}
	if k, err = keyring.New(text); err != nil {
		return nil, "", fmt.Errorf("cannot use the key for webhooks' secrets: %w", err)
	}
	former = filepath.Join(db.DataDir(e.Settings.DataDir), formerKeysName)
	at := slices.Index(k.Fingerprints(), last)
	if at < 0 {
		return nil, "", fmt.Errorf("the file %s lacks the key %s, which encrypts now: another rotation changed it at the same time", e.SecretKeySource(db), last)
	}
	list := strings.Split(text, ",")
	if rest := list[at+1:]; len(rest) > 0 {
		earlier, err := e.readKeyFile(db, formerKeysName)
		if err != nil {
			return nil, "", err
		}
		if earlier != "" {
			rest = append(slices.Clone(rest), earlier)
		}
		if err := e.writeKeyFile(db, formerKeysName, strings.Join(rest, ",")); err != nil {
			return nil, "", err
		}
	}
	k, err = e.writeSecretKeys(db, strings.Join(list[:at+1], ","))
	return k, former, err
}

func (e *Env) writeSecretKeys(db *Database, text string) (*keyring.Keyring, error) {
	k, err := keyring.New(text)
	if err != nil {
		return nil, fmt.Errorf("cannot use the key for webhooks' secrets: %w", err)
	}
	return k, e.writeKeyFile(db, secretKeyName, text)
}

func (e *Env) writeKeyFile(db *Database, name, text string) error {
	dir, err := datadir.Make(db.DataDir(e.Settings.DataDir))
	if err == nil {
		err = errors.Join(dir.WriteFile(name, []byte(text)), dir.Close())
	}
	if err != nil {
		return fmt.Errorf("cannot write the key for webhooks' secrets: %w", err)
	}
	return nil
}
