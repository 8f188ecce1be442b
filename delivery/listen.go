package delivery

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/ledgerfeed/ledgerfeed/internal/brand"
)

// ListenConfig of a Listener.
type ListenConfig struct {
	// Addr is host:port to listen on, such as 127.0.0.1:4443; port 0 takes a
	// free one.
	Addr string

	// Secrets returns the signing secrets whose messages are taken; a message
	// that none of them signed is answered 400. Nil: nothing is checked.
	Secrets func() []string

	// Out gets what arrives: a line for people, or with JSON an object a line.
	Out  io.Writer
	JSON bool

	Brand brand.Brand
	Clock func() time.Time // nil: time.Now
}

// Listener is a local receiver that checks signatures and prints what arrives.
// It speaks HTTPS with a certificate of its own, made when it starts, for
// localhost and the addresses of this machine; deliveries reach it when
// LEDGERFEED_WEBHOOK_CA_FILE holds Certificate and LEDGERFEED_WEBHOOK_ALLOW its
// address.
type Listener struct {
	cfg         ListenConfig
	listener    net.Listener
	server      *http.Server
	certificate []byte

	mu   sync.Mutex // one line at a time
	seen map[string]struct{}
}

// Arrival is one message as the Listener prints it with JSON.
type Arrival struct {
	At         Time            `json:"at"`
	EventID    string          `json:"event_id"`
	DeliveryID string          `json:"delivery_id"`
	Signature  string          `json:"signature"` // right, wrong or unchecked
	Problem    *string         `json:"problem"`
	Repeat     bool            `json:"repeat"` // the event arrived before
	Body       json.RawMessage `json:"body"`
}

// maxMessage is the most bytes of a message that are read.
const maxMessage = 1 << 20

// NewListener listens, and answers once Serve runs.
func NewListener(ctx context.Context, cfg ListenConfig) (*Listener, error) {
	if cfg.Out == nil {
		return nil, errors.New("delivery: ListenConfig needs an Out")
	}
	if cfg.Clock == nil {
		cfg.Clock = time.Now
	}
	cert, err := ownCertificate(cfg.Clock())
	if err != nil {
		return nil, err
	}
	l := &Listener{
		cfg: cfg, seen: map[string]struct{}{},
		certificate: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Certificate[0]}),
	}
	if l.listener, err = new(net.ListenConfig).Listen(ctx, "tcp", cfg.Addr); err != nil {
		return nil, fmt.Errorf("listen for webhooks: %w", err)
	}
	l.server = &http.Server{
		Handler: http.HandlerFunc(l.take), ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 30 * time.Second,
		TLSConfig: &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{cert}},
		ErrorLog:  slog.NewLogLogger(slog.DiscardHandler, slog.LevelInfo), // of curious browsers
	}
	return l, nil
}

// URL is the address for a webhook.
func (l *Listener) URL() string {
	host, port, err := net.SplitHostPort(l.listener.Addr().String())
	if ip := net.ParseIP(host); err != nil || ip == nil || ip.IsUnspecified() {
		host = "localhost"
	}
	return "https://" + net.JoinHostPort(host, port) + "/"
}

// Certificate is the Listener's certificate, in PEM.
func (l *Listener) Certificate() []byte { return l.certificate }

// Serve answers until ctx ends.
func (l *Listener) Serve(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		if l.server.Shutdown(closing) != nil {
			_ = l.server.Close()
		}
	})
	defer stop()
	if err := l.server.ServeTLS(l.listener, "", ""); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("listen for webhooks: %w", err)
	}
	return nil
}

// take is the handler: it does what a receiver should, except to work.
func (l *Listener) take(w http.ResponseWriter, r *http.Request) {
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
		At: Time{l.cfg.Clock()}, Body: body, Signature: "unchecked",
		EventID: r.Header.Get(l.cfg.Brand.EventIDHeader()), DeliveryID: r.Header.Get(l.cfg.Brand.DeliveryIDHeader()),
	}
	status := http.StatusOK
	if l.cfg.Secrets != nil {
		a.Signature = "right"
		if err := Verify(a.At.Time, r.Header.Get(l.cfg.Brand.SignatureHeader()), body, l.cfg.Secrets()...); err != nil {
			problem := err.Error()
			a.Signature, a.Problem, status = "wrong", &problem, http.StatusBadRequest
		}
	}
	if !json.Valid(body) {
		problem := "the body is not JSON"
		a.Problem, a.Body, status = &problem, nil, http.StatusBadRequest
	}
	l.print(&a, status == http.StatusOK)
	w.WriteHeader(status)
}

// remembered bounds the ids that a Listener knows repeats by.
const remembered = 100_000

func (l *Listener) print(a *Arrival, taken bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if taken {
		_, a.Repeat = l.seen[a.EventID]
		if len(l.seen) >= remembered {
			clear(l.seen)
		}
		l.seen[a.EventID] = struct{}{}
	}
	if l.cfg.JSON {
		line, err := json.Marshal(a)
		if err == nil {
			_, _ = l.cfg.Out.Write(append(line, '\n')) // a closed pipe is no reason to refuse messages
		}
		return
	}
	_, _ = io.WriteString(l.cfg.Out, a.line())
}

// line is an arrival for people.
func (a *Arrival) line() string {
	var e struct {
		Type string            `json:"type"`
		Data map[string]string `json:"data"`
	}
	_ = json.Unmarshal(a.Body, &e) // what is no event is shown without a type
	s := a.At.Local().Format("15:04:05.000") + "  "
	switch {
	case a.Problem != nil:
		s += "REFUSED  " + *a.Problem
	case a.Signature == "right":
		s += "signed   " + e.Type
	default:
		s += "unsigned " + e.Type
	}
	if a.Problem == nil {
		s += fmt.Sprintf("  %s %q  %s", e.Data["object_type"], e.Data["object_id"], a.EventID)
	}
	if a.Repeat {
		s += "  (again)"
	}
	return s + "\n"
}

// ownCertificate is good for a month, for this machine's names and addresses.
func ownCertificate(now time.Time) (tls.Certificate, error) {
	var none tls.Certificate
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return none, fmt.Errorf("make a certificate: %w", err)
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return none, fmt.Errorf("make a certificate: %w", err)
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
		return none, fmt.Errorf("make a certificate: %w", err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: private}, nil
}
