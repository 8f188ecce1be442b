package watermillsql

import (
	"errors"
	"fmt"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	wsql "github.com/ThreeDotsLabs/watermill-sql/v4/pkg/sql"
	"github.com/ThreeDotsLabs/watermill/message"

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
