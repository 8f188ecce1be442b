package listening

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// pki is a certificate in files, which a test can replace.
type pki struct {
	t         *testing.T
	cert, key string
	roots     *x509.CertPool
	writes    int
}

func newPKI(t *testing.T) *pki {
	t.Helper()
	dir := t.TempDir()
	p := &pki{t: t, cert: filepath.Join(dir, "cert.pem"), key: filepath.Join(dir, "key.pem"), roots: x509.NewCertPool()}
	p.write(1)
	return p
}

// write writes a new certificate with a serial number.
func (p *pki) write(serial int64) {
	p.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		p.t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(serial), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		DNSNames: []string{"api.example"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		p.t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		p.t.Fatal(err)
	}
	p.put(p.cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	p.put(p.key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}))
	made, err := x509.ParseCertificate(der)
	if err != nil {
		p.t.Fatal(err)
	}
	p.roots.AddCert(made)
}

// put writes a file whose time differs from all before, whatever the file system's
// precision.
func (p *pki) put(name string, text []byte) {
	p.t.Helper()
	if err := os.WriteFile(name, text, 0o600); err != nil {
		p.t.Fatal(err)
	}
	p.writes++
	at := time.Now().Add(time.Duration(p.writes) * time.Minute)
	if err := os.Chtimes(name, at, at); err != nil {
		p.t.Fatal(err)
	}
}

// clock is a time that a test moves.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// site is a server that answers with the protocol that it was asked in.
type site struct {
	*pki

	address string
	clock   *clock
	log     *bytes.Buffer
	server  *http.Server
	ended   chan error
}

func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{pki: newPKI(t), clock: &clock{now: time.Now()}, log: &bytes.Buffer{}, ended: make(chan error, 1)}
	c, err := LoadCertificate(CertificateConfig{CertFile: s.cert, KeyFile: s.key, Clock: s.clock.Now, Logger: slog.New(slog.NewTextHandler(s.log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	var config net.ListenConfig
	below, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.address = below.Addr().String()
	s.server = &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.Proto) })}
	go func() { s.ended <- s.server.Serve(WithTLS(&shortOfFiles{Listener: below, left: 3}, c)) }()
	t.Cleanup(s.close)
	return s
}

// shortOfFiles fails at first, as where the process has as many open files as it may
// have.
type shortOfFiles struct {
	net.Listener

	left int
}

func (l *shortOfFiles) Accept() (net.Conn, error) {
	if l.left > 0 {
		l.left--
		return nil, &net.OpError{Op: "accept", Err: os.NewSyscallError("accept4", syscall.EMFILE)}
	}
	return l.Listener.Accept()
}

func (s *site) close() {
	_ = s.server.Close()
	<-s.ended
}

// get asks over HTTP/2 or HTTP/1.1 on a new connection, and returns the answer and the
// certificate's serial number.
func (s *site) get(h2 bool) (body string, serial int64) {
	s.t.Helper()
	transport := &http.Transport{ForceAttemptHTTP2: h2, TLSClientConfig: &tls.Config{RootCAs: s.roots, ServerName: "api.example", MinVersion: tls.VersionTLS12}}
	defer transport.CloseIdleConnections()
	req, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, "https://"+s.address, http.NoBody)
	if err != nil {
		s.t.Fatal(err)
	}
	resp, err := (&http.Client{Transport: transport, Timeout: 10 * time.Second}).Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return string(text), resp.TLS.PeerCertificates[0].SerialNumber.Int64()
}

func TestBothProtocols(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	if got, _ := s.get(true); got != "HTTP/2.0" {
		t.Errorf("HTTP/2 is answered as %s", got)
	}
	if got, _ := s.get(false); got != "HTTP/1.1" {
		t.Errorf("HTTP/1.1 is answered as %s", got)
	}
}

// Callers that say nothing, or no TLS, delay nobody, and the server can end.
func TestCallersWithoutHandshake(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	var dialer net.Dialer
	for _, says := range []string{"", "", "GET / HTTP/1.1\r\n\r\n"} {
		conn, err := dialer.DialContext(t.Context(), "tcp", s.address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		if _, err := io.WriteString(conn, says); err != nil {
			t.Fatal(err)
		}
	}
	for range 3 {
		s.get(true)
	}
}

// A certificate that is replaced is used by new connections without a restart; one that
// cannot be read, or whose key does not fit, leaves the one before in use.
func TestCertificateIsReadAgain(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	serial := func() int64 {
		_, n := s.get(true)
		return n
	}
	if n := serial(); n != 1 {
		t.Fatalf("the certificate is number %d", n)
	}
	s.write(2)
	if n := serial(); n != 1 {
		t.Errorf("number %d is used before it is time to look", n)
	}
	s.clock.pass(lookEvery)
	if n := serial(); n != 2 {
		t.Errorf("after a replacement number %d is used", n)
	}
	s.put(s.cert, []byte("half of a file"))
	for range 3 {
		s.clock.pass(lookEvery)
		if n := serial(); n != 2 {
			t.Errorf("with a file that cannot be read number %d is used", n)
		}
	}
	if err := os.Remove(s.key); err != nil {
		t.Fatal(err)
	}
	s.clock.pass(lookEvery)
	if n := serial(); n != 2 {
		t.Errorf("without a key number %d is used", n)
	}
	s.write(3)
	s.clock.pass(lookEvery)
	if n := serial(); n != 3 {
		t.Errorf("once the files are whole again number %d is used", n)
	}
	s.close()
	s.ended <- nil // for the cleanup
	if text := s.log.String(); strings.Count(text, "cannot use the TLS certificate") != 1 || strings.Count(text, "read again") != 2 {
		t.Errorf("logged:\n%s", text)
	}
}

// The error of a start without a certificate that can be used names the file.
func TestNoCertificate(t *testing.T) {
	t.Parallel()
	p := newPKI(t)
	for _, files := range [][2]string{{"absent.pem", p.key}, {p.cert, "absent.pem"}, {p.key, p.cert}} {
		_, err := LoadCertificate(CertificateConfig{CertFile: files[0], KeyFile: files[1], Clock: time.Now, Logger: slog.New(slog.DiscardHandler)})
		if err == nil || !strings.Contains(err.Error(), files[0]) && !strings.Contains(err.Error(), files[1]) {
			t.Errorf("%v: %v", files, err)
		}
	}
}
