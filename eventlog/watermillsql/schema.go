package watermillsql

import (
	"cmp"
	"database/sql"
	"errors"
	"fmt"
	"time"

	wsql "github.com/ThreeDotsLabs/watermill-sql/v4/pkg/sql"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/eventlog"
)

// defaultBatchSize is how many entries a subscriber reads in one transaction.
const defaultBatchSize = 100

// Schema lets watermill-sql's Publisher and Subscriber work on the log itself.
// Most programs use NewPublisher and NewSubscriber, which use it.
type Schema struct {
	// Clock gives the publish time of entries that bring none. Only publishing
	// needs it.
	Clock func() time.Time

	// BatchSize is the most entries read in one transaction. Default 100.
	BatchSize int
}

// InsertQuery checks the messages and gives the statement that appends all of
// them or fails, and with it the producer's transaction.
func (s Schema) InsertQuery(params wsql.InsertQueryParams) (wsql.Query, error) {
	if s.Clock == nil {
		return wsql.Query{}, errors.New("watermillsql: a Schema that publishes needs a Clock")
	}
	drafts := make([]domain.Draft, len(params.Msgs))
	for i, msg := range params.Msgs {
		d, err := draftOf(params.Topic, msg)
		if err != nil {
			return wsql.Query{}, err
		}
		drafts[i] = d
	}
	query, args, err := eventlog.PublishQuery(params.Topic, s.Clock(), drafts)
	if err != nil {
		return wsql.Query{}, err
	}
	return wsql.Query{Query: query, Args: args}, nil
}

// SelectQuery reads the consumer group's next entries, up to the visible
// position, and locks the group's checkpoint until the transaction ends. Another
// member of the group finds nothing meanwhile, instead of waiting with a
// transaction open.
//
// Where the workspace was created after the subscription, this makes the group's
// checkpoint, which the next read finds.
func (s Schema) SelectQuery(params wsql.SelectQueryParams) (wsql.Query, error) {
	next, err := params.OffsetsAdapter.NextOffsetQuery(wsql.NextOffsetQueryParams{
		Topic: params.Topic, ConsumerGroup: params.ConsumerGroup,
	})
	if err != nil {
		return wsql.Query{}, fmt.Errorf("make the query for the checkpoint: %w", err)
	}
	return wsql.Query{
		Query: `
			WITH made AS (` + makeCheckpoint + `), consumer_group AS MATERIALIZED (` + next.Query + `)
			SELECT e.position, e.id, e.type, e.created_at, e.data::text, e.workspace_id
			  FROM consumer_group g
			  JOIN log_checkpoint visible ON visible.workspace_id = $1 AND visible.consumer = '` + eventlog.ReadModels + `'
			  JOIN event_log e ON e.workspace_id = $1
			       AND e.position > g.position AND e.position <= visible.position
			 ORDER BY e.position
			 LIMIT $3`,
		Args: append(next.Args, cmp.Or(s.BatchSize, defaultBatchSize)),
	}, nil
}

// UnmarshalMessage makes a message of an entry.
func (s Schema) UnmarshalMessage(params wsql.UnmarshalMessageParams) (wsql.Row, error) {
	var e domain.Entry
	if err := params.Row.Scan(&e.Position, &e.ID, &e.Type, &e.CreatedAt, &e.Data, &e.WorkspaceID); err != nil {
		return wsql.Row{}, fmt.Errorf("scan an entry: %w", err)
	}
	msg := messageOf(&e)
	return wsql.Row{Offset: e.Position, UUID: []byte(e.ID), Payload: msg.Payload, Msg: msg}, nil
}

// SchemaInitializingQueries returns none: migrations make the log.
func (s Schema) SchemaInitializingQueries(wsql.SchemaInitializingQueriesParams) ([]wsql.Query, error) {
	return nil, nil
}

// SubscribeIsolationLevel is the ordinary level: the lock on the checkpoint is
// all that a consumer group needs.
func (s Schema) SubscribeIsolationLevel() sql.IsolationLevel {
	return sql.LevelReadCommitted
}
