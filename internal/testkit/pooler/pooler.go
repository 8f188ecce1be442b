//go:build outside

package pooler

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/internal/pg"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

// Pooler is a PgBouncer before one database.
type Pooler struct {
	URL  string // for package pg, with the mode
	Bare string // without it

	t    testing.TB
	dir  string
	root bool
	cmd  *exec.Cmd
	said testkit.Buffer
}

// The account that runs PgBouncer, which root does not.
const account = "nobody"

// Connections to the server for one database; they are used in turn, so that a client
// meets another one in nearly every transaction.
const poolSize = 24

// Start starts a PgBouncer before a database of testkit; it ends with the test.
func Start(t testing.TB, database string) *Pooler {
	t.Helper()
	at := testkit.Must(url.Parse(database))(t)
	p := &Pooler{t: t, dir: testkit.Must(os.MkdirTemp("", "pooler-"))(t), root: os.Geteuid() == 0}
	t.Cleanup(func() { _ = os.RemoveAll(p.dir) })
	p.own(p.dir)
	p.relay(filepath.Join(at.Query().Get("host"), ".s.PGSQL.5432"))
	p.write("users", fmt.Sprintf("%q \"\"\n", at.User.Username()))
	p.write("pgbouncer.ini", fmt.Sprintf(`[databases]
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
max_client_conn = 200
server_idle_timeout = 5
log_connections = 0
log_disconnections = 0
`, p.dir, poolSize))
	query := at.Query()
	query.Set("host", p.dir)
	query.Del("options")
	at.RawQuery = query.Encode()
	p.Bare = at.String()
	p.URL = pg.ThroughPooler(p.Bare)
	p.Begin()
	t.Cleanup(p.End)
	return p
}

func (p *Pooler) own(path string) {
	p.t.Helper()
	err := os.Chmod(path, 0o755)
	if p.root {
		u := testkit.Must(user.Lookup(account))(p.t)
		err = errors.Join(err, os.Chown(path, testkit.Must(strconv.Atoi(u.Uid))(p.t), -1))
	}
	if err != nil {
		p.t.Fatal(err)
	}
}

func (p *Pooler) write(name, text string) {
	p.t.Helper()
	path := filepath.Join(p.dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		p.t.Fatal(err)
	}
	p.own(path)
}

// relay passes connections of PgBouncer on to the server, which lets in this process's
// account alone.
func (p *Pooler) relay(server string) {
	p.t.Helper()
	dir := filepath.Join(p.dir, "server")
	if err := os.Mkdir(dir, 0o755); err != nil {
		p.t.Fatal(err)
	}
	p.own(dir)
	path := filepath.Join(dir, ".s.PGSQL.5432")
	listener := testkit.Must(net.Listen("unix", path))(p.t)
	if err := os.Chmod(path, 0o777); err != nil {
		p.t.Fatal(err)
	}
	var all sync.WaitGroup
	p.t.Cleanup(func() {
		_ = listener.Close()
		all.Wait()
	})
	all.Go(func() {
		for {
			from, err := listener.Accept()
			if err != nil {
				return
			}
			to, err := net.Dial("unix", server)
			if err != nil {
				_ = from.Close()
				continue
			}
			for _, way := range [][2]net.Conn{{to, from}, {from, to}} {
				all.Go(func() {
					_, _ = io.Copy(way[0], way[1])
					_, _ = way[0].Close(), way[1].Close()
				})
			}
		}
	})
}

// Begin starts PgBouncer, and waits until it answers.
func (p *Pooler) Begin() {
	p.t.Helper()
	program, err := exec.LookPath("pgbouncer")
	if err != nil {
		program = "/usr/sbin/pgbouncer"
	}
	p.cmd = exec.Command(program, filepath.Join(p.dir, "pgbouncer.ini"))
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if p.root {
		u := testkit.Must(user.Lookup(account))(p.t)
		uid, gid := testkit.Must(strconv.Atoi(u.Uid))(p.t), testkit.Must(strconv.Atoi(u.Gid))(p.t)
		p.cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	}

	p.cmd.Stdout, p.cmd.Stderr = &p.said, &p.said
	if err := p.cmd.Start(); err != nil {
		p.t.Fatalf("start PgBouncer: %v", err)
	}
	testkit.Eventually(p.t, func() error {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		conn, err := pgx.Connect(ctx, p.Bare)
		if err != nil {
			return fmt.Errorf("%w\n%s", err, strings.TrimSpace(p.said.String()))
		}
		return conn.Close(ctx)
	})
}

// End kills PgBouncer, and with it all connections through it.
func (p *Pooler) End() {
	if p.cmd == nil {
		return
	}
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
	if text := p.said.String(); strings.Contains(text, "FATAL") {
		p.t.Errorf("PgBouncer: %s", text)
	}
	p.cmd = nil
	_ = os.Remove(filepath.Join(p.dir, ".s.PGSQL.5432"))
}
