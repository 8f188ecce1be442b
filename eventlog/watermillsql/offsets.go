package watermillsql

import (
	wsql "github.com/ThreeDotsLabs/watermill-sql/v4/pkg/sql"

	"github.com/ledgerfeed/ledgerfeed/eventlog"
)

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
