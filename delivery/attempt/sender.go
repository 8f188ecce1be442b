package attempt

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
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/ledgerfeed/ledgerfeed/delivery/policy"
	"github.com/ledgerfeed/ledgerfeed/internal/texts"
	"github.com/ledgerfeed/ledgerfeed/internal/tracing"
)

const (
	maxAnswer  = 64 << 10 // bytes of a response body that are read
	keptAnswer = 1 << 10  // bytes of it that are kept
	maxHeaders = 16 << 10 // bytes of response headers

	// maxDials is how many connections one attempt may make for its request. If a receiver answers a
	// request with GOAWAY, the transport repeats the request on a new connection at once, and would
	// do so forever. After that many, one more is made to ask why (heard).
	maxDials = 3

	// idleConns and idleConnsPerHost bound the connections to receivers that stay open between
	// messages, in the process and per host. idleConnTime is how long they stay open.
	idleConns        = 2048
	idleConnsPerHost = 512
	idleConnTime     = 60 * time.Second
)

// SenderConfig configures a Sender.
type SenderConfig struct {
	Settings policy.Settings
	Clock    func() time.Time // required

	// Resolver looks up names; nil: Go's resolver with the system's settings.
	Resolver *net.Resolver
}

// Sender makes attempts. All connections come from one dialer, which checks
// every address after the name is resolved. A Sender is safe for concurrent use.
type Sender struct {
	settings  policy.Settings
	clock     func() time.Time
	dialer    *dialer
	transport *http.Transport
	http1     *http.Transport // for receivers that refuse HTTP/2
	headers   headerNames
}

type headerNames struct{ signature, eventID, deliveryID, position, agent string }

// NewSender returns a Sender. The error is about the settings or the CA file.
func NewSender(cfg SenderConfig) (*Sender, error) {
	if cfg.Clock == nil {
		return nil, errors.New("attempt: SenderConfig needs a Clock")
	}
	settings, err := cfg.Settings.WithDefaults()
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
		tcp:     &net.Dialer{Control: newFilter(settings.Allow).control, Resolver: cfg.Resolver, KeepAlive: 30 * time.Second},
		tls: &tls.Config{
			MinVersion:         tls.VersionTLS12,
			RootCAs:            roots,
			NextProtos:         []string{"h2", "http/1.1"},
			ClientSessionCache: tls.NewLRUClientSessionCache(idleConns),
		},
	}
	d.connect = d.tcp.DialContext
	s := &Sender{
		settings: settings,
		clock:    cfg.Clock,
		dialer:   d,
		headers: headerNames{
			signature:  settings.Brand.SignatureHeader(),
			eventID:    settings.Brand.EventIDHeader(),
			deliveryID: settings.Brand.DeliveryIDHeader(),
			position:   settings.Brand.LogPositionHeader(),
			agent:      settings.Brand.UserAgent(),
		},
		transport: &http.Transport{
			Proxy:                  nil, // ignore the environment's (docs/contract/decisions.md, "Webhooks")
			DialContext:            d.refuse,
			DialTLSContext:         d.dial,
			ForceAttemptHTTP2:      true,
			DisableCompression:     true,
			MaxIdleConns:           idleConns,
			MaxIdleConnsPerHost:    idleConnsPerHost,
			IdleConnTimeout:        idleConnTime,
			MaxResponseHeaderBytes: maxHeaders,
			HTTP2: &http.HTTP2Config{
				MaxReceiveBufferPerConnection: 128 << 10, // bounds how much of an endless body is buffered
				MaxReceiveBufferPerStream:     64 << 10,
				SendPingTimeout:               15 * time.Second,
				PingTimeout:                   5 * time.Second,
			},
		},
	}
	s.http1 = s.transport.Clone()
	s.http1.ForceAttemptHTTP2, s.http1.HTTP2 = false, nil
	s.http1.DialTLSContext = d.speaking("http/1.1").dial
	return s, nil
}

// Close closes idle connections.
func (s *Sender) Close() {
	s.transport.CloseIdleConnections()
	s.http1.CloseIdleConnections()
}

// authorities returns the system's certificate authorities and those in a file.
func authorities(file string) (*x509.CertPool, error) {
	if file == "" {
		return nil, nil //nolint:nilnil // crypto/tls takes nil as the system's pool
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		return nil, fmt.Errorf("read the system's certificate authorities: %w", err)
	}
	pem, err := texts.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("LEDGERFEED_WEBHOOK_CA_FILE: %w", err)
	}
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("LEDGERFEED_WEBHOOK_CA_FILE: %s holds no certificate in PEM form", file)
	}
	return pool, nil
}

// Message is a message to one webhook.
type Message struct {
	URL        *url.URL
	WebhookID  string
	EventID    string
	Body       []byte   // the event's public form, byte for byte
	Secrets    []string // the current one and old ones that still sign, newest first
	DeliveryID string
	Position   int64 // of the event's entry in its workspace's log

	// Standard adds the headers of Standard Webhooks.
	Standard bool

	// Traceparent is the value of the traceparent header (W3C Trace Context); empty: none.
	Traceparent string
}

// http11Required is in the text of the error if a receiver resets the stream or the connection with
// this HTTP/2 error code. It wants the request over HTTP/1.1 (RFC 9113, 7).
const http11Required = "HTTP_1_1_REQUIRED"

// progressKey is the context key of an attempt's progress. The transport dials
// with a context that outlives the request; the progress tells the dialer when
// the attempt has to end.
type progressKey struct{}

// Send makes one attempt, which ends within the timeout of the settings.
func (s *Sender) Send(ctx context.Context, m *Message) Result {
	a := Result{At: s.clock().UTC().Truncate(time.Millisecond)}
	began := time.Now()
	p := &progress{began: began}
	p.begin()
	ctx, cancel := context.WithDeadline(ctx, began.Add(s.settings.Timeout))
	defer cancel()
	ctx = context.WithValue(ctx, progressKey{}, p)
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: p.connected})
	resp, err := s.transport.RoundTrip(s.request(ctx, m, a.At))
	if err != nil && strings.Contains(err.Error(), http11Required) {
		p.begin() // another connection
		resp, err = s.http1.RoundTrip(s.request(ctx, m, a.At))
	}
	if err != nil {
		if errors.Is(err, errTooManyDials) {
			err = s.dialer.heard(ctx, p)
		} else {
			err = p.withAlert(err)
		}
		a.Outcome, a.Error = explain(err, stage(p.reached.Load()), s.settings.Timeout)
	} else {
		a.Status = resp.StatusCode
		a.Outcome, a.Error = explainStatus(resp.StatusCode)
		if resp.StatusCode != http.StatusSwitchingProtocols { // its body is a connection without a deadline
			a.Answer = readAnswer(resp.Body)
		}
		cancel() // before Close, so that Close does not wait for the rest of the body
		_ = resp.Body.Close()
	}
	a.Duration, a.Handshake = time.Since(began), p.handshake.Load()
	if resp != nil {
		a.RetryAfter = retryAfter(resp.StatusCode, resp.Header, a.Ended())
	}
	return a
}

// progress is how far an attempt has come. The dialer updates it from other
// goroutines.
type progress struct {
	began     time.Time
	reached   atomic.Int32 // a stage
	hasConn   atomic.Bool  // the attempt has a connection, possibly one that another attempt dialed
	dials     atomic.Int32
	handshake atomic.Bool // a TLS handshake was begun

	mu      sync.Mutex
	conns   []*tls.Conn // that the attempt has made or was given
	address string      // that was one dial too many
}

// begin resets the progress before a request is made.
func (p *progress) begin() {
	p.hasConn.Store(false)
	p.dials.Store(0)
	p.reached.Store(int32(stageAnswer)) // until a connection has to be made
}

func (p *progress) connected(info httptrace.GotConnInfo) {
	if c, ok := info.Conn.(*tls.Conn); ok {
		p.uses(c)
	}
	p.hasConn.Store(true)
	p.reached.Store(int32(stageAnswer))
}

// withAlert adds the TLS alert that ended a connection to an error that says only that the
// connection ended.
func (p *progress) withAlert(err error) error {
	ended := errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET) || strings.Contains(err.Error(), "http2: client conn")
	if !ended || isAlert(err) {
		return err
	}
	p.mu.Lock()
	conns := slices.Clone(p.conns) // a dial in progress may add one meanwhile
	p.mu.Unlock()
	for _, c := range conns {
		raw, ok := c.NetConn().(*lastWords)
		if !ok || !raw.over() {
			continue
		}
		// crypto/tls keeps the error that ended reading. Nobody else reads from c any more, so this
		// does not wait.
		if _, alert := c.Read(make([]byte, 1)); alert != nil && isAlert(alert) {
			return fmt.Errorf("%w: %w", err, alert)
		}
	}
	return err
}

// uses records a connection that the attempt has made or was given.
func (p *progress) uses(c *tls.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.conns) < 2*maxDials {
		p.conns = append(p.conns, c)
	}
}

func (s *Sender) request(ctx context.Context, m *Message, at time.Time) *http.Request {
	// The map is filled directly because Header.Set would change the case of names with the brand.
	// The empty Idempotency-Key is not sent: it tells the transport that it may repeat the request
	// if a reused connection turns out to be closed. A message may arrive twice, but should not
	// wait a minute for a retry because of that race.
	header := http.Header{
		"Content-Type":       {"application/json"},
		"User-Agent":         {s.headers.agent},
		"Idempotency-Key":    {},
		s.headers.signature:  {Sign(at, m.Body, m.Secrets...)},
		s.headers.eventID:    {m.EventID},
		s.headers.deliveryID: {m.DeliveryID},
		s.headers.position:   {strconv.FormatInt(m.Position, 10)},
	}
	if m.Standard {
		SetStandard(header, at, m.EventID, m.Body, m.Secrets...)
	}
	if m.Traceparent != "" {
		header[tracing.Header] = []string{m.Traceparent}
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

// readAnswer reads a response body up to maxAnswer or the deadline, so that the connection can be
// reused, and returns its beginning as text.
func readAnswer(body io.Reader) string {
	var kept bytes.Buffer
	limited := io.LimitReader(body, maxAnswer+1)
	_, err := io.CopyN(&kept, limited, keptAnswer)
	if err == nil {
		_, _ = io.Copy(io.Discard, limited) // only the beginning is kept, so an error here does not matter
	}
	text := strings.ToValidUTF8(kept.String(), "?")
	return strings.ReplaceAll(text, "\x00", "?") // PostgreSQL's JSON cannot hold NUL
}

// dialer makes all connections.
type dialer struct {
	timeout time.Duration
	tcp     *net.Dialer
	tls     *tls.Config

	// connect opens the connection for TLS. Tests replace tcp's DialContext.
	connect func(ctx context.Context, network, address string) (net.Conn, error)
}

// errTooManyDials means that the receiver accepted connections and closed each
// of them again.
var errTooManyDials = errors.New("every connection was closed")

// refuse dials connections without TLS. They do not occur, because webhook addresses are https
// only.
func (d *dialer) refuse(context.Context, string, string) (net.Conn, error) {
	return nil, errors.New("only https is spoken")
}

// dial connects and completes the TLS handshake within the attempt's timeout.
func (d *dialer) dial(ctx context.Context, network, address string) (net.Conn, error) {
	if p, ok := ctx.Value(progressKey{}).(*progress); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, p.began.Add(d.timeout))
		defer cancel()
		if p.dials.Add(1) > maxDials {
			p.mu.Lock()
			p.address = address
			p.mu.Unlock()
			return nil, errTooManyDials
		}
	}
	reach(ctx, stageConnect)
	raw, err := d.connect(ctx, network, address)
	if err != nil {
		return nil, &stageError{stageConnect, err}
	}
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		_ = raw.Close()
		return nil, &stageError{stageConnect, err}
	}
	words := &lastWords{Conn: raw, ended: make(chan struct{})}
	words.until, _ = ctx.Deadline()
	raw = words
	cfg := d.tls.Clone()
	cfg.ServerName = strings.TrimSuffix(host, ".")
	cfg.ClientSessionCache = addressSessions{d.tls.ClientSessionCache, address}
	conn := tls.Client(raw, cfg)
	reach(ctx, stageTLS)
	if err := conn.HandshakeContext(ctx); err != nil {
		_ = raw.Close()
		return nil, &stageError{stageTLS, err}
	}
	reach(ctx, stageAnswer)
	if p, ok := ctx.Value(progressKey{}).(*progress); ok {
		p.uses(conn)
	}
	return conn, nil
}

// heard returns errTooManyDials, with the TLS alert by which the receiver closes connections if
// that is how it does it. It asks on a connection of its own: attempts at the same time share
// those of HTTP/2, and close the ones that are too many before the alert has come.
func (d *dialer) heard(ctx context.Context, p *progress) error {
	p.mu.Lock()
	address := p.address
	p.mu.Unlock()
	conn, err := d.dial(context.WithValue(ctx, progressKey{}, nil), "tcp", address)
	if err == nil {
		until, _ := ctx.Deadline()
		_ = conn.SetReadDeadline(until)
		_, err = conn.Read(make([]byte, 1))
		_ = conn.Close()
	}
	if err != nil && isAlert(err) {
		return fmt.Errorf("%w: %w", errTooManyDials, err)
	}
	return errTooManyDials
}

// speaking returns a dialer that offers receivers only one protocol.
func (d *dialer) speaking(protocol string) *dialer {
	other := &dialer{timeout: d.timeout, tcp: d.tcp, tls: d.tls.Clone()}
	other.tls.NextProtos = []string{protocol}
	other.connect = func(ctx context.Context, network, address string) (net.Conn, error) {
		return d.connect(ctx, network, address)
	}
	return other
}

// lastWords is a connection on which a failed write waits until everything that the other end sent
// has been read. A receiver that refuses the client in TLS 1.3 sends an alert and closes. The
// request may be on its way by then, and its failed write would hide the alert.
type lastWords struct {
	net.Conn
	until time.Time // the deadline of the attempt that made the connection
	once  sync.Once
	ended chan struct{} // closed when reading has ended or the connection is closed
}

// lastWordsTime bounds how long a failed write waits, in addition to the attempt's deadline.
const lastWordsTime = 250 * time.Millisecond

// Read implements net.Conn.
func (c *lastWords) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if err != nil {
		c.end()
	}
	return n, err //nolint:wrapcheck // the error of the wrapped connection
}

// Write implements net.Conn.
func (c *lastWords) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	if err != nil {
		c.over()
	}
	return n, err
}

// over waits for a moment until reading has ended, and reports whether it has.
func (c *lastWords) over() bool {
	limit := time.NewTimer(min(lastWordsTime, time.Until(c.until)))
	defer limit.Stop()
	select {
	case <-c.ended:
		return true
	case <-limit.C:
		return false
	}
}

// Close implements net.Conn.
func (c *lastWords) Close() error {
	c.end()
	return c.Conn.Close()
}

func (c *lastWords) end() { c.once.Do(func() { close(c.ended) }) }

// addressSessions keeps the TLS sessions of one host and port. crypto/tls keys
// sessions by host name only, so receivers on two ports of a host would replace
// each other's session, and every connection would need a full handshake.
type addressSessions struct {
	all     tls.ClientSessionCache
	address string
}

// Get implements tls.ClientSessionCache.
func (s addressSessions) Get(string) (*tls.ClientSessionState, bool) { return s.all.Get(s.address) }

// Put implements tls.ClientSessionCache.
func (s addressSessions) Put(_ string, state *tls.ClientSessionState) { s.all.Put(s.address, state) }

// reach records that the attempt's own connection has reached a stage.
func reach(ctx context.Context, at stage) {
	p, ok := ctx.Value(progressKey{}).(*progress)
	if !ok {
		return
	}
	if at == stageTLS {
		p.handshake.Store(true)
	}
	if !p.hasConn.Load() {
		p.reached.Store(int32(at))
	}
}
