package watermillsql

import (
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	wsql "github.com/ThreeDotsLabs/watermill-sql/v4/pkg/sql"
	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/eventlog"
)

// Publisher appends messages to the log; the topic is the workspace.
//
// It is watermill-sql's Publisher with Schema. On a transaction (wsql.TxFromPgx,
// wsql.TxFromStdSQL) the entries exist if and only if that transaction commits,
// together with whatever else the producer wrote: a transactional outbox without
// an outbox table. The workspace stays locked for other appends until then, so
// keep the transaction short, and publish to several workspaces in the order of
// their ids. The commit notifies subscribers.
type Publisher struct {
	inner *wsql.Publisher
}

// NewPublisher makes a Publisher on a transaction, a pool (wsql.BeginnerFromPgx)
// or a database (wsql.BeginnerFromStdSQL). The clock gives the publish time of
// entries that bring none. The logger may be nil.
func NewPublisher(db wsql.ContextExecutor, clock func() time.Time, logger watermill.LoggerAdapter) (*Publisher, error) {
	if clock == nil {
		return nil, errors.New("watermillsql: NewPublisher needs a clock")
	}
	inner, err := wsql.NewPublisher(db, wsql.PublisherConfig{SchemaAdapter: Schema{Clock: clock}}, logger)
	if err != nil {
		return nil, fmt.Errorf("make a publisher: %w", err)
	}
	return &Publisher{inner: inner}, nil
}

// Publish appends the messages to the workspace, all of them or, on an error,
// none. Messages whose entries the log already holds are skipped and count as
// published.
//
// The error wraps an *eventlog.RefusedError if the log refuses an entry, an *eventlog.LockedError
// if another transaction holds the workspace's lock, an *eventlog.ClockError if this program's
// clock is wrong, and a *domain.DraftError if a message is not an entry. All but the last also
// abort the transaction that the Publisher was made on.
func (p *Publisher) Publish(topic string, messages ...*message.Message) error {
	err := p.inner.Publish(topic, messages...)
	if err != nil {
		return fmt.Errorf("publish to %s: %w", topic, eventlog.AppendError(topic, err))
	}
	return nil
}

// Close waits for the calls in flight and refuses further ones. The transaction or pool stays open;
// it belongs to the caller.
func (p *Publisher) Close() error {
	if err := p.inner.Close(); err != nil {
		return fmt.Errorf("close the publisher: %w", err)
	}
	return nil
}

// Metadata of messages that stand for entries. The log stores no other metadata.
const (
	MetadataType        = "type"         // the entry's type; required to publish
	MetadataCreatedAt   = "created_at"   // the publish time; optional to publish, for history
	MetadataPosition    = "position"     // decimal; set on messages read, ignored when published
	MetadataWorkspaceID = "workspace_id" // set on messages read, ignored when published

	// MetadataChain is the chain value, in hex; set on messages read, ignored when published. A
	// consumer that stores positions elsewhere should store the chain with them, and compare it
	// with the log's when it continues.
	MetadataChain = "chain"
)

// Faults of messages outside their payload.
var (
	errMessageID        = errors.New("the message's UUID is the entry's id: want 1 to 64 of A-Z a-z 0-9 _ -")
	errMessageCreatedAt = errors.New("metadata created_at has the wrong form: want " + domain.PublishTimeDescription)
)

// draftOf reads a message as an entry of the workspace. A message without UUID
// gets its id from the log. The error wraps a *domain.DraftError.
func draftOf(workspaceID string, msg *message.Message) (domain.Draft, error) {
	d, err := domain.NewDraft(workspaceID, msg.Metadata.Get(MetadataType), msg.Payload)
	if err != nil {
		return domain.Draft{}, fmt.Errorf("message %q: %w", msg.UUID, err)
	}
	if msg.UUID != "" && !domain.IsID(msg.UUID) {
		return domain.Draft{}, fmt.Errorf("message %q: %w", msg.UUID, &domain.DraftError{Err: errMessageID})
	}
	d.ID = msg.UUID
	if text, given := msg.Metadata[MetadataCreatedAt]; given {
		at, ok := domain.ParsePublishTime(text)
		if !ok {
			return domain.Draft{}, fmt.Errorf("message %q: %w", msg.UUID, &domain.DraftError{Err: errMessageCreatedAt})
		}
		d.CreatedAt = at
	}
	return d, nil
}

// messageOf makes a message from an entry.
func messageOf(e *domain.Entry) *message.Message {
	msg := message.NewMessage(e.ID, message.Payload(e.Whole()))
	msg.Metadata.Set(MetadataType, e.Type)
	msg.Metadata.Set(MetadataCreatedAt, domain.FormatTime(e.CreatedAt))
	msg.Metadata.Set(MetadataPosition, strconv.FormatInt(e.Position, 10))
	msg.Metadata.Set(MetadataWorkspaceID, e.WorkspaceID)
	msg.Metadata.Set(MetadataChain, hex.EncodeToString(e.Chain[:]))
	return msg
}
