package attempt

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ledgerfeed/ledgerfeed/delivery/policy"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

const hostileTimeout = 1200 * time.Millisecond

// hostile is a receiver that behaves badly on a raw connection.
type hostile struct {
	name    string
	serve   func(c net.Conn) // nil: handler
	handler http.HandlerFunc
	h2      bool
	tls     func(*tls.Config)
	plain   bool    // no TLS at all
	reset   bool    // needs TCP
	outcome Outcome // empty: any failure
	words   string
}

func write(c io.Writer, text string) bool {
	_, err := io.WriteString(c, text)
	return err == nil
}

func readRequest(c net.Conn) { _, _ = http.ReadRequest(bufio.NewReaderSize(c, 512)) }

func hostiles() []hostile {
	chunk := strings.Repeat("x", 8<<10)
	bomb := func() []byte {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		zeros := make([]byte, 1<<20)
		for range 64 {
			_, _ = z.Write(zeros)
		}
		_ = z.Close()
		return b.Bytes()
	}()
	drip := func(c net.Conn, text string) {
		beat := time.NewTicker(30 * time.Millisecond)
		defer beat.Stop()
		for i := 0; i < len(text) && write(c, text[i:i+1]); i++ {
			<-beat.C
		}
	}
	return []hostile{
		{name: "never answers", serve: func(c net.Conn) { readRequest(c); _, _ = io.Copy(io.Discard, c) },
			outcome: OutcomeTimeout, words: "no answer within 1.2s"},
		{name: "drips its headers", serve: func(c net.Conn) { readRequest(c); drip(c, "HTTP/1.1 200 OK\r\n"+strings.Repeat("a: b\r\n", 99)) },
			outcome: OutcomeTimeout, words: "no answer within"},
		{name: "drips its body", serve: func(c net.Conn) {
			readRequest(c)
			write(c, "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
			drip(c, strings.Repeat("x", 1000))
		}, outcome: OutcomeSuccess},
		{name: "drips the body of a refusal", serve: func(c net.Conn) {
			readRequest(c)
			write(c, "HTTP/1.1 503 No\r\nContent-Length: 1000\r\n\r\n")
			drip(c, strings.Repeat("x", 1000))
		}, outcome: OutcomeAnswered, words: "answered 503"},
		{name: "endless headers", serve: func(c net.Conn) {
			readRequest(c)
			write(c, "HTTP/1.1 200 OK\r\n")
			for write(c, "X-More: "+chunk+"\r\n") {
			}
		}, outcome: OutcomeBroken, words: "headers are longer"},
		{name: "an endless header line", serve: func(c net.Conn) {
			readRequest(c)
			write(c, "HTTP/1.1 200 OK\r\nX: ")
			for write(c, chunk) {
			}
		}, outcome: OutcomeBroken, words: "headers are longer"},
		{name: "an endless body", serve: func(c net.Conn) {
			readRequest(c)
			write(c, "HTTP/1.1 200 OK\r\n\r\n")
			for write(c, chunk) {
			}
		}, outcome: OutcomeSuccess},
		{name: "an endless body in HTTP/2", h2: true, handler: func(w http.ResponseWriter, _ *http.Request) {
			for {
				if _, err := io.WriteString(w, chunk); err != nil {
					return
				}
			}
		}, outcome: OutcomeSuccess},
		{name: "endless headers in HTTP/2", h2: true, handler: func(w http.ResponseWriter, _ *http.Request) {
			for i := range 100 {
				w.Header().Set(fmt.Sprintf("X-%d", i), chunk[:1000])
			}
		}, outcome: OutcomeBroken, words: "headers are longer"},
		{name: "never answers in HTTP/2", h2: true, handler: func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
			outcome: OutcomeTimeout, words: "no answer within"},
		{name: "GOAWAY in HTTP/2 to every connection", h2: true, serve: func(c net.Conn) {
			const settings, goAway = "\x00\x00\x00\x04\x00\x00\x00\x00\x00", "\x00\x00\x08\x07\x00\x00\x00\x00\x00"
			write(c, settings+goAway+strings.Repeat("\x00", 8)) // no stream was handled, no error
			_, _ = io.Copy(io.Discard, c)
		}, words: "answer"}, // the transport waits, or gives up
		{name: "settings without end in HTTP/2", h2: true, serve: func(c net.Conn) {
			go func() { _, _ = io.Copy(io.Discard, c) }()
			beat := time.NewTicker(30 * time.Millisecond)
			defer beat.Stop()
			_, kernel := c.(*tls.Conn).NetConn().(*net.TCPConn)
			for write(c, strings.Repeat("\x00\x00\x00\x04\x00\x00\x00\x00\x00", 100)) {
				if !kernel { // in a bubble no time passes while somebody works
					<-beat.C
				}
			}
		}, outcome: OutcomeTimeout, words: "no answer within"},
		{name: "a gzip bomb", handler: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = w.Write(bomb)
		}, outcome: OutcomeSuccess},
		{name: "a reset", reset: true, serve: func(c net.Conn) {
			readRequest(c)
			if t, ok := c.(*tls.Conn).NetConn().(*net.TCPConn); ok {
				_ = t.SetLinger(0)
				_ = t.Close()
			}
		}, outcome: OutcomeBroken, words: "reset"},
		{name: "hangs up", serve: func(c net.Conn) { readRequest(c) }, outcome: OutcomeBroken, words: "closed without an answer"},
		{name: "hangs up in HTTP/2", h2: true, handler: func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
			outcome: OutcomeBroken, words: "reset"},
		{name: "does not speak HTTP", serve: func(c net.Conn) { readRequest(c); write(c, "220 mail.example.com ESMTP\r\n") },
			outcome: OutcomeBroken, words: "not HTTP"},
		{name: "floods with 1xx", serve: func(c net.Conn) {
			readRequest(c)
			for write(c, "HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n") {
			}
		}, outcome: OutcomeBroken, words: "headers are longer"},
		{name: "switches protocols", serve: func(c net.Conn) {
			readRequest(c)
			write(c, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n")
			_, _ = io.Copy(io.Discard, c)
		}, outcome: OutcomeAnswered, words: "answered 101"},
		{name: "redirects to a private address", handler: func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "https://169.254.169.254/latest/meta-data", http.StatusTemporaryRedirect)
		}, outcome: OutcomeAnswered, words: "answered 307, a redirect, which is not followed"},
		{name: "does not speak TLS", plain: true, serve: func(c net.Conn) { write(c, "HTTP/1.1 400 Bad Request\r\n\r\n") },
			outcome: OutcomeTLS, words: "does not speak TLS"},
		{name: "takes the connection and says nothing", plain: true, serve: func(c net.Conn) { _, _ = io.Copy(io.Discard, c) },
			outcome: OutcomeTimeout, words: "no agreement on encryption"},
		{name: "old TLS", tls: func(c *tls.Config) { c.MinVersion, c.MaxVersion = tls.VersionTLS10, tls.VersionTLS11 },
			outcome: OutcomeTLS, words: "TLS 1.2 or newer"},
		{name: "an expired certificate", tls: certificate("127.0.0.1", -48*time.Hour, -24*time.Hour), outcome: OutcomeTLS, words: "the certificate has expired"},
		{name: "a certificate of tomorrow", tls: certificate("127.0.0.1", 24*time.Hour, 48*time.Hour), outcome: OutcomeTLS, words: "not valid yet"},
		{name: "another's certificate", tls: certificate("10.9.8.7", -time.Hour, time.Hour), outcome: OutcomeTLS, words: "for another name"},
		{name: "an unknown authority", tls: func(c *tls.Config) {
			certificate("127.0.0.1", -time.Hour, time.Hour)(c)
			c.Certificates[0].Certificate = [][]byte{selfSigned("127.0.0.1", c.Certificates[0].PrivateKey.(*ecdsa.PrivateKey))}
		}, outcome: OutcomeTLS, words: "not signed by a known authority"},
	}
}

// testAuthority signs certificates for the hostile receivers.
var testAuthority = sync.OnceValue(func() (ca struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}) {
	ca.key, _ = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, NotBefore: time.Unix(0, 0), NotAfter: time.Unix(1<<32, 0), // also for clocks that begin in 2000
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, _ := x509.CreateCertificate(rand.Reader, template, template, &ca.key.PublicKey, ca.key)
	ca.cert, _ = x509.ParseCertificate(der)
	return ca
})

func leaf(ip string, from, to time.Duration) *x509.Certificate {
	return &x509.Certificate{
		SerialNumber: big.NewInt(2), NotBefore: time.Now().Add(from), NotAfter: time.Now().Add(to),
		IPAddresses: []net.IP{net.ParseIP(ip)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
}

func certificate(ip string, from, to time.Duration) func(*tls.Config) {
	return func(c *tls.Config) {
		ca := testAuthority()
		key, _ := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		der, _ := x509.CreateCertificate(rand.Reader, leaf(ip, from, to), ca.cert, &key.PublicKey, ca.key)
		c.Certificates = []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}
	}
}

func selfSigned(ip string, key *ecdsa.PrivateKey) []byte {
	template := leaf(ip, -time.Hour, time.Hour)
	template.Subject.CommonName = "nobody's"
	der, _ := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	return der
}

// start runs the receiver and returns its address and a function that ends it.
func (h *hostile) start() (address string, stop func(), err error) {
	if h.serve == nil {
		s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if h.handler != nil {
				h.handler(w, r)
			}
		}))
		s.EnableHTTP2 = h.h2
		s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelInfo)
		if h.tls != nil {
			s.TLS = &tls.Config{}
			h.tls(s.TLS)
		}
		s.StartTLS()
		return s.URL, func() { s.CloseClientConnections(); s.Close() }, nil
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	if !h.plain {
		s := httptest.NewTLSServer(nil)
		defer s.Close()
		cfg := &tls.Config{Certificates: s.TLS.Certificates}
		if h.h2 {
			cfg.NextProtos = []string{"h2"}
		}
		l = tls.NewListener(l, cfg)
	}
	var conns sync.WaitGroup
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			conns.Go(func() { defer c.Close(); h.serve(c) })
		}
	}()
	return "https://" + l.Addr().String(), func() { _ = l.Close(); <-done; conns.Wait() }, nil
}

// here runs the receiver in the test's own process.
func (h *hostile) here(t *testing.T) (address string) {
	t.Helper()
	address, stop, err := h.start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	return address
}

// hostileWorld is what such a process prints about itself.
type hostileWorld struct {
	Authorities []byte // PEM
	Addresses   []string
}

// childReceivers runs them all until in ends.
func childReceivers(in io.Reader, out io.Writer) error {
	s := httptest.NewTLSServer(nil)
	s.Close()
	world := hostileWorld{Authorities: authoritiesOf(s)}
	for _, h := range hostiles() {
		address, _, err := h.start()
		if err != nil {
			return err
		}
		world.Addresses = append(world.Addresses, address)
	}
	if err := json.NewEncoder(out).Encode(&world); err != nil {
		return err
	}
	_, err := io.Copy(io.Discard, in)
	return err
}

// TestHostileReceivers sends each of them many messages at once. No attempt takes
// longer than its deadline. Time passes in a bubble only while nobody works, so that the
// deadline holds to the nanosecond.
func TestHostileReceivers(t *testing.T) {
	t.Parallel()
	const together = 8
	own := httptest.NewTLSServer(nil)
	own.Close()
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, authoritiesOf(own), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, h := range hostiles() {
		if h.reset {
			continue // only the kernel resets a connection
		}
		t.Run(h.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				l := newPipes()
				ended := h.on(l, own.TLS.Certificates)
				sender := testkit.Must(NewSender(SenderConfig{Settings: policy.Settings{Timeout: hostileTimeout, Allow: testkit.Loopback(), CAFile: ca}, Clock: time.Now}))(t)
				sender.dialer.connect = l.dial
				results := make(chan Result, together)
				for range together {
					go func() {
						began := time.Now()
						a := sender.to(t, "https://127.0.0.1:1")
						if took := time.Since(began); took > hostileTimeout {
							t.Errorf("took %v, the deadline is %v", took, hostileTimeout)
						}
						results <- a
					}()
				}
				for range together {
					h.judge(t, <-results)
				}
				sender.Close()
				_ = l.Close()
				l.ends.Wait()
				ended()
				if n := l.dials.Load(); n > together*(maxDials+1) {
					t.Errorf("%d connections for %d messages", n, together)
				}
			})
		})
	}
}

// TestAReset is the one hostile receiver that needs a connection of the kernel's.
func TestAReset(t *testing.T) {
	t.Parallel()
	for _, h := range hostiles() {
		if h.reset {
			sender := testkit.Must(NewSender(SenderConfig{Settings: policy.Settings{Timeout: time.Minute, Allow: testkit.Loopback(), CAFile: testkit.CAFile(t)}, Clock: time.Now}))(t)
			h.judge(t, sender.to(t, h.here(t)))
			sender.Close()
		}
	}
}

// judge checks what an attempt has come to.
func (h *hostile) judge(t *testing.T, a Result) {
	t.Helper()
	if a.Outcome != h.outcome && (h.outcome != "" || a.Success()) || !strings.Contains(a.Error, h.words) {
		t.Errorf("%s: %q, want %s: %q", a.Outcome, a.Error, h.outcome, h.words)
	}
	if len(a.Answer) > keptAnswer {
		t.Errorf("%d bytes of the answer are kept", len(a.Answer))
	}
}

// on runs the receiver on a listener, with these certificates unless it has others. It ends with
// the listener; the function that it returns waits for that.
func (h *hostile) on(l net.Listener, certificates []tls.Certificate) (ended func()) {
	var group sync.WaitGroup
	cfg := &tls.Config{Certificates: certificates}
	if h.tls != nil {
		h.tls(cfg)
	}
	if h.h2 {
		cfg.NextProtos = []string{"h2"}
	}
	if h.serve == nil {
		s := &http.Server{Handler: h.handler, TLSConfig: cfg, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelInfo)}
		if h.handler == nil {
			s.Handler = http.NotFoundHandler()
		}
		group.Go(func() { _ = s.ServeTLS(l, "", "") })
		return group.Wait
	}
	group.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			if !h.plain {
				c = tls.Server(c, cfg)
			}
			group.Go(func() { defer c.Close(); h.serve(c) })
		}
	})
	return group.Wait
}

// authoritiesOf returns the authorities of the hostile receivers' certificates, in PEM form.
func authoritiesOf(s *httptest.Server) (text []byte) {
	for _, der := range [][]byte{s.Certificate().Raw, testAuthority().cert.Raw} {
		text = append(text, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})...)
	}
	return text
}

// TestKeptOpenConnectionMayBeClosed: a receiver closes its connection after each
// answer without announcing it. No message may fail because of that.
func TestKeptOpenConnectionMayBeClosed(t *testing.T) {
	t.Parallel()
	h := hostile{serve: func(c net.Conn) {
		r := bufio.NewReader(c)
		req, err := http.ReadRequest(r)
		if err != nil {
			return
		}
		_, _ = io.Copy(io.Discard, req.Body)
		write(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
		_, _ = http.ReadRequest(r) // takes the next one and hangs up
	}}
	sender := testkit.Must(NewSender(SenderConfig{Settings: policy.Settings{Allow: testkit.Loopback(), CAFile: testkit.CAFile(t)}, Clock: time.Now}))(t)
	defer sender.Close()
	address := h.here(t)
	for i := range 10 {
		if a := sender.to(t, address); !a.Success() || a.Answer != "ok" {
			t.Fatalf("message %d: %+v", i, a)
		}
	}
}

// TestGoAwayLosesNothing closes an HTTP/2 server gracefully under load.
func TestGoAwayLosesNothing(t *testing.T) {
	t.Parallel()
	rc := testkit.NewReceiver(t, func(n int, w http.ResponseWriter, r *http.Request) {
		if n%20 == 0 {
			w.Header().Set("Connection", "close") // in HTTP/2: GOAWAY
		}
		testkit.TakeTime(r, time.Millisecond)
	})
	sender := testkit.Must(NewSender(SenderConfig{Settings: policy.Settings{Allow: testkit.Loopback(), CAFile: testkit.CAFile(t)}, Clock: time.Now}))(t)
	defer sender.Close()
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for range 50 {
				if a := sender.to(t, rc.URL); !a.Success() {
					t.Errorf("%+v", a)
				}
			}
		})
	}
	group.Wait()
}

// TestLastWordsAreAwaitedUntilTheDeadline: a write that fails does not wait longer than the attempt
// has time.
func TestLastWordsAreAwaitedUntilTheDeadline(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		client, server := net.Pipe()
		began := time.Now()
		c := &lastWords{Conn: &deaf{client}, until: began.Add(lastWordsTime / 2), ended: make(chan struct{})}
		for range 2 { // nobody reads
			if _, err := c.Write([]byte("x")); err == nil || time.Since(began) != lastWordsTime/2 {
				t.Errorf("%v after %v", err, time.Since(began))
			}
		}
		_, _ = c.Close(), server.Close()
	})
}
