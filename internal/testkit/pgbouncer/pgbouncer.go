// Package pgbouncer runs a PgBouncer in transaction mode before a PostgreSQL of tests.
package pgbouncer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

// account runs PgBouncer where root starts it, which it refuses.
const account = "nobody"

// poolSize is how many connections to the server there are for one database; they are used
// in turn, so that a client meets another one in nearly every transaction.
const poolSize = 24

// PgBouncer stands before all databases of a server.
type PgBouncer struct {
	Dir string // of its socket, for clients

	root     bool
	cmd      *exec.Cmd
	mu       sync.Mutex
	said     bytes.Buffer // guarded by mu
	listener net.Listener
	all      sync.WaitGroup
}

// New prepares a PgBouncer before the server at a socket, for clients of one account. The
// caller closes it.
func New(server, clients string) (b *PgBouncer, err error) {
	b = &PgBouncer{root: os.Geteuid() == 0}
	if b.Dir, err = os.MkdirTemp("", "pooler-"); err != nil {
		return nil, fmt.Errorf("make a directory for PgBouncer: %w", err)
	}
	if err := b.prepare(server, clients); err != nil {
		return nil, errors.Join(err, b.Close())
	}
	return b, nil
}

func (b *PgBouncer) prepare(server, clients string) error {
	if err := b.own(b.Dir); err != nil {
		return err
	}
	if err := b.relay(server); err != nil {
		return err
	}
	if err := b.write("users", fmt.Sprintf("%q \"\"\n", clients)); err != nil {
		return err
	}
	return b.write("pgbouncer.ini", fmt.Sprintf(`[databases]
* = host=%[1]s/server port=5432
[pgbouncer]
listen_addr =
listen_port = 5432
unix_socket_dir = %[1]s
auth_type = trust
auth_file = %[1]s/users
pool_mode = transaction
default_pool_size = %[2]d
server_round_robin = 1
max_client_conn = 1000
server_idle_timeout = 5
log_connections = 0
log_disconnections = 0
`, b.Dir, poolSize))
}

func (b *PgBouncer) own(path string) error {
	if err := os.Chmod(path, 0o755); err != nil {
		return fmt.Errorf("let PgBouncer read: %w", err)
	}
	if !b.root {
		return nil
	}
	uid, _, err := ids()
	if err != nil {
		return err
	}
	if err := os.Chown(path, uid, -1); err != nil {
		return fmt.Errorf("let PgBouncer read: %w", err)
	}
	return nil
}

func ids() (uid, gid int, err error) {
	u, err := user.Lookup(account)
	if err != nil {
		return 0, 0, fmt.Errorf("look up the account for PgBouncer: %w", err)
	}
	uid, err = strconv.Atoi(u.Uid)
	if err == nil {
		gid, err = strconv.Atoi(u.Gid)
	}
	if err != nil {
		return 0, 0, fmt.Errorf("look up the account for PgBouncer: %w", err)
	}
	return uid, gid, nil
}

func (b *PgBouncer) write(name, text string) error {
	path := filepath.Join(b.Dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		return fmt.Errorf("write PgBouncer's settings: %w", err)
	}
	return b.own(path)
}

// relay passes connections of PgBouncer on to the server, which lets in this process's
// account alone.
func (b *PgBouncer) relay(server string) error {
	dir := filepath.Join(b.Dir, "server")
	if err := os.Mkdir(dir, 0o755); err != nil {
		return fmt.Errorf("make a directory for PgBouncer: %w", err)
	}
	if err := b.own(dir); err != nil {
		return err
	}
	path := filepath.Join(dir, ".s.PGSQL.5432")
	listener, err := (&net.ListenConfig{}).Listen(context.Background(), "unix", path)
	if err != nil {
		return fmt.Errorf("listen for PgBouncer: %w", err)
	}
	b.listener = listener
	if err := os.Chmod(path, 0o777); err != nil {
		return fmt.Errorf("listen for PgBouncer: %w", err)
	}
	b.all.Go(func() {
		for {
			from, err := listener.Accept()
			if err != nil {
				return
			}
			to, err := (&net.Dialer{}).DialContext(context.Background(), "unix", server)
			if err != nil {
				_ = from.Close()
				continue
			}
			for _, way := range [][2]net.Conn{{to, from}, {from, to}} {
				b.all.Go(func() {
					_, _ = io.Copy(way[0], way[1])
					_, _ = way[0].Close(), way[1].Close()
				})
			}
		}
	})
	return nil
}

// Write keeps what PgBouncer says.
func (b *PgBouncer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.said.Write(p)
}

// Said is what PgBouncer has said so far.
func (b *PgBouncer) Said() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.TrimSpace(b.said.String())
}

// Begin starts PgBouncer; it answers soon after.
func (b *PgBouncer) Begin() error {
	program, err := exec.LookPath("pgbouncer")
	if err != nil {
		program = "/usr/sbin/pgbouncer"
	}
	b.cmd = exec.CommandContext(context.Background(), program, filepath.Join(b.Dir, "pgbouncer.ini"))
	b.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if b.root {
		uid, gid, err := ids()
		if err != nil {
			return err
		}
		b.cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	}
	b.cmd.Stdout, b.cmd.Stderr = b, b
	if err := b.cmd.Start(); err != nil {
		b.cmd = nil
		return fmt.Errorf("start PgBouncer: %w", err)
	}
	return nil
}

// End kills PgBouncer, and with it all connections through it. The error is what it had to
// end by itself for.
func (b *PgBouncer) End() error {
	if b.cmd == nil {
		return nil
	}
	_ = b.cmd.Process.Kill()
	_ = b.cmd.Wait()
	b.cmd = nil
	_ = os.Remove(filepath.Join(b.Dir, ".s.PGSQL.5432"))
	// What the server has told it, such as that a database is gone, is not its own.
	if text := b.Said(); strings.Contains(text, "] FATAL ") {
		return errors.New("PgBouncer: " + text)
	}
	return nil
}

// Close ends it for good.
func (b *PgBouncer) Close() error {
	err := b.End()
	if b.listener != nil {
		_ = b.listener.Close()
		b.all.Wait()
	}
	return errors.Join(err, os.RemoveAll(b.Dir))
}
