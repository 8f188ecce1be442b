package delivery

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"time"
)

const (
	maxAnswer  = 64 << 10 // of the body are read
	keptAnswer = 1 << 10  // of it are kept
	maxHeaders = 16 << 10

	// maxDials is how many connections an attempt may make. The transport
	// repeats a request that a receiver cannot have seen, on a new connection,
	// at once and without end, as long as every one is met with a GOAWAY.
	maxDials = 3

	// idleConns keeps connections to receivers open between messages, process
	// wide and for one receiver's host.
	idleConns        = 2048
	idleConnsPerHost = 512
	idleConnTime     = 60 * time.Second
)

// SenderConfig of a Sender.
type SenderConfig struct {
	Settings Settings
	Clock    func() time.Time // required

	// Resolver looks names up; nil: the system's, without cgo.
	Resolver *net.Resolver
}

// Sender makes attempts. One dialer serves every path; it asks guard about
// each address after the name is resolved. It is safe for concurrent use.
type Sender struct {
	settings  Settings
	clock     func() time.Time
	dialer    *dialer
	transport *http.Transport
	headers   headerNames
}

type headerNames struct{ signature, eventID, deliveryID, agent string }

// NewSender makes a Sender. The error is about the settings or the CA file.
func NewSender(cfg SenderConfig) (*Sender, error) {
	if cfg.Clock == nil {
		return nil, errors.New("delivery: SenderConfig needs a Clock")
	}
	settings, err := cfg.Settings.withDefaults()
	if err != nil {
		return nil, err
	}
	roots, err := authorities(settings.CAFile)
	if err != nil {
		return nil, err
	}
	if cfg.Resolver == nil {
		cfg.Resolver = &net.Resolver{PreferGo: true}
	}
	d := &dialer{
		timeout: settings.Timeout,
		tcp:     &net.Dialer{Control: newGuard(settings.Allow).control, Resolver: cfg.Resolver, KeepAlive: 30 * time.Second},
		tls: &tls.Config{
			MinVersion:         tls.VersionTLS12,
			RootCAs:            roots,
			NextProtos:         []string{"h2", "http/1.1"},
			ClientSessionCache: tls.NewLRUClientSessionCache(idleConns),
		},
	}
	return &Sender{
		settings: settings,
		clock:    cfg.Clock,
		dialer:   d,
		headers: headerNames{
			signature:  settings.Brand.SignatureHeader(),
			eventID:    settings.Brand.EventIDHeader(),
			deliveryID: settings.Brand.DeliveryIDHeader(),
			agent:      settings.Brand.UserAgent(),
		},
		transport: &http.Transport{
			Proxy:                  nil, // of the environment: ignored (docs/contract/decisions.md, "Webhooks")
			DialContext:            d.refuse,
			DialTLSContext:         d.dial,
			ForceAttemptHTTP2:      true,
			DisableCompression:     true,
			MaxIdleConns:           idleConns,
			MaxIdleConnsPerHost:    idleConnsPerHost,
			IdleConnTimeout:        idleConnTime,
			MaxResponseHeaderBytes: maxHeaders,
			HTTP2: &http.HTTP2Config{
				MaxReceiveBufferPerConnection: 128 << 10, // an endless body fills no more
				MaxReceiveBufferPerStream:     64 << 10,
				SendPingTimeout:               15 * time.Second,
				PingTimeout:                   5 * time.Second,
			},
		},
	}, nil
}

// Close ends the idle connections.
func (s *Sender) Close() { s.transport.CloseIdleConnections() }

func authorities(file string) (*x509.CertPool, error) {
	if file == "" {
		return nil, nil //nolint:nilnil // nil is the system's pool to crypto/tls
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		return nil, fmt.Errorf("read the system's certificate authorities: %w", err)
	}
	pem, err := os.ReadFile(file) //nolint:gosec // the operator's own setting
	if err != nil {
		return nil, fmt.Errorf("LEDGERFEED_WEBHOOK_CA_FILE: %w", err)
	}
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("LEDGERFEED_WEBHOOK_CA_FILE: %s holds no certificate in PEM form", file)
	}
	return pool, nil
}

// Message is what is sent to one webhook.
type Message struct {
	URL        *url.URL
	WebhookID  string
	EventID    string
	Body       []byte   // the event's public form, byte for byte
	Secrets    []string // one, or two while a rotation overlaps
	DeliveryID string
}

// Attempt is what came of sending a message once.
type Attempt struct {
	At       time.Time     // its start
	Duration time.Duration // until the answer was read, or given up on
	Status   int           // the HTTP status; 0: no answer
	Outcome  Outcome
	Error    string // in words; empty: success
	Answer   string // the first KiB of the answer's body, as text

	// Handshake tells that a new connection was made for it, as far as TLS.
	Handshake bool
}

// Success tells whether the receiver took the message.
func (a *Attempt) Success() bool { return a.Outcome == OutcomeSuccess }

// Ended is when the attempt was over.
func (a *Attempt) Ended() time.Time { return a.At.Add(a.Duration) }

// startedKey carries an attempt's start into the dialer, which must not take
// longer than the attempt although the transport detaches it.
type startedKey struct{}

// Send makes one attempt.
func (s *Sender) Send(ctx context.Context, m *Message) Attempt {
	a := Attempt{At: s.clock().UTC().Truncate(time.Millisecond)}
	began := time.Now()
	progress := &started{at: began}
	progress.reached.Store(int32(stageAnswer)) // unless a connection has to be made
	ctx, cancel := context.WithDeadline(ctx, began.Add(s.settings.Timeout))
	defer cancel()
	ctx = context.WithValue(ctx, startedKey{}, progress)
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: progress.connected})
	resp, err := s.transport.RoundTrip(s.request(ctx, m, a.At))
	if err != nil {
		a.Outcome, a.Error = explain(err, stage(progress.reached.Load()), s.settings.Timeout)
	} else {
		a.Status = resp.StatusCode
		a.Outcome, a.Error = explainStatus(resp.StatusCode)
		if resp.StatusCode != http.StatusSwitchingProtocols { // whose body is a connection without a deadline
			a.Answer = readAnswer(resp.Body)
		}
		cancel() // before Close, which must not wait for more of it
		_ = resp.Body.Close()
	}
	a.Duration, a.Handshake = time.Since(began), progress.handshake.Load()
	return a
}

// started is an attempt's beginning, and how far it has come.
type started struct {
	at      time.Time
	reached atomic.Int32
	has     atomic.Bool // it has a connection, maybe one that another attempt made
	dials   atomic.Int32

	handshake atomic.Bool // one was begun
}

func (s *started) connected(httptrace.GotConnInfo) {
	s.has.Store(true)
	s.reached.Store(int32(stageAnswer))
}

func (s *Sender) request(ctx context.Context, m *Message, at time.Time) *http.Request {
	// Names with the brand keep their case, which Header.Set would change.
	// The empty Idempotency-Key is not sent. It lets the transport repeat a
	// request whose kept-open connection turned out to be closed: a message may
	// arrive twice, but must not wait a minute because of that race.
	header := http.Header{
		"Content-Type":       {"application/json"},
		"User-Agent":         {s.headers.agent},
		"Idempotency-Key":    {},
		s.headers.signature:  {Sign(at, m.Body, m.Secrets...)},
		s.headers.eventID:    {m.EventID},
		s.headers.deliveryID: {m.DeliveryID},
	}
	body := m.Body
	r := &http.Request{
		Method: http.MethodPost, URL: m.URL, Host: m.URL.Host, Header: header,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		ContentLength: int64(len(body)),
		Body:          io.NopCloser(bytes.NewReader(body)),
		GetBody:       func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil },
	}
	return r.WithContext(ctx)
}

// readAnswer reads what there is, up to the limit or the deadline, so that the
// connection can be used again, and keeps the beginning.
func readAnswer(body io.Reader) string {
	var kept bytes.Buffer
	limited := io.LimitReader(body, maxAnswer+1)
	_, err := io.CopyN(&kept, limited, keptAnswer)
	if err == nil {
		_, _ = io.Copy(io.Discard, limited) // what is missing of an answer does not matter
	}
	text := strings.ToValidUTF8(kept.String(), "?")
	return strings.ReplaceAll(text, "\x00", "?") // which the database's JSON cannot hold
}

// dialer makes every connection.
type dialer struct {
	timeout time.Duration
	tcp     *net.Dialer
	tls     *tls.Config
}

// errTurnedAway means that a receiver takes connections and closes them again.
var errTurnedAway = errors.New("every connection was closed")

// refuse is what a connection without TLS gets; addresses are https only.
func (d *dialer) refuse(context.Context, string, string) (net.Conn, error) {
	return nil, errors.New("only https is spoken")
}

func (d *dialer) dial(ctx context.Context, network, address string) (net.Conn, error) {
	if s, ok := ctx.Value(startedKey{}).(*started); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, s.at.Add(d.timeout))
		defer cancel()
		if s.dials.Add(1) > maxDials {
			return nil, errTurnedAway
		}
	}
	reach(ctx, stageConnect)
	raw, err := d.tcp.DialContext(ctx, network, address)
	if err != nil {
		return nil, &stageError{stageConnect, err}
	}
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		_ = raw.Close()
		return nil, &stageError{stageConnect, err}
	}
	cfg := d.tls.Clone()
	cfg.ServerName = strings.TrimSuffix(host, ".")
	cfg.ClientSessionCache = sessionsOf{d.tls.ClientSessionCache, address}
	conn := tls.Client(raw, cfg)
	reach(ctx, stageTLS)
	if err := conn.HandshakeContext(ctx); err != nil {
		_ = raw.Close()
		return nil, &stageError{stageTLS, err}
	}
	reach(ctx, stageAnswer)
	return conn, nil
}

// sessionsOf keeps the TLS sessions of one address. By itself crypto/tls goes by
// the name alone, and receivers on two ports of a host would take turns in
// offering each other's, each a full handshake.
type sessionsOf struct {
	all     tls.ClientSessionCache
	address string
}

// Get is crypto/tls's.
func (s sessionsOf) Get(string) (*tls.ClientSessionState, bool) { return s.all.Get(s.address) }

// Put is crypto/tls's.
func (s sessionsOf) Put(_ string, state *tls.ClientSessionState) { s.all.Put(s.address, state) }

// reach tells the attempt how far it has come.
func reach(ctx context.Context, at stage) {
	s, ok := ctx.Value(startedKey{}).(*started)
	if !ok {
		return
	}
	if at == stageTLS {
		s.handshake.Store(true)
	}
	if !s.has.Load() {
		s.reached.Store(int32(at))
	}
}
