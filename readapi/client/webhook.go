package client

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"hash"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	// tolerance is how far a message's time may be from now. It stops somebody who recorded a
	// message from sending it again later.
	tolerance = 300 * time.Second
	// maxMessage bounds a message, in bytes. Messages carry only ids.
	maxMessage = 1 << 20
	// mostSeen is how many handled events a receiver remembers.
	mostSeen = 100_000
)

// Errors of Verify.
var (
	ErrNoSignature  = errors.New("the message has no signature header that can be read")
	ErrBadSignature = errors.New("no signature of the message matches its body and a secret")
	ErrTimestamp    = errors.New("the time of the message is more than 5 minutes from now")
)

// DefaultBrand is the word in the names of headers, if the service has no other.
const DefaultBrand Brand = "SERVICE"

// Brand is the word with which the names of a service's headers begin, such as SERVICE in
// SERVICE-Signature.
type Brand string

// Verify checks that a message comes from the service, with the headers of DefaultBrand.
func Verify(header http.Header, body []byte, secrets []string, now time.Time) error {
	return DefaultBrand.Verify(header, body, secrets, now)
}

// Verify checks that a message comes from the service: one of its signatures is made with one of
// the secrets, and its time is within 5 minutes of now. body is the raw body, before any parsing.
// It takes SERVICE-Signature and the headers of Standard Webhooks; either is enough. While you
// rotate a secret, give the new one and the old one.
//
// No signature covers the headers, so do not rely on SERVICE-Log-Position for more than order.
func (b Brand) Verify(header http.Header, body []byte, secrets []string, now time.Time) error {
	err := verifyOwn(header.Get(string(b)+"-Signature"), body, secrets, now)
	if err != nil && header.Get("Webhook-Signature") != "" {
		return verifyStandard(header, body, secrets, now)
	}
	return err
}

// verifyOwn checks a header t=<seconds>,v1=<hex>,v1=<hex>.
func verifyOwn(header string, body []byte, secrets []string, now time.Time) error {
	var stamp string
	var signatures [][]byte
	for part := range strings.SplitSeq(header, ",") {
		switch name, value, _ := strings.Cut(strings.TrimSpace(part), "="); name {
		case "t":
			stamp = value
		case "v1":
			if signature, err := hex.DecodeString(value); err == nil {
				signatures = append(signatures, signature)
			}
		}
	}
	return verify(stamp, stamp+".", body, signatures, secrets, func(secret string) []byte { return []byte(secret) }, now)
}

// verifyStandard checks the headers of Standard Webhooks (standardwebhooks.com).
func verifyStandard(header http.Header, body []byte, secrets []string, now time.Time) error {
	stamp := header.Get("Webhook-Timestamp")
	var signatures [][]byte
	for text := range strings.FieldsSeq(header.Get("Webhook-Signature")) {
		version, value, _ := strings.Cut(text, ",")
		if signature, err := base64.StdEncoding.DecodeString(value); err == nil && version == "v1" {
			signatures = append(signatures, signature)
		}
	}
	return verify(stamp, header.Get("Webhook-Id")+"."+stamp+".", body, signatures, secrets, func(secret string) []byte {
		key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
		if err != nil {
			return nil
		}
		return key
	}, now)
}

// verify compares in constant time, and every signature with every secret. keyOf may return nil
// for a secret that cannot be a key.
func verify(stamp, prefix string, body []byte, signatures [][]byte, secrets []string, keyOf func(secret string) []byte, now time.Time) error {
	seconds, err := strconv.ParseInt(stamp, 10, 64)
	if err != nil || len(signatures) == 0 {
		return ErrNoSignature
	}
	matches := false
	for _, secret := range secrets {
		key := keyOf(secret)
		if len(key) == 0 {
			continue // anybody can sign with an empty key
		}
		want := sum(hmac.New(sha256.New, key), prefix, body)
		for _, signature := range signatures {
			matches = hmac.Equal(signature, want) || matches
		}
	}
	if !matches {
		return ErrBadSignature
	}
	if now.Sub(time.Unix(seconds, 0)).Abs() > tolerance {
		return ErrTimestamp
	}
	return nil
}

func sum(h hash.Hash, prefix string, body []byte) []byte {
	_, _ = io.WriteString(h, prefix) // a hash never fails
	_, _ = h.Write(body)
	return h.Sum(nil)
}

// Delivery is a message that a webhook sent.
type Delivery struct {
	Event Event

	// ID is the same on every attempt to deliver the event to this webhook.
	ID string

	// Position is where the event stands in the workspace's log; zero if the message does not say.
	// Messages arrive in any order. To put them in order, keep the highest position that you have
	// handled for each object, and pass over a message with a lower one. To read the state that
	// includes this event, use Client.AtLeast: any server then waits until it has it.
	Position int64
}

// WebhookConfig configures a receiver of webhooks.
type WebhookConfig struct {
	// Secrets are the signing secrets: one, or several while you rotate or for several webhooks.
	Secrets []string

	// Handle is called once for each event. The service waits 10 seconds for the answer, so put
	// the event into a queue or a table if handling it takes longer. After an error the service
	// sends the message again later. An event can come twice if your program restarts between: to
	// handle it exactly once, keep its id in your database, in the transaction that handles it.
	Handle func(ctx context.Context, d *Delivery) error

	Brand  Brand            // empty: DefaultBrand
	Logger *slog.Logger     // hears of messages that were refused or failed; nil: nobody does
	Now    func() time.Time // for tests; nil: time.Now
}

// NewWebhook makes a receiver, for an address that you give to the service. It answers 204 when an
// event is handled or was handled before, 400 if Verify refuses the message, 500 if Handle fails,
// and 503 if another attempt for the same event is being handled. The last 100,000 events are
// remembered.
func NewWebhook(cfg WebhookConfig) (http.Handler, error) {
	if len(cfg.Secrets) == 0 || cfg.Handle == nil {
		return nil, errors.New("a receiver of webhooks needs Secrets and Handle")
	}
	if cfg.Brand == "" {
		cfg.Brand = DefaultBrand
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	return &webhook{cfg: cfg, events: map[string]bool{}}, nil
}

type webhook struct {
	cfg WebhookConfig

	mu     sync.Mutex
	events map[string]bool // by id: true when handled, false while it is being handled
	order  []string        // of handled ids, as a ring
	next   int
}

func (h *webhook) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		http.Error(w, "want POST", http.StatusMethodNotAllowed)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxMessage))
	if err == nil {
		err = h.cfg.Brand.Verify(r.Header, body, h.cfg.Secrets, h.cfg.Now())
	}
	d := &Delivery{ID: r.Header.Get(string(h.cfg.Brand) + "-Delivery-Id")}
	if err == nil {
		err = json.Unmarshal(body, &d.Event)
	}
	if err != nil {
		h.cfg.Logger.WarnContext(r.Context(), "a webhook's message was refused", "error", err)
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	d.Position, _ = strconv.ParseInt(r.Header.Get(string(h.cfg.Brand)+"-Log-Position"), 10, 64) // zero if it is missing
	fresh, handled := h.begin(d.Event.ID)
	switch {
	case handled:
	case !fresh:
		http.Error(w, "another attempt for this event is being handled", http.StatusServiceUnavailable)
		return
	default:
		if err := h.handle(r.Context(), d); err != nil {
			h.cfg.Logger.ErrorContext(r.Context(), "a webhook's message could not be handled", "event", d.Event.ID, "error", err)
			http.Error(w, "the event could not be handled", http.StatusInternalServerError)
			return
		}
	}
	w.WriteHeader(http.StatusNoContent)
}

// handle calls the caller's function, which may panic.
func (h *webhook) handle(ctx context.Context, d *Delivery) error {
	done := false
	defer func() { h.end(d.Event.ID, done) }()
	err := h.cfg.Handle(ctx, d)
	done = err == nil
	return err
}

// begin says whether an event is new, so that it is now being handled, or was handled before.
func (h *webhook) begin(id string) (fresh, handled bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	handled, known := h.events[id]
	if !known {
		h.events[id] = false
	}
	return !known, handled
}

// end remembers an event that was handled and forgets one that was not.
func (h *webhook) end(id string, handled bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !handled {
		delete(h.events, id)
		return
	}
	h.events[id] = true
	if len(h.order) < mostSeen {
		h.order = append(h.order, id)
		return
	}
	delete(h.events, h.order[h.next])
	h.order[h.next] = id
	h.next = (h.next + 1) % mostSeen
}
