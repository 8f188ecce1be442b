package watermillsql

import (
	"errors"
	"fmt"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	wsql "github.com/ThreeDotsLabs/watermill-sql/v4/pkg/sql"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/eventlog"
)

// SubscriberConfig describes a member of a consumer group.
type SubscriberConfig struct {
	// ConsumerGroup names the group: 1 to 64 of A-Z a-z 0-9 _ -. Every group
	// gets every entry; the members of one share them.
	ConsumerGroup string

	// BatchSize is the maximum number of entries read, and acknowledged, in one transaction.
	// Default 100.
	BatchSize int

	// PollInterval is the wait at the newest entry. Default 1 s.
	PollInterval time.Duration

	// RetryInterval is the wait after a failed read. Default 1 s.
	RetryInterval time.Duration

	// AckDeadline is how long one message may take before it is delivered again. Default 30 s.
	AckDeadline time.Duration

	// ResendInterval is the wait before a nacked message comes again. Default 1 s.
	ResendInterval time.Duration

	// Logger may be nil.
	Logger watermill.LoggerAdapter
}

// NewSubscriber makes a member of a consumer group, for other services on the same
// database. The topic is a workspace, and the messages are its entries up to the
// visible position, in order, from the first one on. A workspace may be
// subscribed to before it exists.
//
// It is watermill-sql's Subscriber with Schema and Offsets, and delivers every entry at least once:
// the group's checkpoint moves when all messages of a batch were acknowledged, or one of them was
// not acknowledged in time. Handlers must therefore be idempotent, do their work outside
// wsql.TxFromContext (a nack does not roll that transaction back) and be quick, because the
// transaction stays open for the whole batch. Work that must happen exactly once belongs in an
// eventlog.Subscriber.
//
// If the log is no longer the one that the group has read (an older backup was restored, or a
// server without the last commits took over), reads fail and log an error that says so. Otherwise
// they would skip new entries at positions that the group has passed. The group can begin again
// under another name.
func NewSubscriber(db wsql.Beginner, cfg SubscriberConfig) (*wsql.Subscriber, error) {
	if !domain.IsID(cfg.ConsumerGroup) {
		return nil, fmt.Errorf("watermillsql: SubscriberConfig.ConsumerGroup %q: want 1 to 64 of A-Z a-z 0-9 _ -", cfg.ConsumerGroup)
	}
	if cfg.BatchSize < 0 || cfg.PollInterval < 0 || cfg.RetryInterval < 0 || cfg.AckDeadline < 0 || cfg.ResendInterval < 0 {
		return nil, errors.New("watermillsql: the sizes and times of a SubscriberConfig must not be negative")
	}
	wcfg := wsql.SubscriberConfig{
		ConsumerGroup:  cfg.ConsumerGroup,
		PollInterval:   cfg.PollInterval,
		RetryInterval:  cfg.RetryInterval,
		ResendInterval: cfg.ResendInterval,
		SchemaAdapter:  Schema{BatchSize: cfg.BatchSize},
		OffsetsAdapter: Offsets{},
	}
	if cfg.AckDeadline > 0 {
		wcfg.AckDeadline = &cfg.AckDeadline
	}
	sub, err := wsql.NewSubscriber(db, wcfg, cfg.Logger)
	if err != nil {
		return nil, fmt.Errorf("make a subscriber of consumer group %s: %w", cfg.ConsumerGroup, err)
	}
	return sub, nil
}

// groupPrefix keeps the names of consumer groups apart from the consumers of the
// program itself. It is stored, so it must not change.
const groupPrefix = "tap:"

// Offsets keeps the positions of consumer groups among the log's checkpoints. The consumer's name
// is "tap:" and the group's name.
type Offsets struct{}

// makeCheckpoint makes the checkpoint of consumer $2 in workspace $1. It does nothing if there is
// no such workspace.
const makeCheckpoint = `
	WITH new AS MATERIALIZED (
	    SELECT w.workspace_id, $2::text FROM workspace w
	     WHERE w.workspace_id = $1
	       AND NOT EXISTS (SELECT FROM log_checkpoint c WHERE c.workspace_id = $1 AND c.consumer = $2::text))
	INSERT INTO log_checkpoint (workspace_id, consumer)
	SELECT * FROM new
	    ON CONFLICT DO NOTHING`

// NextOffsetQuery reads and locks the group's checkpoint, unless another member holds it.
func (Offsets) NextOffsetQuery(params wsql.NextOffsetQueryParams) (wsql.Query, error) {
	return wsql.Query{
		Query: `SELECT position, chain FROM log_checkpoint WHERE workspace_id = $1 AND consumer = $2::text FOR UPDATE SKIP LOCKED`,
		Args:  []any{params.Topic, groupPrefix + params.ConsumerGroup},
	}, nil
}

// AckMessageQuery moves the group's checkpoint, never back, and stores the first bytes of the log's
// chain there.
func (Offsets) AckMessageQuery(params wsql.AckMessageQueryParams) (wsql.Query, error) {
	return wsql.Query{
		Query: `UPDATE log_checkpoint SET position = $3, moved_at = statement_timestamp(),
			       chain = ` + eventlog.AtPosition(eventlog.ChainStart, "$1", "$3") + `
			 WHERE workspace_id = $1 AND consumer = $2::text AND position < $3`,
		Args: []any{params.Topic, groupPrefix + params.ConsumerGroup, params.LastRow.Offset},
	}, nil
}

// ConsumedMessageQuery returns none.
func (Offsets) ConsumedMessageQuery(wsql.ConsumedMessageQueryParams) (wsql.Query, error) {
	return wsql.Query{}, nil
}

// SchemaInitializingQueries returns none: migrations make the table of
// checkpoints.
func (Offsets) SchemaInitializingQueries(wsql.OffsetsSchemaInitializingQueriesParams) ([]wsql.Query, error) {
	return nil, nil
}

// BeforeSubscribingQueries makes the group's checkpoint, so that the first read
// finds it.
func (Offsets) BeforeSubscribingQueries(params wsql.BeforeSubscribingQueriesParams) ([]wsql.Query, error) {
	return []wsql.Query{{
		Query: makeCheckpoint,
		Args:  []any{params.Topic, groupPrefix + params.ConsumerGroup},
	}}, nil
}
