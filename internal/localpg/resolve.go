//go:build unix

package localpg

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"log/slog"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/ledgerfeed/ledgerfeed/internal/datadir"
)

// rootRules say which account runs the server when root starts it, because PostgreSQL refuses to
// run as root, and where the data directory goes if that account cannot reach the wanted one.
type rootRules struct {
	accounts []string // tried in this order when the process is root
	dir      string   // parent of the data directories used instead
}

func defaultRootRules() rootRules {
	return rootRules{accounts: []string{"postgres", "nobody"}, dir: "/var/lib/ledgerfeed"}
}

// resolve determines the place for a wanted data directory. The error says why it cannot be used.
func (r rootRules) resolve(wanted string) (place, error) {
	dir, err := datadir.Resolve(wanted)
	if err != nil {
		return place{}, err
	}
	p := place{wanted: dir, dir: dir}
	if uid := os.Geteuid(); uid != 0 {
		p.account = account{name: datadir.AccountName(uid), uid: uid, gid: os.Getegid()}
		p.programs = p.file("programs")
		return p, nil
	}
	p.programs = filepath.Join(r.dir, "programs")
	if p.account, err = r.serverAccount(dir); err != nil {
		return place{}, err
	}
	if !p.account.mayReach(filepath.Dir(dir)) { // the directory itself is opened to the account's group
		p.dir = filepath.Join(r.dir, stableName(dir))
		// A cluster in the wanted directory does not decide the account for this one.
		if p.account, err = r.serverAccount(p.dir); err != nil {
			return place{}, err
		}
		if !p.account.mayReach(r.dir) {
			return place{}, fmt.Errorf("the account %s, under which PostgreSQL runs because root may not run it, can enter neither %s nor %s: choose another data directory", p.account.name, dir, p.dir)
		}
	}
	if above, can := p.account.canExchange(p.dir); can {
		return place{}, fmt.Errorf("the account %s, under which PostgreSQL runs because root may not run it, can exchange what is in %s, so the data directory %s is not used: choose another one with LEDGERFEED_DATA_DIR", p.account.name, above, p.dir)
	}
	return p, nil
}

// serverAccount returns the account that owns the cluster or, without a cluster, the first of
// r.accounts that exists. No other process is in its group.
func (r rootRules) serverAccount(dir string) (account, error) {
	if info, err := os.Stat(filepath.Join(dir, clusterName)); err == nil {
		if uid, _ := datadir.OwnerOf(info); uid != 0 {
			return account{name: datadir.AccountName(uid), uid: uid, gid: privateGroup()}, nil
		}
	}
	for _, name := range r.accounts {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err := strconv.Atoi(u.Uid)
		if err != nil {
			return account{}, fmt.Errorf("read the account %s: %w", name, err)
		}
		return account{name: name, uid: uid, gid: privateGroup()}, nil
	}
	return account{}, fmt.Errorf("PostgreSQL refuses to run as root, and none of the accounts %s exists: create one, or run as an ordinary user", strings.Join(r.accounts, ", "))
}

// stableName returns a readable directory name for path, the same one each time.
func stableName(path string) string {
	h := fnv.New64a()
	_, _ = h.Write([]byte(path))
	readable := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '-', r == '_':
			return r
		case r == '/':
			return '-'
		}
		return -1
	}, strings.Trim(path, "/"))
	if len(readable) > 32 {
		readable = readable[len(readable)-32:]
	}
	return fmt.Sprintf("%s-%016x", strings.Trim(readable, "-"), h.Sum64())
}

// setup is what it takes to start or join a server.
type setup struct {
	cfg   Config
	opts  options
	log   *slog.Logger
	place place
}

// options are the parts of the environment that tests replace.
type options struct {
	search   Search
	roots    rootRules
	settings map[string]string // of the server; they override this package's own
	joined   time.Duration     // how long a closing owner waits for joined programs
}

func defaultOptions() options {
	return options{search: DefaultSearch(), roots: defaultRootRules(), joined: joinedTimeout}
}

// joinedTimeout is how long a closing owner waits for joined programs. It lets work in flight
// finish, but does not wait for a service to end, and is shorter than the stop timeout of service
// managers.
const joinedTimeout = 20 * time.Second

// owned is a hold on a server that this process runs.
type owned struct {
	setup   *setup
	lock    *lock
	process *postmaster
}

// own starts the server under lock l. If that fails, it releases l.
func (s *setup) own(ctx context.Context, l *lock) (hold, error) {
	process, err := s.startPostgres(ctx, l)
	if err != nil {
		return nil, errors.Join(err, l.release())
	}
	return &owned{setup: s, lock: l, process: process}, nil
}

func (o *owned) wait(ctx context.Context) error {
	select {
	case <-o.process.exited:
		return fmt.Errorf("the local PostgreSQL in %s ended unexpectedly: %w", o.setup.place.dir, o.process.failure())
	case <-ctx.Done():
		return nil
	}
}

// release waits for joined programs (awaitJoined) and then stops the server. If ctx is done first,
// the server continues to stop and keeps the lock until it has.
func (o *owned) release(ctx context.Context) error {
	conn := o.setup.awaitJoined(ctx)
	err := o.process.stop(ctx)
	if conn != nil {
		_ = conn.Close(ctx)
	}
	if p := o.setup.place; p.sockets() != p.dir {
		_ = os.RemoveAll(p.sockets())
	}
	return errors.Join(err, o.lock.release())
}

// Exists reports whether a data directory holds a server's data. It changes nothing.
func Exists(dataDir string) (bool, error) {
	p, err := defaultOptions().roots.resolve(dataDir)
	if err != nil {
		return false, err
	}
	_, err = os.Stat(p.cluster())
	if err == nil {
		return true, nil
	}
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return false, fmt.Errorf("look for the data of PostgreSQL: %w", err)
}

// Directory returns the data directory that a server would really use. For root it may differ from
// dataDir (see [Server.DataDir]). It changes nothing.
func Directory(dataDir string) (string, error) {
	p, err := defaultOptions().roots.resolve(dataDir)
	return p.dir, err
}
