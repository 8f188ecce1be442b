package eventlog

import (
	"context"
	"errors"
	"sync"
)

// Transport carries notifications between processes in the place of PostgreSQL's NOTIFY,
// where a pooler, or several servers, stand between them. What it carries may be lost, or
// come twice.
type Transport interface {
	// Name says by what it carries, such as "nats".
	Name() string

	// Send sends payloads of less than 8,000 bytes to the other processes. Without an error,
	// those that are connected get them.
	Send(ctx context.Context, topic Topic, payloads ...string) error

	// Receive receives until ctx ends, through interruptions.
	Receive(ctx context.Context, r Receiver)

	Close()
}

// Receiver is what a Transport calls while it receives, from one goroutine. None of the
// functions blocks.
type Receiver struct {
	// Connected is called when receiving begins, and whenever it begins again or something
	// was left out.
	Connected func()

	// Interrupted is called once when nothing can be received any more, or not yet.
	Interrupted func(reason error)

	Received func(topic Topic, payload string)
}

// receive receives by the transport until ctx ends.
func (n *Notifier) receive(ctx context.Context) {
	way, by := &n.ways[wayTransport], n.transport.Name()
	n.transport.Receive(ctx, Receiver{
		Connected: func() {
			if way.set(nil) {
				n.logger.InfoContext(ctx, "notifications of other processes are received", "by", by)
			}
			n.notifyAll()
		},
		Interrupted: func(reason error) {
			n.interrupted.Add(1)
			way.set(reason)
			n.logger.WarnContext(ctx, "cannot receive notifications of other processes; changes are found by sweeps, or by PostgreSQL's NOTIFY where that is listened to",
				"by", by, "error", reason)
		},
		Received: func(topic Topic, payload string) {
			if len(payload) <= maxPayload {
				n.take(topic, payload)
			}
		},
	})
}

// Way is one of the ways by which a process hears of the changes of others.
type Way struct {
	By        string `json:"by"` // WayListen, or the name of the Transport
	Connected bool   `json:"connected"`
	Reason    string `json:"reason,omitempty"` // why it is not
}

// WayListen is PostgreSQL's LISTEN.
const WayListen = "postgresql"

// The indexes of Notifier.ways.
const (
	wayListen = iota
	wayTransport
)

var errNotYet = errors.New("not connected yet")

// way is the state of a Way.
type way struct {
	mu        sync.Mutex
	connected bool
	reason    error
}

// set sets the reason for which the way is not connected; nil: it is. It reports whether
// that is new.
func (w *way) set(reason error) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	was := w.connected
	w.connected, w.reason = reason == nil, reason
	return was != w.connected
}

func (w *way) state(by string) Way {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.connected:
		return Way{By: by, Connected: true}
	case w.reason == nil:
		return Way{By: by, Reason: errNotYet.Error()}
	}
	return Way{By: by, Reason: w.reason.Error()}
}

// Ways are those of this process. Without any, or with none that is connected, changes of
// other processes are found by sweeps. It may be called at any time after CarryBy and
// ListenAt.
func (n *Notifier) Ways() []Way {
	list := []Way{}
	if n.transport != nil {
		list = append(list, n.ways[wayTransport].state(n.transport.Name()))
	}
	if !n.deaf {
		list = append(list, n.ways[wayListen].state(WayListen))
	}
	return list
}
