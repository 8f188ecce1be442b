package eventlog

import (
	"cmp"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	wsql "github.com/ThreeDotsLabs/watermill-sql/v4/pkg/sql"
	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/ledgerfeed/ledgerfeed/domain"
)

// Metadata of messages that stand for entries. The message's UUID is the
// entry's id, its topic the workspace and its payload the entry's data. The
// log keeps nothing else of a message: other metadata is not stored.
const (
	MetadataType        = "type"         // the entry's type; required to publish
	MetadataCreatedAt   = "created_at"   // the publish time; optional to publish, for history
	MetadataPosition    = "position"     // decimal; set on messages read, ignored when published
	MetadataWorkspaceID = "workspace_id" // set on messages read, ignored when published
)

// defaultTapBatch is how many entries a tap reads in one transaction.
const defaultTapBatch = 100

// WatermillSchema lets watermill-sql's Publisher and Subscriber work on the
// log itself, so that no outbox table and no second copy of the entries is
// needed. Most programs take NewPublisher and NewTap, which use it.
type WatermillSchema struct {
	// Clock gives the publish time of entries that bring none. Only
	// publishing needs it.
	Clock func() time.Time

	// BatchSize is the most entries read in one transaction. Default 100.
	BatchSize int
}

// published is an entry on its way to log_publish.
type published struct {
	Index     int     `json:"index"` // of the message among those of the call
	ID        string  `json:"id"`
	Type      string  `json:"type"`
	CreatedAt *string `json:"created_at,omitempty"`
	Data      string  `json:"data"`
	Public    *string `json:"public,omitempty"`
}

// InsertQuery checks the messages as Append does and gives the statement that
// appends all of them or fails, and with it the producer's transaction. The
// entries travel as one JSON text, which every PostgreSQL driver can send.
func (s WatermillSchema) InsertQuery(params wsql.InsertQueryParams) (wsql.Query, error) {
	if s.Clock == nil {
		return wsql.Query{}, errors.New("eventlog: a WatermillSchema that publishes needs a Clock")
	}
	if len(params.Msgs) > maxAppend {
		return wsql.Query{}, fmt.Errorf("at most %d messages in one call, not %d", maxAppend, len(params.Msgs))
	}
	drafts := make([]domain.Draft, len(params.Msgs))
	for i, msg := range params.Msgs {
		d, err := DraftOf(params.Topic, msg)
		if err != nil {
			return wsql.Query{}, err
		}
		drafts[i] = d
	}
	entries := []published{}
	if len(drafts) > 0 {
		if err := assignIDs(drafts); err != nil {
			return wsql.Query{}, err
		}
		batches, places, err := group(drafts)
		if err != nil {
			return wsql.Query{}, err
		}
		entries = batches[0].published(places[0])
	}
	text, err := json.Marshal(entries)
	if err != nil {
		return wsql.Query{}, fmt.Errorf("write the entries of %s as JSON: %w", params.Topic, err)
	}
	return wsql.Query{
		Query: `SELECT log_publish($1, $2, $3)`,
		Args:  []any{params.Topic, s.Clock(), string(text)},
	}, nil
}

func (b *draftBatch) published(places [][]int) []published {
	entries := make([]published, len(b.ids))
	for i := range entries {
		entries[i] = published{Index: places[i][0], ID: b.ids[i], Type: b.types[i], Data: b.datas[i], Public: b.publics[i]}
		if at := b.created[i]; at != nil {
			text := domain.FormatTime(*at)
			entries[i].CreatedAt = &text
		}
	}
	return entries
}

// DraftOf reads a Watermill message as an entry of the workspace. A message
// without UUID gets its id from the log. The error is a *domain.DraftError
// that says which message has which fault.
func DraftOf(workspaceID string, msg *message.Message) (domain.Draft, error) {
	d, err := domain.NewDraft(workspaceID, msg.Metadata.Get(MetadataType), msg.Payload)
	if err != nil {
		return domain.Draft{}, fmt.Errorf("message %q: %w", msg.UUID, err)
	}
	if msg.UUID != "" && !domain.IsID(msg.UUID) {
		return domain.Draft{}, fmt.Errorf("message %q: %w", msg.UUID, &domain.DraftError{Err: errMessageID})
	}
	d.ID = msg.UUID
	if text, given := msg.Metadata[MetadataCreatedAt]; given {
		at, ok := domain.ParseTime(text)
		if !ok {
			return domain.Draft{}, fmt.Errorf("message %q: %w", msg.UUID, &domain.DraftError{Err: errMessageCreatedAt})
		}
		d.CreatedAt = at
	}
	return d, nil
}

// SelectQuery reads the group's next entries, up to the visible position, and
// locks the group's checkpoint until the transaction ends. Another member of
// the group meanwhile finds nothing rather than wait with a transaction open.
//
// The checkpoint of a workspace that was made after the subscription is made
// here, and found by the next read.
func (s WatermillSchema) SelectQuery(params wsql.SelectQueryParams) (wsql.Query, error) {
	next, err := params.OffsetsAdapter.NextOffsetQuery(wsql.NextOffsetQueryParams{
		Topic: params.Topic, ConsumerGroup: params.ConsumerGroup,
	})
	if err != nil {
		return wsql.Query{}, fmt.Errorf("make the query for the checkpoint: %w", err)
	}
	return wsql.Query{
		Query: `
			WITH made AS (` + makeTapCheckpoint + `), tap AS MATERIALIZED (` + next.Query + `)
			SELECT e.position, e.id, e.type, e.created_at, e.data::text, e.workspace_id
			  FROM tap
			  JOIN log_checkpoint visible ON visible.workspace_id = $1 AND visible.consumer = '` + ReadModels + `'
			  JOIN event_log e ON e.workspace_id = $1
			       AND e.position > tap.position AND e.position <= visible.position
			 ORDER BY e.position
			 LIMIT $3`,
		Args: append(next.Args, cmp.Or(s.BatchSize, defaultTapBatch)),
	}, nil
}

// UnmarshalMessage makes a message of an entry.
func (s WatermillSchema) UnmarshalMessage(params wsql.UnmarshalMessageParams) (wsql.Row, error) {
	var (
		position             int64
		id, typ, data, space string
		createdAt            time.Time
	)
	if err := params.Row.Scan(&position, &id, &typ, &createdAt, &data, &space); err != nil {
		return wsql.Row{}, fmt.Errorf("scan an entry: %w", err)
	}
	msg := message.NewMessage(id, message.Payload(data))
	msg.Metadata.Set(MetadataType, typ)
	msg.Metadata.Set(MetadataCreatedAt, domain.FormatTime(createdAt))
	msg.Metadata.Set(MetadataPosition, strconv.FormatInt(position, 10))
	msg.Metadata.Set(MetadataWorkspaceID, space)
	return wsql.Row{Offset: position, UUID: []byte(id), Payload: msg.Payload, Msg: msg}, nil
}

// SchemaInitializingQueries returns none: the log is made by the migrations.
func (s WatermillSchema) SchemaInitializingQueries(wsql.SchemaInitializingQueriesParams) ([]wsql.Query, error) {
	return nil, nil
}

// SubscribeIsolationLevel is the ordinary level: the row lock on the
// checkpoint is all that a group needs.
func (s WatermillSchema) SubscribeIsolationLevel() sql.IsolationLevel {
	return sql.LevelReadCommitted
}
