//go:build outside

package frontproxy

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

// Proxy is a running proxy.
type Proxy struct {
	kind Kind
	site
	ready *readiness
}

// started counts the proxies of this process, each of which has an address of its own.
var started atomic.Uint32 //nolint:gochecknoglobals // a process has each address once

// Start runs a proxy until the test ends.
func Start(t testing.TB, kind Kind, cfg Config) *Proxy {
	t.Helper()
	pid, n := os.Getpid(), started.Add(1)
	if n > 254 {
		t.Fatal("no address is left for another proxy")
	}
	ready := newReadiness(t)
	_, admin, _ := net.SplitHostPort(ready.server.Listener.Addr().String())
	s := site{dir: t.TempDir(), ip: fmt.Sprintf("127.%d.%d.%d", 1+(pid>>8)%254, pid%256, n), admin: admin}
	s.cert = newCertificate(t, s.dir)
	p := &Proxy{kind: kind, site: s, ready: ready}
	p.run(t, s.command(t, kind, cfg))
	return p
}

// run starts the proxy's process and waits until it listens.
func (p *Proxy) run(t testing.TB, command *exec.Cmd) {
	t.Helper()
	output := testkit.Must(os.Create(filepath.Join(p.dir, "output.log")))(t)
	defer output.Close()
	command.Stdout, command.Stderr = output, output
	testkit.EndWithTest(command)
	if err := command.Start(); err != nil {
		t.Fatalf("%s does not start (.ci/setup installs it): %v", p.kind, err)
	}
	ended := make(chan error, 1)
	go func() { ended <- command.Wait() }()
	t.Cleanup(func() {
		_ = command.Process.Kill() // it may have ended
		<-ended
	})
	testkit.Eventually(t, func() error {
		select {
		case err := <-ended:
			ended <- err
			t.Fatalf("%s ended: %v\n%s", p.kind, err, p.Logs(t))
		default:
		}
		conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", net.JoinHostPort(p.ip, tlsPort))
		if err != nil {
			return fmt.Errorf("%s does not listen: %w\n%s", p.kind, err, p.Logs(t))
		}
		return conn.Close()
	})
}

// Client is a client for which APIHost and ConsoleHost are at the proxy. It speaks
// HTTP/2, or HTTP/1.1 alone, and comes from an address of the loopback network.
func (p *Proxy) Client(t testing.TB, http2 bool, from string) *http.Client {
	t.Helper()
	roots := x509.NewCertPool()
	roots.AddCert(p.cert.leaf)
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	transport := &http.Transport{
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			port := tlsPort
			if strings.HasSuffix(address, ":80") {
				port = plainPort
			}
			return dialer.DialContext(ctx, network, net.JoinHostPort(p.ip, port))
		},
		TLSClientConfig:    &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
		ForceAttemptHTTP2:  http2,
		DisableCompression: true,
	}
	if !http2 {
		transport.TLSNextProto = map[string]func(string, *tls.Conn) http.RoundTripper{}
	}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{
		Transport: transport, Timeout: time.Minute,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// SetReady is what /readyz of the program's admin listener says from now on.
func (p *Proxy) SetReady(ready bool) { p.ready.yes.Store(ready) }

// Logs are everything that the proxy has logged.
func (p *Proxy) Logs(t testing.TB) string {
	t.Helper()
	var all strings.Builder
	for _, name := range testkit.Must(filepath.Glob(filepath.Join(p.dir, "*.log")))(t) {
		all.Write(testkit.Must(os.ReadFile(name))(t))
	}
	return all.String()
}

// readiness is the admin listener of the program.
type readiness struct {
	server *httptest.Server
	yes    atomic.Bool
}

func newReadiness(t testing.TB) *readiness {
	t.Helper()
	r := &readiness{}
	r.yes.Store(true)
	r.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if q.URL.Path != "/readyz" || !r.yes.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	t.Cleanup(r.server.Close)
	return r
}
