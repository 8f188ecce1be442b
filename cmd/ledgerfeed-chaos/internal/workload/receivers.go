//go:build linux

package workload

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hmac"
	crand "crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed-chaos/internal/check"
	"github.com/ledgerfeed/ledgerfeed/internal/badnetwork"
)

// Mood is how a receiver treats messages.
type Mood string

// The moods. All but Well are hostile.
const (
	Well     Mood = "well"
	Errors   Mood = "errors"   // answers 500
	Hangs    Mood = "hangs"    // never answers
	Drips    Mood = "drips"    // answers a byte a second
	Aborts   Mood = "aborts"   // takes the message and resets the connection
	Floods   Mood = "floods"   // answers without an end
	Redirect Mood = "redirect" // answers 302 to an address inside
	Bomb     Mood = "bomb"     // answers with what claims to be gzip
)

// HostileMoods are all but Well.
func HostileMoods() []Mood { return []Mood{Errors, Hangs, Drips, Aborts, Floods, Redirect, Bomb} }

// Receivers are the webhook receivers of all workspaces: one HTTPS server behind a
// proxy.
type Receivers struct {
	Link *badnetwork.Proxy

	server      *http.Server
	listener    net.Listener
	certificate string // file

	mu    sync.Mutex
	boxes map[string]*receiver // by workspace
}

type receiver struct {
	inbox  *check.Inbox
	secret string
	mood   Mood
}

func newReceivers(ctx context.Context, file string) (*Receivers, error) {
	certificate, err := selfSigned()
	if err != nil {
		return nil, err
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate.Certificate[0]})
	if err := os.WriteFile(file, text, 0o600); err != nil {
		return nil, err
	}
	r := &Receivers{certificate: file, boxes: map[string]*receiver{}}
	if r.listener, err = new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0"); err != nil {
		return nil, fmt.Errorf("cannot listen for webhooks: %w", err)
	}
	if r.Link, err = badnetwork.Listen(ctx, r.listener.Addr().String()); err != nil {
		return nil, err
	}
	r.server = &http.Server{
		Handler: http.HandlerFunc(r.take), ReadHeaderTimeout: 10 * time.Second,
		TLSConfig: &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{certificate}},
		ErrorLog:  slog.NewLogLogger(slog.DiscardHandler, slog.LevelInfo),
	}
	return r, nil
}

// selfSigned makes a certificate for this machine.
func selfSigned() (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), crand.Reader)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("cannot make a key for the receivers: %w", err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(30 * 24 * time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(crand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("cannot make a certificate for the receivers: %w", err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, nil
}

func (r *Receivers) settings() []string {
	return []string{"LEDGERFEED_WEBHOOK_ALLOW=127.0.0.0/8", "LEDGERFEED_WEBHOOK_CA_FILE=" + r.certificate}
}

func (r *Receivers) address(workspace string) string {
	return "https://" + r.Link.Address() + "/" + workspace
}

func (r *Receivers) add(workspace, webhookID, secret string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	inbox := check.NewInbox(workspace)
	inbox.WebhookID = webhookID
	r.boxes[workspace] = &receiver{inbox: inbox, secret: secret, mood: Well}
}

// Inboxes are what the receivers got.
func (r *Receivers) Inboxes() (list []*check.Inbox) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, b := range r.boxes {
		list = append(list, b.inbox)
	}
	return list
}

// Inbox of a workspace's receiver.
func (r *Receivers) Inbox(workspace string) *check.Inbox {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.boxes[workspace].inbox
}

// WebhookID of a workspace's receiver.
func (r *Receivers) WebhookID(workspace string) string { return r.Inbox(workspace).WebhookID }

// SetMood changes how a workspace's receiver treats messages.
func (r *Receivers) SetMood(workspace string, mood Mood) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.boxes[workspace].mood = mood
}

func (r *Receivers) run(ctx context.Context) {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = r.server.ServeTLS(r.listener, "", "")
	}()
	<-ctx.Done()
	_ = r.server.Close()
	<-ended
	_ = r.Link.Close()
}

// take is the handler.
func (r *Receivers) take(w http.ResponseWriter, q *http.Request) {
	r.mu.Lock()
	b := r.boxes[strings.TrimPrefix(q.URL.Path, "/")]
	var mood Mood
	if b != nil {
		mood = b.mood
	}
	r.mu.Unlock()
	if b == nil {
		http.NotFound(w, q)
		return
	}
	body, err := io.ReadAll(io.LimitReader(q.Body, 1<<20))
	if err != nil {
		return
	}
	position, _ := strconv.ParseInt(q.Header.Get("Service-Log-Position"), 10, 64) // 0 is nobody's
	m := check.Message{
		Position: position,
		EventID:  q.Header.Get("Service-Event-Id"), Body: string(body), At: time.Now(),
		Signed: signed(q.Header.Get("Service-Signature"), body, b.secret), Accepted: mood == Well,
	}
	b.inbox.Take(m)
	answer(w, q, mood)
}

func answer(w http.ResponseWriter, q *http.Request, mood Mood) {
	switch mood {
	case Well:
		w.WriteHeader(http.StatusOK)
	case Errors:
		http.Error(w, "the receiver is not well", http.StatusInternalServerError)
	case Redirect:
		http.Redirect(w, q, "http://127.0.0.1:5432/", http.StatusFound)
	case Hangs:
		<-q.Context().Done()
	case Aborts:
		panic(http.ErrAbortHandler)
	case Bomb:
		w.Header().Set("Content-Encoding", "gzip")
		w.WriteHeader(http.StatusBadGateway)
		_, _ = w.Write([]byte(strings.Repeat("\x1f\x8b\x08\x00", 1<<10)))
	case Floods, Drips:
		w.WriteHeader(http.StatusInternalServerError)
		piece := strings.Repeat("x", 1<<16)
		every := time.NewTicker(10 * time.Millisecond)
		if mood == Drips {
			piece = "x"
			every.Reset(time.Second)
		}
		defer every.Stop()
		for {
			select {
			case <-q.Context().Done():
				return
			case <-every.C:
				if _, err := io.WriteString(w, piece); err != nil {
					return
				}
				if f, ok := w.(http.Flusher); ok {
					f.Flush()
				}
			}
		}
	}
}

// signed checks a signature from the text of docs/contract/service.md, "Signature",
// alone.
func signed(header string, body []byte, secret string) bool {
	var stamp string
	var signatures []string
	for _, part := range strings.Split(header, ",") {
		switch name, value, _ := strings.Cut(part, "="); name {
		case "t":
			stamp = value
		case "v1":
			signatures = append(signatures, value)
		}
	}
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(stamp + "."))
	mac.Write(body)
	want := hex.EncodeToString(mac.Sum(nil))
	for _, s := range signatures {
		if hmac.Equal([]byte(s), []byte(want)) {
			return true
		}
	}
	return false
}
