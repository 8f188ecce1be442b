package eventlog

import (
	"context"
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
	way, by := &n.carrying, n.transport.Name()
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

// Ways are those of this process. Without any, or with none that is connected, changes of
// other processes are found by sweeps. It may be called at any time after CarryBy and
// ListenAt.
func (n *Notifier) Ways() []Way {
	list := []Way{}
	if n.transport != nil {
		list = append(list, n.carrying.state(n.transport.Name()))
	}
	for _, l := range n.nodes {
		list = append(list, l.state(l.by()))
	}
	if !n.deaf {
		list = append(list, n.listening.state(WayListen))
	}
	return list
}
