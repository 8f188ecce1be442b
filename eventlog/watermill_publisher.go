package eventlog

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	wsql "github.com/ThreeDotsLabs/watermill-sql/v4/pkg/sql"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/jackc/pgx/v5/pgconn"
)

// Faults of messages that are not faults of their payload.
var (
	errMessageID        = errors.New("the message's UUID is the entry's id: want 1 to 64 of A-Z a-z 0-9 _ -")
	errMessageCreatedAt = errors.New("metadata created_at has the wrong form: want an RFC 3339 date-time with offset")
)

// refusedState is the SQLSTATE with which log_publish refuses an entry.
const refusedState = "LF001"

// Publisher appends Watermill messages to the log: the topic is the
// workspace, the UUID the entry's id, metadata "type" (and "created_at", for
// history) and the payload its type and data.
//
// It is watermill-sql's Publisher over WatermillSchema. On a transaction
// (wsql.TxFromPgx, wsql.TxFromStdSQL) the entries exist if and only if that
// commits, together with whatever else the producer wrote: a transactional
// outbox without an outbox table. Their workspace stays locked for other
// appends until then, so keep the transaction short, and publish to several
// workspaces in the order of their ids. Those who wait are woken by the commit.
type Publisher struct {
	inner *wsql.Publisher
}

// NewPublisher makes a Publisher on a transaction, a pool
// (wsql.BeginnerFromPgx) or a database (wsql.BeginnerFromStdSQL). The logger
// may be nil.
func NewPublisher(db wsql.ContextExecutor, clock func() time.Time, logger watermill.LoggerAdapter) (*Publisher, error) {
	if clock == nil {
		return nil, errors.New("eventlog: NewPublisher needs a clock")
	}
	inner, err := wsql.NewPublisher(db, wsql.PublisherConfig{SchemaAdapter: WatermillSchema{Clock: clock}}, logger)
	if err != nil {
		return nil, fmt.Errorf("make a publisher: %w", err)
	}
	return &Publisher{inner: inner}, nil
}

// Publish appends the messages to the workspace, all of them or, on an error,
// none. Those that the log holds already are skipped and count as done.
//
// The error is a *RefusedError when the log refuses an entry and a
// *domain.DraftError when a message is none; the first kind has also aborted
// the transaction the Publisher was made on.
func (p *Publisher) Publish(topic string, messages ...*message.Message) error {
	err := p.inner.Publish(topic, messages...)
	if refused := RefusedBy(err); refused != nil {
		return refused
	}
	if err != nil {
		return fmt.Errorf("publish to %s: %w", topic, err)
	}
	return nil
}

// Close waits for the calls under way and refuses further ones. It leaves the
// transaction or pool to its owner.
func (p *Publisher) Close() error {
	if err := p.inner.Close(); err != nil {
		return fmt.Errorf("close the publisher: %w", err)
	}
	return nil
}

// RefusedBy finds the log's refusal in an error of log_publish, for programs
// that use WatermillSchema with a watermill-sql Publisher of their own. It is
// nil for every other error.
func RefusedBy(err error) *RefusedError {
	var known *RefusedError
	if errors.As(err, &known) {
		return known
	}
	var pgErr *pgconn.PgError
	if !errors.As(err, &pgErr) || pgErr.Code != refusedState {
		return nil
	}
	var detail struct {
		Index   int    `json:"index"`
		ID      string `json:"id"`
		Outcome string `json:"outcome"`
		Against string `json:"against"`
	}
	if json.Unmarshal([]byte(pgErr.Detail), &detail) == nil {
		errors.As(outcome(detail.Outcome, detail.Index, detail.ID, detail.Against), &known)
	}
	return known
}
