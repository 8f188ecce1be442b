package jetstream

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	wmnats "github.com/ThreeDotsLabs/watermill-nats/v2/pkg/nats"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/nats-io/nats.go"

	"github.com/ledgerfeed/ledgerfeed/internal/bus"
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

	// duplicateWindow is for how long the stream that the program makes remembers the ids of
	// messages. It is JetStream's default.
	duplicateWindow = 2 * time.Minute
)

// Publisher is Watermill's publisher for NATS, on a stream.
type Publisher struct {
	*wmnats.Publisher

	conn   *nats.Conn
	stream nats.JetStreamContext
	target *Target
}

// Open opens a stream; it is a bus.Open.
func Open(address string, cfg bus.Config) (bus.Publisher, error) {
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

func newPublisher(conn *nats.Conn, target *Target) (*Publisher, error) {
	wait := nats.MaxWait(ackTimeout)
	inner, err := wmnats.NewPublisherWithNatsConn(conn, wmnats.PublisherPublishConfig{
		Marshaler:         marshaler{target.Subject},
		SubjectCalculator: wmnats.DefaultSubjectCalculator,
		JetStream: wmnats.JetStreamConfig{
			ConnectOptions: []nats.JSOpt{wait},
			PublishOptions: []nats.PubOpt{nats.ExpectStream(target.Stream)},
		},
	}, watermill.NopLogger{}) // it logs nothing but each message
	if err != nil {
		return nil, fmt.Errorf("prepare to publish: %w", err)
	}
	stream, err := conn.JetStream(wait)
	if err != nil {
		return nil, fmt.Errorf("prepare to publish: %w", err)
	}
	return &Publisher{inner, conn, stream, target}, nil
}

// Connect connects in the background, and again whenever the connection is lost. Nothing
// is kept for later meanwhile: what is published then is an error at once, so that the
// memory is bounded and the caller knows what was stored. Credentials that are refused are
// tried again, too: the server's operator may mend them there. What more says takes
// precedence.
func Connect(target *Target, cfg bus.Config, more ...nats.Option) (*nats.Conn, error) {
	options := []nats.Option{
		nats.Name(cfg.Name), nats.RetryOnFailedConnect(true), nats.MaxReconnects(-1), nats.ReconnectWait(reconnectWait),
		nats.ReconnectBufSize(-1), nats.Timeout(connectTimeout), nats.PingInterval(pingInterval), nats.MaxPingsOutstanding(pingsOut),
		nats.IgnoreAuthErrorAbort(),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			if !errors.Is(err, nats.ErrAuthorization) { // at each attempt to connect, which others tell of once
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

// Probe looks whether the server is connected and the stream has a leader. It makes the
// stream if it does not exist and the address says with how many replicas.
func (p *Publisher) Probe(ctx context.Context) error {
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

func (p *Publisher) makeStream(ctx context.Context) error {
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

// marshaler makes NATS messages: the subject is prefix, workspace and type, such as
// ledgerfeed.acme.invoice.sent. It is a wmnats.Marshaler.
type marshaler struct{ prefix string }

func (m marshaler) Marshal(workspaceID string, msg *message.Message) (*nats.Msg, error) {
	out := nats.NewMsg(m.prefix + "." + workspaceID + "." + msg.Metadata.Get(bus.MetadataType))
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
