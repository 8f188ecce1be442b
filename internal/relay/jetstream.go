// This file implements a Publisher on NATS JetStream, with Watermill's publisher for NATS. Subjects hold
// the workspace and the type, and message ids let the server recognise messages that it has already
// stored.

package relay

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	wmnats "github.com/ThreeDotsLabs/watermill-nats/v2/pkg/nats"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/nats-io/nats.go"

	"github.com/ledgerfeed/ledgerfeed/internal/texts"
)

const (
	// ackTimeout is how long the server may take to store a message.
	ackTimeout = 5 * time.Second

	// connectTimeout bounds one attempt to connect, reconnectWait is the time between two.
	connectTimeout = 2 * time.Second
	reconnectWait  = time.Second

	// pingInterval and pingsOut: a connection that is silent for 15 s is given up.
	pingInterval = 5 * time.Second
	pingsOut     = 2

	// duplicateWindow is how long a stream that this program makes remembers message ids. It is
	// JetStream's default.
	duplicateWindow = 2 * time.Minute
)

// JetStream is Watermill's publisher for NATS, publishing to a stream.
type JetStream struct {
	*wmnats.Publisher

	conn   *nats.Conn
	stream nats.JetStreamContext
	target *Target
}

// OpenJetStream opens a publisher to a stream. It does not wait for the server: Probe reports one
// that cannot be reached. The error says what is wrong with the address, without its passwords.
func OpenJetStream(address string, cfg BrokerConfig) (Publisher, error) {
	target, err := ParseTarget(address)
	if err != nil {
		return nil, err
	}
	conn, err := Connect(target, cfg)
	if err != nil {
		return nil, err
	}
	p, err := newPublisher(conn, target)
	if err != nil {
		conn.Close()
		return nil, err
	}
	return p, nil
}

func newPublisher(conn *nats.Conn, target *Target) (*JetStream, error) {
	wait := nats.MaxWait(ackTimeout)
	inner, err := wmnats.NewPublisherWithNatsConn(conn, wmnats.PublisherPublishConfig{
		Marshaler:         marshaler{target.Subject},
		SubjectCalculator: wmnats.DefaultSubjectCalculator,
		JetStream: wmnats.JetStreamConfig{
			ConnectOptions: []nats.JSOpt{wait},
			PublishOptions: []nats.PubOpt{nats.ExpectStream(target.Stream)},
		},
	}, watermill.NopLogger{}) // it would only log each message
	if err != nil {
		return nil, fmt.Errorf("prepare to publish: %w", err)
	}
	stream, err := conn.JetStream(wait)
	if err != nil {
		return nil, fmt.Errorf("prepare to publish: %w", err)
	}
	return &JetStream{inner, conn, stream, target}, nil
}

// Connect connects in the background, and reconnects whenever the connection is lost. Without a
// connection, publishing fails at once instead of buffering: this bounds the memory, and the caller
// knows what was stored. Refused credentials are retried too, because the server's operator may
// correct them. Options in more take precedence.
func Connect(target *Target, cfg BrokerConfig, more ...nats.Option) (*nats.Conn, error) {
	options := []nats.Option{
		nats.Name(cfg.Name), nats.RetryOnFailedConnect(true), nats.MaxReconnects(-1), nats.ReconnectWait(reconnectWait),
		nats.ReconnectBufSize(-1), nats.Timeout(connectTimeout), nats.PingInterval(pingInterval), nats.MaxPingsOutstanding(pingsOut),
		nats.IgnoreAuthErrorAbort(),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			if !errors.Is(err, nats.ErrAuthorization) { // it comes at each attempt to connect; others report it once
				cfg.Logger.Warn("the message broker refuses something", "error", err) // such as a subject
			}
		}),
	}
	if target.Creds != "" {
		options = append(options, credentials(target.Creds))
	}
	if target.CA != "" {
		options = append(options, authorities(target.CA), nats.Secure(&tls.Config{MinVersion: tls.VersionTLS12}))
	}
	conn, err := nats.Connect(target.Servers, append(options, more...)...)
	if err != nil {
		return nil, fmt.Errorf("prepare the connection to NATS: %w", err)
	}
	return conn, nil
}

var errNotConnected = errors.New("there is no connection to NATS")

// Probe checks that the server is connected and that the stream has a leader. It makes a missing
// stream if the address gives the number of replicas.
func (p *JetStream) Probe(ctx context.Context) error {
	if !p.conn.IsConnected() {
		if err := p.conn.LastError(); err != nil {
			return fmt.Errorf("%w: %w", errNotConnected, err)
		}
		return errNotConnected
	}
	info, err := p.stream.StreamInfo(p.target.Stream, nats.Context(ctx))
	if errors.Is(err, nats.ErrStreamNotFound) {
		return p.makeStream(ctx)
	}
	if err != nil {
		return fmt.Errorf("look for the stream %s: %w", p.target.Stream, err)
	}
	if info.Cluster != nil && info.Cluster.Leader == "" {
		return fmt.Errorf("the stream %s has no leader: too few of its servers run", p.target.Stream)
	}
	return nil
}

func (p *JetStream) makeStream(ctx context.Context) error {
	if p.target.Replicas == 0 {
		return fmt.Errorf("there is no stream %s: make it with the subjects %s.>, or give the address replicas=1, or 3 for a cluster, so that it is made",
			p.target.Stream, p.target.Subject)
	}
	_, err := p.stream.AddStream(&nats.StreamConfig{
		Name: p.target.Stream, Subjects: []string{p.target.Subject + ".>"}, Replicas: p.target.Replicas, Duplicates: duplicateWindow,
	}, nats.Context(ctx))
	if err != nil {
		return fmt.Errorf("make the stream %s: %w", p.target.Stream, err)
	}
	return nil
}

// marshaler makes NATS messages. The subject is prefix, workspace and type, such as
// ledgerfeed.acme.invoice.sent. It is a wmnats.Marshaler.
type marshaler struct{ prefix string }

func (m marshaler) Marshal(workspaceID string, msg *message.Message) (*nats.Msg, error) {
	out := nats.NewMsg(m.prefix + "." + workspaceID + "." + msg.Metadata.Get(MetadataType))
	out.Data = msg.Payload
	out.Header.Set(wmnats.WatermillUUIDHdr, msg.UUID)
	out.Header.Set(nats.MsgIdHdr, MessageID(workspaceID, msg.UUID))
	for name, value := range msg.Metadata {
		out.Header.Set(name, value)
	}
	return out, nil
}

// MessageID is the Nats-Msg-Id of an entry.
func MessageID(workspaceID, id string) string { return workspaceID + "/" + id }

// Target is what an address of JetStream says, such as
// nats://user:password@n1:4222,n2:4222/?stream=LEDGERFEED&subject=ledgerfeed&replicas=3.
type Target struct {
	Servers  string // for nats.Connect
	Stream   string // default LEDGERFEED
	Subject  string // how the subjects begin; default ledgerfeed
	Replicas int    // number of replicas for a stream that Probe makes; 0: it makes none
	Creds    string // a file with credentials (JWT and key); empty: none
	CA       string // a file with CA certificates (PEM); empty: the system's
}

var (
	streamForm  = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)
	subjectForm = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}(\.[A-Za-z0-9_-]{1,64}){0,7}$`)
)

// maxReplicas is JetStream's limit.
const maxReplicas = 5

// ParseTarget reads an address. The error does not show passwords.
func ParseTarget(address string) (*Target, error) {
	scheme, rest, _ := strings.Cut(address, "://")
	if scheme != "nats" && scheme != "tls" {
		return nil, errors.New("want an address that begins with nats:// or tls://")
	}
	hosts, query, _ := strings.Cut(rest, "?")
	hosts = strings.TrimSuffix(hosts, "/")
	values, err := url.ParseQuery(query)
	if err != nil {
		return nil, errors.New("what follows the ? is not of the form name=value&name=value")
	}
	t := &Target{Stream: "LEDGERFEED", Subject: "ledgerfeed"}
	for name, given := range values {
		if len(given) != 1 || given[0] == "" {
			return nil, fmt.Errorf("the parameter %s has no value, or several", name)
		}
		if err := t.set(name, given[0]); err != nil {
			return nil, err
		}
	}
	var servers []string
	for host := range strings.SplitSeq(hosts, ",") {
		server := scheme + "://" + host
		if u, err := url.Parse(server); err != nil || u.Hostname() == "" || u.Path != "" {
			return nil, errors.New("want servers such as nats://n1.example.com:4222,n2.example.com:4222")
		}
		servers = append(servers, server)
	}
	t.Servers = strings.Join(servers, ",")
	return t, nil
}

// Hosts are the servers without user names and passwords.
func (t *Target) Hosts() string {
	var hosts []string
	for server := range strings.SplitSeq(t.Servers, ",") {
		_, host, _ := strings.Cut(server, "://")
		hosts = append(hosts, host[strings.LastIndex(host, "@")+1:])
	}
	return strings.Join(hosts, ", ")
}

func (t *Target) set(name, value string) error {
	switch name {
	case "stream":
		if !streamForm.MatchString(value) {
			return errors.New("stream is 1 to 64 of A-Z a-z 0-9 _ -")
		}
		t.Stream = value
	case "subject":
		if !subjectForm.MatchString(value) {
			return errors.New("subject is words of A-Z a-z 0-9 _ - with points between them, such as billing.ledgerfeed")
		}
		t.Subject = value
	case "replicas":
		n, err := strconv.Atoi(value)
		if err != nil || n < 1 || n > maxReplicas {
			return fmt.Errorf("replicas is a number from 1 to %d", maxReplicas)
		}
		t.Replicas = n
	case "creds":
		t.Creds = value
	case "ca":
		t.CA = value
	default:
		return fmt.Errorf("there is no parameter %s; there are stream, subject, replicas, creds and ca", name)
	}
	return nil
}

// Files are read again for each connection, because certificates and credentials are renewed. They
// may have a byte order mark, as Windows editors write it. Connect reports a file that is wrong.

var errNoCertificate = errors.New("it holds no certificate in PEM form")

// authorities trusts the certificates of a file.
func authorities(file string) nats.Option {
	read := func() (*x509.CertPool, error) {
		text, err := texts.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("ca: %w", err)
		}
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("ca: %s: %w", file, errNoCertificate)
		}
		return pool, nil
	}
	return func(o *nats.Options) error {
		_, err := read()
		o.RootCAsCB, o.Secure = read, true
		return err
	}
}

// credentials signs in with the JWT and the key of a file.
func credentials(file string) nats.Option {
	read := func() (o nats.Options, err error) {
		text, err := texts.ReadFile(file)
		if err == nil {
			err = nats.UserCredentialBytes(text)(&o)
		}
		if err != nil {
			return o, fmt.Errorf("creds: %w", err)
		}
		return o, nil
	}
	jwt := func() (string, error) {
		o, err := read()
		if err != nil {
			return "", err
		}
		return o.UserJWT()
	}
	sign := func(nonce []byte) ([]byte, error) {
		o, err := read()
		if err != nil {
			return nil, err
		}
		signed, err := o.SignatureCB(nonce)
		if err != nil {
			return nil, fmt.Errorf("creds: %s: want a JWT and a key as nsc writes them: %w", file, err)
		}
		return signed, nil
	}
	return func(o *nats.Options) error {
		if _, err := sign([]byte("?")); err != nil {
			return err
		}
		return nats.UserJWT(jwt, sign)(o)
	}
}
