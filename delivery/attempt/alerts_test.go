package attempt

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ledgerfeed/ledgerfeed/delivery/policy"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

// senderTo makes a Sender that trusts a test server.
func senderTo(t *testing.T, s *httptest.Server) *Sender {
	t.Helper()
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, authoritiesOf(s), 0o600); err != nil {
		t.Fatal(err)
	}
	sender := testkit.Must(NewSender(SenderConfig{Settings: policy.Settings{Timeout: time.Minute, Allow: testkit.Loopback(), CAFile: ca}, Clock: time.Now}))(t)
	t.Cleanup(sender.Close)
	return sender
}

// TestAlertsHaveTheSameWords: a receiver that refuses the client, because it brings no certificate
// or a wrong one, is reported in the same words with TLS 1.2, where its alert comes in the
// handshake, and with TLS 1.3, where it comes after that, whichever version of HTTP is spoken and
// whether the request was written before it came.
func TestAlertsHaveTheSameWords(t *testing.T) {
	t.Parallel()
	const each = 20
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		for _, h2 := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, HTTP/2 %v", tls.VersionName(version), h2), func(t *testing.T) {
				t.Parallel()
				s := httptest.NewUnstartedServer(http.NotFoundHandler())
				s.EnableHTTP2 = h2
				s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelInfo)
				s.TLS = &tls.Config{MinVersion: version, MaxVersion: version, ClientAuth: tls.RequireAnyClientCert}
				s.StartTLS()
				t.Cleanup(s.Close)
				sender := senderTo(t, s)
				var group sync.WaitGroup
				for range each {
					group.Go(func() {
						if a := sender.to(t, s.URL); a.Outcome != OutcomeTLS || a.Error != "the receiver refused the encrypted connection" {
							t.Errorf("%s: %q", a.Outcome, a.Error)
						}
					})
				}
				group.Wait()
			})
		}
	}
}

// TestEveryAlertHasWords: whichever alert comes in place of an answer, it is one of TLS.
func TestEveryAlertHasWords(t *testing.T) {
	t.Parallel()
	for code := range 256 {
		alert := &net.OpError{Op: "remote error", Err: tls.AlertError(code)}
		for _, err := range []error{
			alert, fmt.Errorf("net/http: HTTP/1.x transport connection broken: %w", alert), fmt.Errorf("readLoopPeekFailLocked: %w", alert),
			errors.New("http2: client connection lost: " + alert.Error()),
		} {
			for _, reached := range []stage{stageTLS, stageAnswer} {
				want := "the receiver refused the encrypted connection"
				if code == 70 { // protocol_version
					want = "the receiver does not offer TLS 1.2 or newer"
				}
				if outcome, words := explain(err, reached, time.Second); outcome != OutcomeTLS || words != want {
					t.Errorf("%v: %s, %q", err, outcome, words)
				}
			}
		}
	}
}

// TestAWriteThatFailsWaitsForLastWords: the alert that a receiver sent before it closed is read,
// although writing the request has failed before.
func TestAWriteThatFailsWaitsForLastWords(t *testing.T) {
	t.Parallel()
	client, server := net.Pipe()
	c := &lastWords{Conn: &deaf{client}, until: time.Now().Add(time.Minute), ended: make(chan struct{})}
	written := make(chan error, 1)
	go func() { _, err := c.Write([]byte("x")); written <- err }()
	heard := make(chan string, 1)
	go func() {
		text, _ := io.ReadAll(c) // its end is an alert
		select {
		case err := <-written:
			heard <- fmt.Sprint("the write has ended before: ", err)
		default:
			heard <- string(text)
		}
		_ = c.Close()
	}()
	_, _ = io.WriteString(server, "alert")
	_ = server.Close()
	if text := <-heard; text != "alert" {
		t.Errorf("heard %q", text)
	}
}

// deaf is a connection that cannot be written to.
type deaf struct{ net.Conn }

func (*deaf) Write([]byte) (int, error) { return 0, errors.New("broken pipe") }

// TestHTTP11Required: a receiver that offers HTTP/2 and then wants HTTP/1.1 gets the message by it
// within the same attempt.
func TestHTTP11Required(t *testing.T) {
	t.Parallel()
	var byTwo, byOne atomic.Int32
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		byOne.Add(1)
		if body, err := io.ReadAll(r.Body); err != nil || string(body) != "{}" || r.ProtoMajor != 1 {
			t.Errorf("%s came with %q, %v", r.Proto, body, err)
		}
		w.WriteHeader(http.StatusAccepted)
	}))
	s.TLS = &tls.Config{NextProtos: []string{"h2", "http/1.1"}}
	s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelInfo)
	// A server of HTTP/2 that resets the first stream with HTTP_1_1_REQUIRED.
	s.Config.TLSNextProto = map[string]func(*http.Server, *tls.Conn, http.Handler){"h2": func(_ *http.Server, c *tls.Conn, _ http.Handler) {
		defer func() { _ = c.Close() }()
		byTwo.Add(1)
		const settings, reset = "\x00\x00\x00\x04\x00\x00\x00\x00\x00", "\x00\x00\x04\x03\x00\x00\x00\x00\x01\x00\x00\x00\x0d"
		write(c, settings)
		b := make([]byte, 4096)
		for seen := 0; seen < len("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")+100; { // the headers are there
			n, err := c.Read(b)
			if seen += n; err != nil {
				return
			}
		}
		write(c, reset)
		_, _ = io.Copy(io.Discard, c)
	}}
	s.StartTLS()
	t.Cleanup(s.Close)
	sender := senderTo(t, s)
	if a := sender.to(t, s.URL); a.Status != http.StatusAccepted || a.Outcome != OutcomeSuccess {
		t.Errorf("the attempt: %+v", a)
	}
	if byTwo.Load() != 1 || byOne.Load() != 1 {
		t.Errorf("%d requests by HTTP/2 and %d by HTTP/1.1, want one each", byTwo.Load(), byOne.Load())
	}
}

// TestWhatIsARedirect: only a status that names another address is called a redirect.
func TestWhatIsARedirect(t *testing.T) {
	t.Parallel()
	for status := 300; status < 400; status++ {
		want := fmt.Sprintf("answered %d", status)
		switch status {
		case 301, 302, 303, 307, 308:
			want += ", a redirect, which is not followed"
		default:
			if text := http.StatusText(status); text != "" {
				want += " (" + text + ")"
			}
		}
		if outcome, words := explainStatus(status); outcome != OutcomeAnswered || words != want {
			t.Errorf("%d: %s, %q, want %q", status, outcome, words, want)
		}
	}
	if _, words := explainStatus(http.StatusNotModified); strings.Contains(words, "redirect") {
		t.Error(words)
	}
}
