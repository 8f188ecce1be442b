package ingest

import (
	"context"
	"fmt"
	"strings"

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

// Message is a message of a source.
type Message struct {
	*message.Message

	Subject string   // where it was published; empty: the source has no subjects
	Tokens  []string // of the subject, behind the one that the source reads
	Headers []byte   // as they came, in JSON; nil: none
	Fault   error    // why it cannot be read; nil: it can
}

// Batch is the next messages of a source. One of Done and Release is called.
type Batch struct {
	Messages []Message

	// Done moves the source behind the messages, and keeps dead letters. After an error
	// the messages come again.
	Done func(ctx context.Context, dead []Dead) error

	// Release gives the messages back.
	Release func(ctx context.Context)
}

// Dead is a message that the log refuses.
type Dead struct {
	Message *Message
	Reason  string
}

// The metadata of a dead letter. It has no other: a broker obeys some headers, so those of the
// message, which its publisher chose, are inside one of ours.
const (
	MetadataReason  = "ledgerfeed_reason"
	MetadataHeaders = "ledgerfeed_headers" // in JSON, as they came
	MetadataSubject = "ledgerfeed_subject"
	MetadataCut     = "ledgerfeed_cut" // what of the message is not in the letter, because it is too large
)

// The most bytes of what is in a letter's metadata. A broker refuses a message with larger headers
// (NATS: 64 KiB in all), and a letter that it refuses would hold the source up for good.
const (
	maxReason  = 4 << 10
	maxHeaders = 32 << 10
)

// Letter is the dead letter as a message, without the UUID.
func (d *Dead) Letter() *message.Message {
	letter := message.NewMessage("", d.Message.Payload)
	letter.Metadata.Set(MetadataReason, short(d.Reason))
	if d.Message.Subject != "" {
		letter.Metadata.Set(MetadataSubject, d.Message.Subject)
	}
	switch n := len(d.Message.Headers); {
	case n > maxHeaders:
		letter.Metadata.Set(MetadataCut, fmt.Sprintf("the headers (%d bytes)", n))
	case n > 0:
		letter.Metadata.Set(MetadataHeaders, string(d.Message.Headers))
	}
	return letter
}

func short(reason string) string {
	if len(reason) <= maxReason {
		return reason
	}
	return strings.ToValidUTF8(reason[:maxReason], "") + "…"
}
