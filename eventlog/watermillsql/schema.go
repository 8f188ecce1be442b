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

	// BatchSize is the maximum number of entries read in one transaction. Default 100.
	BatchSize int
}

// InsertQuery checks the messages and returns the statement that appends all of them. If the
// statement fails, it aborts the producer's transaction.
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
// If the workspace was created after the subscription, the query makes the group's checkpoint,
// which the next read finds.
//
// If the log is not the one that the group has read, the query returns one row that says so. It
// cannot fail instead, because watermill-sql takes an error of the statement for the end of the
// rows.
func (s Schema) SelectQuery(params wsql.SelectQueryParams) (wsql.Query, error) {
	next, err := params.OffsetsAdapter.NextOffsetQuery(wsql.NextOffsetQueryParams{
		Topic: params.Topic, ConsumerGroup: params.ConsumerGroup,
	})
	if err != nil {
		return wsql.Query{}, fmt.Errorf("make the query for the checkpoint: %w", err)
	}
	return wsql.Query{
		Query: `
			WITH made AS (` + makeCheckpoint + `), consumer_group AS MATERIALIZED (` + next.Query + `),
			place AS MATERIALIZED (
				SELECT g.position, h.workspace_id, h.position AS head,
				       g.chain IS NULL AND g.position <= h.position OR ` + eventlog.HoldsMark("h.workspace_id", "g.position", "g.chain") + ` AS held
				  FROM consumer_group g JOIN log_head h ON h.workspace_id = $1)
			(SELECT e.position, e.id, e.type, e.created_at, e.data::text, e.workspace_id, e.chain, d.salt, d.value, p.held, p.head
			  FROM place p
			  JOIN log_checkpoint visible ON visible.workspace_id = $1 AND visible.consumer = '` + eventlog.ReadModels + `'
			  JOIN event_log e ON e.workspace_id = $1
			       AND e.position > p.position AND e.position <= visible.position` + eventlog.Detached + `
			 WHERE p.held
			 ORDER BY e.position
			 LIMIT $3)
			UNION ALL
			SELECT p.position, '', '', now(), '', p.workspace_id, '', NULL, NULL, p.held, p.head FROM place p WHERE NOT p.held`,
		Args: append(next.Args, cmp.Or(s.BatchSize, defaultBatchSize)),
	}, nil
}

// UnmarshalMessage makes a message from an entry. The error is an *eventlog.OtherLogError if the
// log is not the one that the group has read.
func (s Schema) UnmarshalMessage(params wsql.UnmarshalMessageParams) (wsql.Row, error) {
	var (
		e     domain.Entry
		chain []byte
		salt  []byte
		value *string
		held  bool
		head  int64
	)
	if err := params.Row.Scan(&e.Position, &e.ID, &e.Type, &e.CreatedAt, &e.Data, &e.WorkspaceID, &chain, &salt, &value, &held, &head); err != nil {
		return wsql.Row{}, fmt.Errorf("scan an entry: %w", err)
	}
	if !held {
		return wsql.Row{}, &eventlog.OtherLogError{WorkspaceID: e.WorkspaceID, Position: e.Position, Head: head}
	}
	copy(e.Chain[:], chain)
	eventlog.SetDetached(&e, salt, value)
	msg := messageOf(&e)
	return wsql.Row{Offset: e.Position, UUID: []byte(e.ID), Payload: msg.Payload, Msg: msg}, nil
}

// SchemaInitializingQueries returns none: migrations make the log.
func (s Schema) SchemaInitializingQueries(wsql.SchemaInitializingQueriesParams) ([]wsql.Query, error) {
	return nil, nil
}

// SubscribeIsolationLevel returns read committed: the lock on the checkpoint is all that a consumer
// group needs.
func (s Schema) SubscribeIsolationLevel() sql.IsolationLevel {
	return sql.LevelReadCommitted
}
