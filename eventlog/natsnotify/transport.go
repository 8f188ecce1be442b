package natsnotify

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/internal/bus"
	"github.com/ledgerfeed/ledgerfeed/internal/bus/jetstream"
)

const (
	// sendTimeout is how long the server may take to confirm that it has what was sent.
	// After it, others are notified in another way.
	sendTimeout = 250 * time.Millisecond

	// subscribeTimeout is how long it may take to begin to send what others publish.
	subscribeTimeout = 2 * time.Second

	// lookInterval is how often a connection is looked at that cannot be used.
	lookInterval = 5 * time.Second

	// waiting is how many notifications may wait for Receive; those beyond are lost, and it
	// notices.
	waiting = 1024
)

// Transport is a connection to a NATS server, which is made when it is first needed, and
// again whenever it is lost.
type Transport struct {
	target *jetstream.Target
	cfg    bus.Config

	changed chan struct{} // holds a token when the connection has come or gone
	lost    atomic.Uint64 // how often it has gone
	connect func() (*nats.Conn, error)

	mu     sync.Mutex
	closed bool
	conn   *nats.Conn // nil: not made yet
}

// New prepares a Transport; nothing is connected yet.
func New(target *jetstream.Target, cfg bus.Config) *Transport {
	t := &Transport{target: target, cfg: cfg, changed: make(chan struct{}, 1)}
	t.connect = sync.OnceValues(t.open)
	return t
}

// Name is of eventlog.Transport.
func (t *Transport) Name() string { return "nats" }

var errClosed = errors.New("the connection to NATS is closed")

// open connects. Where no server answers, the connection is made in the background.
func (t *Transport) open() (*nats.Conn, error) {
	tell := func(*nats.Conn) { t.tell() }
	conn, err := jetstream.Connect(t.target, t.cfg, nats.NoEcho(), nats.ConnectHandler(tell), nats.ReconnectHandler(tell),
		nats.DisconnectErrHandler(func(*nats.Conn, error) {
			t.lost.Add(1)
			t.tell()
		}))
	if err != nil {
		return nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		conn.Close()
		return nil, errClosed
	}
	t.conn = conn
	return conn, nil
}

func (t *Transport) tell() {
	select {
	case t.changed <- struct{}{}:
	default:
	}
}

// Close closes the connection.
func (t *Transport) Close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
	if t.conn != nil {
		t.conn.Close()
	}
}

var errNotConnected = errors.New("there is no connection to NATS")

// stateOf is why a connection cannot be used; nil: it can.
func stateOf(conn *nats.Conn) error {
	err := conn.LastError()
	switch {
	case !conn.IsConnected() && err != nil:
		return fmt.Errorf("%w: %w", errNotConnected, err)
	case !conn.IsConnected():
		return errNotConnected
	case errors.Is(err, nats.ErrPermissionViolation): // of the subject; it stands until the next connection
		return fmt.Errorf("NATS refuses the subject: %w", err)
	}
	return nil
}

// Send is of eventlog.Transport. It returns when the server has passed the payloads on.
func (t *Transport) Send(ctx context.Context, topic eventlog.Topic, payloads ...string) error {
	conn, err := t.connect()
	if err != nil {
		return err
	}
	if err := stateOf(conn); err != nil {
		return err
	}
	for _, payload := range payloads {
		if err := conn.Publish(subjectOf(t.target.Subject, topic), []byte(payload)); err != nil {
			return fmt.Errorf("publish a notification: %w", err)
		}
	}
	limited, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	if err := conn.FlushWithContext(limited); err != nil {
		return fmt.Errorf("publish a notification: %w", err)
	}
	return stateOf(conn)
}

// Receive is of eventlog.Transport.
func (t *Transport) Receive(ctx context.Context, r eventlog.Receiver) {
	conn, err := t.connect()
	messages := make(chan *nats.Msg, waiting)
	var sub *nats.Subscription
	if err == nil {
		sub, err = conn.ChanSubscribe(t.target.Subject+".>", messages)
	}
	if err != nil {
		r.Interrupted(fmt.Errorf("prepare to receive notifications: %w", err))
		<-ctx.Done()
		return
	}
	defer func() { _ = sub.Unsubscribe() }() // the connection may be gone
	receiving := receiving{t: t, conn: conn, sub: sub, receiver: r}
	again := time.NewTicker(lookInterval)
	defer again.Stop()
	t.tell()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.changed:
			receiving.look(ctx)
		case <-again.C: // the server was too slow, or the subject is allowed now
			if !receiving.is {
				receiving.look(ctx)
			}
		case m := <-messages:
			receiving.take(m)
		}
	}
}

// receiving is the work of one Receive.
type receiving struct {
	t        *Transport
	conn     *nats.Conn
	sub      *nats.Subscription
	receiver eventlog.Receiver

	told    bool   // whether it is connected, or why not
	is      bool   // it was told that it is connected
	lost    uint64 // how often the connection had gone before
	dropped int    // how many notifications were lost before, because too many waited
}

// look looks at the connection, which has come or gone, and says so.
func (r *receiving) look(ctx context.Context) {
	lost := r.t.lost.Load()
	err := stateOf(r.conn)
	if err == nil {
		// The server knows the subscription when it has answered.
		limited, cancel := context.WithTimeout(ctx, subscribeTimeout)
		defer cancel()
		if err = r.conn.FlushWithContext(limited); err == nil {
			err = stateOf(r.conn)
		}
	}
	switch {
	case ctx.Err() != nil:
	case err != nil && (r.is || !r.told):
		r.told, r.is = true, false
		r.receiver.Interrupted(err)
	case err == nil && (!r.is || lost != r.lost):
		if r.is { // it has come back before anybody looked
			r.receiver.Interrupted(errNotConnected)
		}
		r.told, r.is, r.lost = true, true, lost
		r.receiver.Connected()
	}
}

func (r *receiving) take(m *nats.Msg) {
	if dropped, err := r.sub.Dropped(); err == nil && dropped != r.dropped {
		r.dropped = dropped
		r.receiver.Connected()
	}
	if topic, ok := strings.CutPrefix(m.Subject, r.t.target.Subject+"."); ok {
		r.receiver.Received(eventlog.Topic(topic), string(m.Data))
	}
}

// checkTimeout bounds Check.
const checkTimeout = 5 * time.Second

// Check sends a notification about no workspace through the server and receives it, and
// returns what is in the way.
func Check(ctx context.Context, target *jetstream.Target, cfg bus.Config) error {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	conn, err := jetstream.Connect(target, cfg, nats.RetryOnFailedConnect(false))
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := stateOf(conn); err != nil {
		return err
	}
	subject := subjectOf(target.Subject, "check")
	sub, err := conn.SubscribeSync(subject)
	if err == nil {
		err = conn.Publish(subject, []byte("-"))
	}
	if err == nil {
		err = conn.FlushWithContext(ctx)
	}
	if err == nil {
		err = stateOf(conn)
	}
	if err == nil {
		_, err = sub.NextMsgWithContext(ctx)
	}
	if err != nil {
		return fmt.Errorf("send a notification through NATS: %w", err)
	}
	return nil
}
