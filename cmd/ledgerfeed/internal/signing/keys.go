package signing

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed/internal/cli"
	"github.com/ledgerfeed/ledgerfeed/internal/datadir"
	"github.com/ledgerfeed/ledgerfeed/internal/localpg"
	"github.com/ledgerfeed/ledgerfeed/internal/signingkey"
	"github.com/ledgerfeed/ledgerfeed/internal/textfile"
)

// fileName is the file in the data directory that holds the key that signs, or two
// as LEDGERFEED_SIGNING_KEY does.
const fileName = "signing.key"

// ErrNoKey means that nothing can be signed.
var ErrNoKey = errors.New("there is no key to sign with: ledgerfeed signing-key new makes one for LEDGERFEED_SIGNING_KEY, which every process needs that serves this database")

// Keys has the keys that notes are signed with: those of LEDGERFEED_SIGNING_KEY, or
// without it, with the program's own PostgreSQL, those of a file in the data directory,
// which is made at the first use. Nil: there are none. With a DATABASE_URL none is made,
// because other processes may serve the same database, and each would sign with its own.
func Keys(ctx context.Context, e *cli.Env) (*signingkey.Keys, error) {
	k, err := ReadKeys(e)
	if k != nil || err != nil || e.Settings.DatabaseURL != "" {
		return k, err
	}
	text, err := signingkey.New(rand.Reader)
	if err != nil {
		return nil, err
	}
	path, err := file(e)
	if err != nil {
		return nil, err
	}
	dir, err := datadir.Make(filepath.Dir(path))
	if err == nil {
		err = errors.Join(dir.CreateFile(fileName, []byte(text)), dir.Close())
	}
	switch {
	case errors.Is(err, fs.ErrExist): // a process beside this one was faster
	case err != nil:
		return nil, fmt.Errorf("cannot make a key to sign with: %w", err)
	default:
		e.Logger.InfoContext(ctx, "made a key that signs checkpoints", "file", path)
	}
	return ReadKeys(e)
}

// ReadKeys is Keys without making any.
func ReadKeys(e *cli.Env) (*signingkey.Keys, error) {
	text := e.Settings.SigningKey
	if text == "" && e.Settings.DatabaseURL == "" {
		var err error
		if text, err = readFile(e); err != nil {
			return nil, fmt.Errorf("cannot read the key that signs: %w", err)
		}
	}
	if text == "" {
		return nil, nil
	}
	k, err := signingkey.Parse(text)
	if err != nil {
		source, _ := Source(e)
		return nil, fmt.Errorf("cannot use the key that signs from %s: %w", source, err)
	}
	return k, nil
}

// Source says where the keys that sign are, or would be: the variable, or the
// file's path.
func Source(e *cli.Env) (string, error) {
	if e.Settings.SigningKey != "" || e.Settings.DatabaseURL != "" {
		return "LEDGERFEED_SIGNING_KEY", nil
	}
	return file(e)
}

func file(e *cli.Env) (string, error) {
	dir, err := localpg.Directory(e.Settings.DataDir)
	if err != nil {
		return "", fmt.Errorf("LEDGERFEED_DATA_DIR or --data-dir, which is %q: %w", e.Settings.DataDir, err)
	}
	return filepath.Join(dir, fileName), nil
}

// readFile returns the file's text; empty if there is none.
func readFile(e *cli.Env) (string, error) {
	path, err := file(e)
	if err != nil {
		return "", err
	}
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	dir, err := datadir.Make(filepath.Dir(path))
	if err != nil {
		return "", err
	}
	defer func() { _ = dir.Close() }()
	text, err := dir.ReadFile(fileName)
	if err != nil {
		return "", err
	}
	if text, err = textfile.Plain(text); err != nil {
		return "", fmt.Errorf("%s: %w", path, err)
	}
	if len(bytes.TrimSpace(text)) == 0 {
		return "", fmt.Errorf("%s is empty: put the key back from where it is kept, or remove the file to have another one made", path)
	}
	return string(text), nil
}
