// Package receiver is a webhook receiver for a developer's machine: it checks
// signatures and prints what arrives (ledgerfeed webhook listen).
package receiver

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	"github.com/ledgerfeed/ledgerfeed/delivery"
	"github.com/ledgerfeed/ledgerfeed/delivery/attempt"
	"github.com/ledgerfeed/ledgerfeed/internal/brand"
)

// Config configures a Server.
type Config struct {
	// Addr is host:port to listen on, such as 127.0.0.1:4443; port 0 takes a
	// free one.
	Addr string

	// Secrets returns the signing secrets whose messages are accepted; a message
	// that none of them signed is answered 400. Nil: signatures are not checked.
	Secrets func() []string

	// Certificate is the server's certificate with its key, such as NewCertificate makes.
	Certificate *tls.Certificate

	// Forward is where each accepted message is forwarded, unchanged. The answer from there becomes
	// the answer. Nil: nowhere.
	Forward *url.URL

	// Out receives one line for each message: text, or a JSON object if JSON is set.
	Out  io.Writer
	JSON bool

	Brand brand.Brand
	Clock func() time.Time
}

// Server checks signatures, prints what arrives and forwards it. It speaks HTTPS. Deliveries reach
// it when LEDGERFEED_WEBHOOK_CA_FILE holds its Certificate and LEDGERFEED_WEBHOOK_ALLOW its
// address.
type Server struct {
	cfg      Config
	listener net.Listener
	server   *http.Server
	forward  *http.Client

	mu   sync.Mutex // guards seen and keeps lines apart
	seen map[string]struct{}
}

// Arrival is one message as it is printed with JSON.
type Arrival struct {
	At         delivery.Time   `json:"at"`
	EventID    string          `json:"event_id"`
	DeliveryID string          `json:"delivery_id"`
	Position   *int64          `json:"log_position"` // of the event's entry; null: the message does not say
	Signature  string          `json:"signature"`    // right, wrong or unchecked
	Problem    *string         `json:"problem"`
	Repeat     bool            `json:"repeat"`    // the event arrived before
	Forwarded  *int            `json:"forwarded"` // status of the answer to the forwarded message; null: not forwarded, or no answer
	Body       json.RawMessage `json:"body"`

	unanswered bool // the Problem is that it could not be forwarded
}

// maxMessage is the largest message that is read, in bytes.
const maxMessage = 1 << 20

// New opens the listener. Serve answers requests.
func New(ctx context.Context, cfg Config) (*Server, error) {
	if cfg.Out == nil || cfg.Certificate == nil || cfg.Clock == nil {
		return nil, errors.New("receiver: Config needs an Out, a Certificate and a Clock")
	}
	s := &Server{cfg: cfg, seen: map[string]struct{}{}, forward: newForwarder()}
	var err error
	if s.listener, err = new(net.ListenConfig).Listen(ctx, "tcp", cfg.Addr); err != nil {
		return nil, fmt.Errorf("listen for webhooks: %w", err)
	}
	s.server = &http.Server{
		Handler: http.HandlerFunc(s.take), ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 30 * time.Second,
		TLSConfig: &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{*cfg.Certificate}},
		ErrorLog:  slog.NewLogLogger(slog.DiscardHandler, slog.LevelInfo), // drops errors such as browsers that reject the certificate
	}
	return s, nil
}

// URL returns the receiver's address, for use as a webhook's address.
func (s *Server) URL() string {
	host, port, err := net.SplitHostPort(s.listener.Addr().String())
	if ip := net.ParseIP(host); err != nil || ip == nil || ip.IsUnspecified() {
		host = "localhost"
	}
	return "https://" + net.JoinHostPort(host, port) + "/"
}

// Serve answers requests until ctx ends.
func (s *Server) Serve(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		if s.server.Shutdown(closing) != nil {
			_ = s.server.Close()
		}
	})
	defer stop()
	if err := s.server.ServeTLS(s.listener, "", ""); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("listen for webhooks: %w", err)
	}
	return nil
}

// take is the handler. It checks a message as a receiver should, and prints it.
func (s *Server) take(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		http.Error(w, "this is a receiver of webhooks; it takes POST", http.StatusMethodNotAllowed)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxMessage))
	if err != nil {
		http.Error(w, "the message could not be read", http.StatusBadRequest)
		return
	}
	a := Arrival{
		At: delivery.Time{Time: s.cfg.Clock()}, Body: body, Signature: "unchecked",
		EventID: r.Header.Get(s.cfg.Brand.EventIDHeader()), DeliveryID: r.Header.Get(s.cfg.Brand.DeliveryIDHeader()),
	}
	if n, err := strconv.ParseInt(r.Header.Get(s.cfg.Brand.LogPositionHeader()), 10, 64); err == nil {
		a.Position = &n
	}
	status := http.StatusOK
	if s.cfg.Secrets != nil {
		a.Signature = "right"
		if err := attempt.Verify(a.At.Time, r.Header.Get(s.cfg.Brand.SignatureHeader()), body, s.cfg.Secrets()...); err != nil {
			problem := err.Error()
			a.Signature, a.Problem, status = "wrong", &problem, http.StatusBadRequest
		}
	}
	if !json.Valid(body) {
		problem := "the body is not JSON"
		a.Problem, a.Body, status = &problem, nil, http.StatusBadRequest
	}
	taken := status == http.StatusOK
	if taken && s.cfg.Forward != nil {
		status = s.sendOn(r, &a, w.Header())
	}
	s.print(&a, taken)
	w.WriteHeader(status)
}

// maxSeen bounds the event ids that are kept to recognize repeats.
const maxSeen = 100_000

func (s *Server) print(a *Arrival, taken bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if taken {
		_, a.Repeat = s.seen[a.EventID]
		if len(s.seen) >= maxSeen {
			clear(s.seen)
		}
		s.seen[a.EventID] = struct{}{}
	}
	if s.cfg.JSON {
		line, err := json.Marshal(a)
		if err == nil {
			_, _ = s.cfg.Out.Write(append(line, '\n')) // messages are accepted even when the output is closed
		}
		return
	}
	_, _ = io.WriteString(s.cfg.Out, a.line())
}

// line returns the text form of an arrival.
func (a *Arrival) line() string {
	var e struct {
		Type string            `json:"type"`
		Data map[string]string `json:"data"`
	}
	_ = json.Unmarshal(a.Body, &e) // a body that is not an event is shown without a type
	s := a.At.Local().Format("15:04:05.000") + "  "
	refused := a.Problem != nil && !a.unanswered
	switch {
	case refused:
		s += "REFUSED  " + *a.Problem
	case a.Signature == "right":
		s += "signed   " + e.Type
	default:
		s += "unsigned " + e.Type
	}
	if !refused {
		s += fmt.Sprintf("  %s %q  %s", e.Data["object_type"], e.Data["object_id"], a.EventID)
	}
	if a.Position != nil && !refused {
		s += fmt.Sprintf("  at %d", *a.Position)
	}
	if a.Repeat {
		s += "  (again)"
	}
	if a.unanswered {
		s += "  → " + *a.Problem + ": answered 502, so that it is sent again"
	}
	if a.Forwarded != nil {
		s += fmt.Sprintf("  → %d", *a.Forwarded)
	}
	return s + "\n"
}

// NewCertificate makes a certificate for this machine's names and addresses,
// valid for a month.
func NewCertificate(now time.Time) (*tls.Certificate, error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make a certificate: %w", err)
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, fmt.Errorf("make a certificate: %w", err)
	}
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: "ledgerfeed webhook listen"},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(30 * 24 * time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true, DNSNames: []string{"localhost"},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
	}
	if addresses, err := net.InterfaceAddrs(); err == nil {
		for _, a := range addresses {
			if n, ok := a.(*net.IPNet); ok {
				template.IPAddresses = append(template.IPAddresses, n.IP)
			}
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		return nil, fmt.Errorf("make a certificate: %w", err)
	}
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: private}, nil
}

// forwardTimeout is the timeout of an attempt: a later answer counts as none.
const forwardTimeout = 10 * time.Second

// newForwarder returns the client that forwards messages. Like the service, it follows no
// redirects.
func newForwarder() *http.Client {
	return &http.Client{
		Timeout:       forwardTimeout,
		Transport:     &http.Transport{DisableKeepAlives: true}, // a program that is being developed is restarted often
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

var errNoAnswer = errors.New("nobody answered")

// sendOn forwards a message unchanged, and records and returns the status of the answer and, in
// header, its Retry-After. Without an answer it returns 502, so that the service tries again.
func (s *Server) sendOn(r *http.Request, a *Arrival, header http.Header) int {
	status, after, err := s.forwardTo(r.Context(), r.Header, a.Body)
	if err != nil {
		problem := "not sent on to " + s.cfg.Forward.Host + ": " + err.Error()
		a.Problem, a.unanswered = &problem, true
		return http.StatusBadGateway
	}
	a.Forwarded = &status
	if after != nil {
		header["Retry-After"] = after
	}
	return status
}

func (s *Server) forwardTo(ctx context.Context, header http.Header, body []byte) (status int, retryAfter []string, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.cfg.Forward.String(), bytes.NewReader(body))
	if err != nil {
		return 0, nil, fmt.Errorf("write the request: %w", err)
	}
	for name, values := range header {
		switch name {
		case "Connection", "Content-Length", "Accept-Encoding": // they belong to the incoming connection
		default:
			req.Header[name] = values
		}
	}
	resp, err := s.forward.Do(req)
	if err != nil {
		return 0, nil, errNoAnswer
	}
	_ = resp.Body.Close()
	return resp.StatusCode, resp.Header["Retry-After"], nil
}
