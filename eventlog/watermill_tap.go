package eventlog

import (
	"errors"
	"fmt"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	wsql "github.com/ThreeDotsLabs/watermill-sql/v4/pkg/sql"

	"github.com/ledgerfeed/ledgerfeed/domain"
)

// TapConfig describes a consumer group that taps the log.
type TapConfig struct {
	// ConsumerGroup names the group: 1 to 64 of A-Z a-z 0-9 _ -. Every group
	// gets every entry; the members of one share them.
	ConsumerGroup string

	// BatchSize is the most entries read, and acknowledged, in one
	// transaction. Default 100.
	BatchSize int

	// PollInterval is the wait at the newest entry. Default 1 s.
	PollInterval time.Duration

	// RetryInterval is the wait after a failed read. Default 1 s.
	RetryInterval time.Duration

	// AckDeadline is how long one message may take; then it is given out
	// again. Default 30 s.
	AckDeadline time.Duration

	// ResendInterval is the wait before a nacked message comes again.
	// Default 1 s.
	ResendInterval time.Duration

	// Logger may be nil.
	Logger watermill.LoggerAdapter
}

// NewTap makes a Watermill subscriber for other consumers in the house: the
// topic is a workspace, and the messages are its entries up to the visible
// position, in order, from the first one on. A workspace may be subscribed
// before it exists.
//
// It is watermill-sql's Subscriber over WatermillSchema and TapOffsets, and
// gives every entry at least once: the group's checkpoint moves when a whole
// batch was acknowledged or one of its messages was not. Handlers are
// therefore idempotent, do their work outside of wsql.TxFromContext (a nack
// does not roll that transaction back) and are quick, because the transaction
// stays open for a batch. What must happen exactly once belongs into a
// Subscriber.
func NewTap(db wsql.Beginner, cfg TapConfig) (*wsql.Subscriber, error) {
	if !domain.IsID(cfg.ConsumerGroup) {
		return nil, fmt.Errorf("eventlog: TapConfig.ConsumerGroup %q: want 1 to 64 of A-Z a-z 0-9 _ -", cfg.ConsumerGroup)
	}
	if cfg.BatchSize < 0 || cfg.PollInterval < 0 || cfg.RetryInterval < 0 || cfg.AckDeadline < 0 || cfg.ResendInterval < 0 {
		return nil, errors.New("eventlog: the sizes and times of a TapConfig are not below 0")
	}
	wcfg := wsql.SubscriberConfig{
		ConsumerGroup:  cfg.ConsumerGroup,
		PollInterval:   cfg.PollInterval,
		RetryInterval:  cfg.RetryInterval,
		ResendInterval: cfg.ResendInterval,
		SchemaAdapter:  WatermillSchema{BatchSize: cfg.BatchSize},
		OffsetsAdapter: TapOffsets{},
	}
	if cfg.AckDeadline > 0 {
		wcfg.AckDeadline = &cfg.AckDeadline
	}
	sub, err := wsql.NewSubscriber(db, wcfg, cfg.Logger)
	if err != nil {
		return nil, fmt.Errorf("make a tap: %w", err)
	}
	return sub, nil
}

// tapPrefix keeps the groups apart from the program's own consumers.
const tapPrefix = "tap:"

// TapOffsets keeps the positions of consumer groups among the log's
// checkpoints, as consumer "tap:" and the group's name.
type TapOffsets struct{}

// makeTapCheckpoint is for the workspace $1 and the consumer $2; it does
// nothing while there is no such workspace.
const makeTapCheckpoint = `
	INSERT INTO log_checkpoint (workspace_id, consumer)
	SELECT w.workspace_id, $2::text FROM workspace w
	 WHERE w.workspace_id = $1
	   AND NOT EXISTS (SELECT FROM log_checkpoint c WHERE c.workspace_id = $1 AND c.consumer = $2::text)
	    ON CONFLICT DO NOTHING`

// NextOffsetQuery locks the group's checkpoint, if no other member has it.
func (TapOffsets) NextOffsetQuery(params wsql.NextOffsetQueryParams) (wsql.Query, error) {
	return wsql.Query{
		Query: `SELECT position FROM log_checkpoint WHERE workspace_id = $1 AND consumer = $2::text FOR UPDATE SKIP LOCKED`,
		Args:  []any{params.Topic, tapPrefix + params.ConsumerGroup},
	}, nil
}

// AckMessageQuery moves the group's checkpoint, never back.
func (TapOffsets) AckMessageQuery(params wsql.AckMessageQueryParams) (wsql.Query, error) {
	return wsql.Query{
		Query: `UPDATE log_checkpoint SET position = $3, moved_at = statement_timestamp()
			 WHERE workspace_id = $1 AND consumer = $2::text AND position < $3`,
		Args: []any{params.Topic, tapPrefix + params.ConsumerGroup, params.LastRow.Offset},
	}, nil
}

// ConsumedMessageQuery returns none.
func (TapOffsets) ConsumedMessageQuery(wsql.ConsumedMessageQueryParams) (wsql.Query, error) {
	return wsql.Query{}, nil
}

// SchemaInitializingQueries returns none: the checkpoints' table is made by
// the migrations.
func (TapOffsets) SchemaInitializingQueries(wsql.OffsetsSchemaInitializingQueriesParams) ([]wsql.Query, error) {
	return nil, nil
}

// BeforeSubscribingQueries makes the group's checkpoint, so that the first
// read finds it.
func (TapOffsets) BeforeSubscribingQueries(params wsql.BeforeSubscribingQueriesParams) ([]wsql.Query, error) {
	return []wsql.Query{{
		Query: makeTapCheckpoint,
		Args:  []any{params.Topic, tapPrefix + params.ConsumerGroup},
	}}, nil
}
