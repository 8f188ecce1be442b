package ingest

import (
	"context"

	"github.com/ThreeDotsLabs/watermill/message"
)

// Source gives messages in an order, from behind those that are done.
type Source interface {
	// Next waits for messages. It returns nil when there were none for a while.
	Next(ctx context.Context) (*Batch, error)

	// Lag is how many messages are waiting. -1: it is not known.
	Lag(ctx context.Context) (int64, error)

	Close()
}

// Batch is the next messages of a source. One of Done and Release is called.
type Batch struct {
	Messages []*message.Message
	Faults   map[int]error // of messages that could not be read, by their index

	// Done moves the source behind the messages, and keeps dead letters. After an error
	// the messages come again.
	Done func(ctx context.Context, dead []Dead) error

	// Release gives the messages back.
	Release func(ctx context.Context)
}

// Dead is a message that the log refuses.
type Dead struct {
	Message *message.Message
	Reason  string
}

// MetadataReason is the metadata of a dead letter that says why it is one; the rest of it
// is the message, as it was.
const MetadataReason = "ledgerfeed_reason"

// Letter is the dead letter as a message.
func (d *Dead) Letter() *message.Message {
	letter := d.Message.Copy()
	letter.Metadata.Set(MetadataReason, d.Reason)
	return letter
}
