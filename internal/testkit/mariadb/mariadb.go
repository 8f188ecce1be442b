//go:build outside

// Package mariadb runs a MariaDB for tests, in a process of its own, so that it can be killed as a
// machine is.
package mariadb

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"database/sql"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

// Server is a MariaDB that ends with the test. It answers at a socket without a password, and over TCP
// with TLS alone.
type Server struct {
	Host string // where it answers over TCP, at port 3306
	CA   string // the file with its certificate

	t       testing.TB
	dir     string
	process *exec.Cmd // nil: killed
}

// Start starts a MariaDB with nothing in it.
func Start(t testing.TB) *Server {
	t.Helper()
	dir := testkit.Must(os.MkdirTemp("", "mariadb"))(t) // not t.TempDir: a socket's path is short
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	s := &Server{t: t, dir: dir, Host: testkit.OwnHost(t), CA: filepath.Join(dir, "ca.pem")}
	s.certify()
	//nolint:gosec // a folder of this test
	made, err := exec.CommandContext(t.Context(), "mariadb-install-db", "--no-defaults", s.user(), "--datadir="+s.data(), s.temporary(), "--auth-root-authentication-method=normal", "--skip-test-db").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, made)
	}
	t.Cleanup(s.Kill)
	s.Run()
	return s
}

func (s *Server) data() string { return filepath.Join(s.dir, "data") }

// Socket is where it answers without a password, as root.
func (s *Server) Socket() string { return filepath.Join(s.dir, "s") }

// user makes it run as the user who runs the test, even as root.
func (s *Server) user() string { return "--user=" + testkit.Must(user.Current())(s.t).Username }

// temporary gives it a folder of its own for temporary tables: a MariaDB that starts removes those it finds
// in that folder, also of another one that runs.
func (s *Server) temporary() string { return "--tmpdir=" + s.dir }

// certify makes a certificate that is its own authority.
func (s *Server) certify() {
	s.t.Helper()
	key := testkit.Must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(s.t)
	form := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "mariadb"}, IPAddresses: []net.IP{net.ParseIP(s.Host)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
	}
	der := testkit.Must(x509.CreateCertificate(rand.Reader, form, form, key.Public(), key))(s.t)
	pair := map[string]pem.Block{s.CA: {Type: "CERTIFICATE", Bytes: der}, s.key(): {Type: "PRIVATE KEY", Bytes: testkit.Must(x509.MarshalPKCS8PrivateKey(key))(s.t)}}
	for file, block := range pair {
		testkit.Must(0, os.WriteFile(file, pem.EncodeToMemory(&block), 0o600))(s.t)
	}
}

func (s *Server) key() string { return filepath.Join(s.dir, "key.pem") }

// Run starts it when it was killed, and waits until it answers.
func (s *Server) Run() {
	s.t.Helper()
	//nolint:gosec,noctx // a folder of this test; Kill ends it
	s.process = exec.Command("mariadbd", "--no-defaults", s.user(), "--datadir="+s.data(), s.temporary(), "--socket="+s.Socket(), "--bind-address="+s.Host, "--port=3306",
		"--skip-name-resolve", "--ssl-cert="+s.CA, "--ssl-key="+s.key(), "--require-secure-transport", "--innodb-buffer-pool-size=32M", "--log-error="+filepath.Join(s.dir, "log"))
	testkit.EndWithTest(s.process)
	testkit.Must(0, s.process.Start())(s.t)
	db := s.Open("")
	testkit.Eventually(s.t, func() error {
		if err := db.PingContext(s.t.Context()); err != nil {
			said, _ := os.ReadFile(filepath.Join(s.dir, "log"))
			return fmt.Errorf("%w\n%s", err, said)
		}
		return nil
	})
}

// Kill kills it, unless that was done.
func (s *Server) Kill() {
	if s.process != nil {
		_ = s.process.Process.Kill()
		_ = s.process.Wait() // it was killed
		s.process = nil
	}
}

// Open opens a database as root, until the test ends.
func (s *Server) Open(database string) *sql.DB {
	s.t.Helper()
	c := mysql.NewConfig()
	c.User, c.Net, c.Addr, c.DBName, c.MultiStatements, c.Logger = "root", "unix", s.Socket(), database, true, &mysql.NopLogger{}
	db := sql.OpenDB(testkit.Must(mysql.NewConnector(c))(s.t))
	s.t.Cleanup(func() { _ = db.Close() })
	return db
}
