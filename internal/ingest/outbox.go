// This file has the addresses of outboxes, and a Source that reads an outbox table in a producer's own
// PostgreSQL. The producer fills the table with watermill-sql's publisher, in its own transactions. The
// file uses watermill-sql's schema adapters, but not its subscriber, which returns one message at a
// time instead of a batch.

package ingest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/ThreeDotsLabs/watermill"
	wsql "github.com/ThreeDotsLabs/watermill-sql/v4/pkg/sql"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/ledgerfeed/ledgerfeed/internal/flow"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
)

const (
	// batchSize is the most messages read at once, in memory and in one transaction.
	batchSize = 1000

	// pollInterval is the wait when there are no new messages.
	pollInterval = 100 * time.Millisecond

	// connections to the producer's database: one for the batch, one for the lag.
	connections = 2

	// maxUUID is the longest UUID that watermill-sql's tables take.
	maxUUID = 36

	// deadSuffix is appended to a topic to name the topic of its dead letters.
	deadSuffix = "_dead"
)

// group is our consumer group in watermill-sql. The same table may have others.
const group = "ledgerfeed"

var topicForm = regexp.MustCompile(`^[A-Za-z0-9_]{1,40}$`)

// Target is an outbox's address, such as
// postgres://ledgerfeed@shop.example.com/shop?topic=ledgerfeed.
type Target struct {
	URL   string // of the database; with the scheme mysql or mariadb for one of these
	Topic string // of watermill-sql: the table is watermill_<topic>; default ledgerfeed
}

// IsOutbox reports whether an address has the scheme of a database.
func IsOutbox(address string) bool {
	scheme, _, _ := strings.Cut(address, "://")
	return slices.Contains([]string{"postgres", "postgresql"}, scheme) || isMySQL(scheme)
}

// ParseTarget reads an address. The error does not show passwords.
func ParseTarget(address string) (*Target, error) {
	u, err := url.Parse(address)
	if err != nil || !IsOutbox(address) || u.Host == "" && !u.Query().Has("host") && !u.Query().Has("socket") {
		return nil, errors.New("want an address such as postgres://user:password@host/database?topic=ledgerfeed, or mysql://…")
	}
	query := u.Query()
	topic := "ledgerfeed"
	if query.Has("topic") {
		topic = query.Get("topic")
	}
	if !topicForm.MatchString(topic) {
		return nil, errors.New("topic is 1 to 40 of A-Z a-z 0-9 _")
	}
	query.Del("topic")
	u.RawQuery = query.Encode()
	if isMySQL(u.Scheme) {
		if _, err := mysqlConfig(u); err != nil {
			return nil, err
		}
	}
	return &Target{u.String(), topic}, nil
}

// OpenOutbox prepares to read an outbox; it does not connect yet.
func OpenOutbox(ctx context.Context, target *Target, logger *slog.Logger) (Source, error) {
	if u, err := url.Parse(target.URL); err == nil && isMySQL(u.Scheme) {
		return openMySQL(u, target.Topic, logger)
	}
	pool, err := pg.Open(ctx, target.URL, pg.Options{MaxConns: connections, Later: true})
	if err != nil {
		return nil, cmp.Or(explain(err), fmt.Errorf("open the database of the outbox: %w", err))
	}
	return &OutboxSource{pool: pool, topic: target.Topic, logger: logger, schema: wsql.DefaultPostgreSQLSchema{SubscribeBatchSize: batchSize}}, nil
}

// OutboxSource is a Source that reads an outbox in PostgreSQL.
type OutboxSource struct {
	pool    *pg.Pool
	topic   string
	schema  wsql.DefaultPostgreSQLSchema
	offsets wsql.DefaultPostgreSQLOffsetsAdapter
	logger  *slog.Logger
	ready   bool // the tables exist
}

// Close closes the connections.
func (s *OutboxSource) Close() { s.pool.Close() }

// setting has the address of the source.
const setting = "LEDGERFEED_INGEST_URL"

// explain says in words why there is no connection to the producer's database, or which account lacks
// rights there; nil: err has another cause. Its result hides err, so that nobody takes it for an error
// of the log's own database.
func explain(err error) error {
	if refused, ok := errors.AsType[*pgconn.PgError](err); ok && pg.Forbidden(err) {
		return fmt.Errorf("%s: the account in %s needs the rights that docs/operations/ingest.md lists", refused.Message, setting)
	}
	return pg.ExplainConnection(err, setting, "which "+setting+" names")
}

// deadSchema is the schema of the table of dead letters, whose payloads may be anything.
func deadSchema() wsql.DefaultPostgreSQLSchema {
	return wsql.DefaultPostgreSQLSchema{GeneratePayloadType: func(string) string { return "BYTEA" }}
}

// prepare creates the tables and the group's offset if they are missing.
func (s *OutboxSource) prepare(ctx context.Context) error {
	if s.ready {
		return nil
	}
	var (
		made   bool
		others []string
	)
	err := pg.InTx(ctx, s.pool, func(tx pgx.Tx) error {
		if err := tx.QueryRow(ctx, lookForOutboxes, s.schema.MessagesTable(s.topic)).Scan(&made, &others); err != nil {
			return fmt.Errorf("look for the table of the outbox: %w", err)
		}
		for topic, schema := range map[string]wsql.DefaultPostgreSQLSchema{s.topic: s.schema, s.topic + deadSuffix: deadSchema()} {
			queries, err := schema.SchemaInitializingQueries(wsql.SchemaInitializingQueriesParams{Topic: topic})
			if err == nil {
				err = makeMissing(ctx, tx, schema.MessagesTable(topic), queries)
			}
			if err != nil {
				return err
			}
		}
		queries, err := s.offsets.SchemaInitializingQueries(wsql.OffsetsSchemaInitializingQueriesParams{Topic: s.topic})
		if err == nil {
			err = makeMissing(ctx, tx, s.offsets.MessagesOffsetsTable(s.topic), queries)
		}
		if err != nil {
			return err
		}
		first, err := s.offsets.BeforeSubscribingQueries(wsql.BeforeSubscribingQueriesParams{Topic: s.topic, ConsumerGroup: group})
		if err != nil {
			return fmt.Errorf("make the offset of the outbox: %w", err)
		}
		return execute(ctx, tx, first)
	})
	s.ready = err == nil
	if s.ready && made {
		warnMade(ctx, s.logger, s.Name(), strings.Join(others, " "))
	}
	return cmp.Or(explain(err), err)
}

// warnMade says that ingest has made the table of an outbox, and names others.
func warnMade(ctx context.Context, logger *slog.Logger, table, others string) {
	logger.WarnContext(ctx, "made the outbox's table, because there was none of this name; if your product writes to another one, correct topic in "+setting,
		"table", table, "other_outboxes", others)
}

// lookForOutboxes says whether a table is missing, and which tables look like outboxes. Those of
// offsets and dead letters do not.
const lookForOutboxes = `
	SELECT to_regclass($1) IS NULL, ARRAY(
	  SELECT relname::text FROM pg_class
	   WHERE relkind IN ('r', 'p') AND starts_with(relname, 'watermill_') AND NOT starts_with(relname, 'watermill_offsets_')
	     AND right(relname, 5) <> '_dead' AND pg_table_is_visible(oid)
	   ORDER BY relname LIMIT 5)`

// makeMissing creates a table if it does not exist. It checks first because CREATE TABLE IF NOT
// EXISTS needs the right to create tables even if the table exists.
func makeMissing(ctx context.Context, tx pgx.Tx, table string, queries []wsql.Query) error {
	var there bool
	if err := tx.QueryRow(ctx, `SELECT to_regclass($1) IS NOT NULL`, table).Scan(&there); err != nil || there {
		return err
	}
	if err := execute(ctx, tx, queries); err != nil {
		return fmt.Errorf("make the table %s of the outbox: %w", table, err)
	}
	return nil
}

func execute(ctx context.Context, tx pgx.Tx, queries []wsql.Query) error {
	for _, q := range queries {
		if _, err := tx.Exec(ctx, q.Query, q.Args...); err != nil {
			return fmt.Errorf("prepare the outbox: %w", err)
		}
	}
	return nil
}

// Next reads the next messages and locks the group's offset until they are done, so that
// other processes wait.
func (s *OutboxSource) Next(ctx context.Context) (*Batch, error) {
	if err := s.prepare(ctx); err != nil {
		return nil, err
	}
	tx, err := s.pool.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	if err != nil {
		return nil, cmp.Or(explain(err), fmt.Errorf("read the outbox: %w", err))
	}
	rows, faults, err := s.read(ctx, tx)
	if err != nil || len(rows) == 0 {
		pg.Rollback(context.WithoutCancel(ctx), tx)
		if err == nil || overtaken(err) {
			flow.Sleep(ctx, pollInterval)
			return nil, nil
		}
		return nil, err
	}
	b := newBatch(rows, faults)
	b.Done = func(ctx context.Context, dead []Dead) error {
		if err := s.done(ctx, tx, rows, dead); err != nil {
			pg.Rollback(ctx, tx)
			return err
		}
		return nil
	}
	b.Release = func(ctx context.Context) { pg.Rollback(ctx, tx) }
	return b, nil
}

// newBatch is a batch of rows of an outbox, without its functions. faults says by index why some of them
// cannot be read.
func newBatch(rows []wsql.Row, faults map[int]error) *Batch {
	b := &Batch{Messages: make([]Message, len(rows))}
	for i := range rows {
		b.Messages[i] = Message{Message: rows[i].Msg, Headers: rows[i].Metadata, Fault: faults[i]}
	}
	return b
}

// overtaken reports whether another process has moved the offset while this one waited for
// it.
func overtaken(err error) bool { return pg.RolledBack(err) }

// read returns the next messages and, by index, why some of them cannot be read.
func (s *OutboxSource) read(ctx context.Context, tx pgx.Tx) (list []wsql.Row, faults map[int]error, err error) {
	faults = map[int]error{}
	q, err := s.schema.SelectQuery(wsql.SelectQueryParams{Topic: s.topic, ConsumerGroup: group, OffsetsAdapter: s.offsets})
	if err != nil {
		return nil, nil, fmt.Errorf("read the outbox: %w", err)
	}
	rows, err := tx.Query(ctx, q.Query, q.Args...)
	if err != nil {
		return nil, nil, cmp.Or(explain(err), fmt.Errorf("read the outbox: %w", err))
	}
	defer rows.Close()
	for rows.Next() {
		row, err := s.schema.UnmarshalMessage(wsql.UnmarshalMessageParams{Row: rows})
		if err != nil {
			faults[len(list)] = fmt.Errorf("the message cannot be read: %w", err)
			if row, err = bare(rows); err != nil {
				return nil, nil, err
			}
		}
		list = append(list, row)
	}
	if err := rows.Err(); err != nil {
		return nil, nil, fmt.Errorf("read the outbox: %w", err)
	}
	return list, faults, nil
}

// bare reads a message without decoding its metadata, the only part that can be unreadable.
func bare(rows pgx.Rows) (r wsql.Row, err error) {
	var id wsql.XID8
	if err := rows.Scan(&r.Offset, &id, &r.UUID, &r.Payload, &r.Metadata); err != nil {
		return r, fmt.Errorf("read a message of the outbox: %w", err)
	}
	r.Msg = message.NewMessage(string(r.UUID), r.Payload)
	r.ExtraData = map[string]any{"transaction_id": id}
	return r, nil
}

// done stores dead letters and moves the offset, in one transaction.
func (s *OutboxSource) done(ctx context.Context, tx pgx.Tx, rows []wsql.Row, dead []Dead) error {
	if len(dead) > 0 {
		publisher, err := wsql.NewPublisher(wsql.TxFromPgx(tx), wsql.PublisherConfig{SchemaAdapter: deadSchema()}, nil)
		if err == nil {
			err = publisher.Publish(s.topic+deadSuffix, buried(dead)...)
		}
		if err != nil {
			return fmt.Errorf("keep dead letters of the outbox: %w", err)
		}
	}
	q, err := s.offsets.AckMessageQuery(wsql.AckMessageQueryParams{Topic: s.topic, ConsumerGroup: group, LastRow: rows[len(rows)-1], Rows: rows})
	if err != nil {
		return fmt.Errorf("move the offset of the outbox: %w", err)
	}
	if _, err := tx.Exec(ctx, q.Query, q.Args...); err != nil {
		return fmt.Errorf("move the offset of the outbox: %w", err)
	}
	if err := tx.Commit(ctx); err != nil {
		return fmt.Errorf("move the offset of the outbox: %w", err)
	}
	return nil
}

// buried are dead letters as an outbox keeps them.
func buried(dead []Dead) []*message.Message {
	letters := make([]*message.Message, len(dead))
	for i := range dead {
		letters[i] = dead[i].Letter()
		letters[i].UUID = dead[i].Message.UUID
		if len(letters[i].UUID) > maxUUID || !utf8.ValidString(letters[i].UUID) { // the producer created the table differently
			letters[i].UUID = watermill.NewUUID()
		}
	}
	return letters
}

// Lag counts the messages after the offset, up to mostCounted.
func (s *OutboxSource) Lag(ctx context.Context) (int64, error) {
	if !s.ready {
		return -1, nil
	}
	var n int64
	err := s.pool.QueryRow(ctx, `
		SELECT count(*) FROM (
		  SELECT FROM `+s.schema.MessagesTable(s.topic)+` m, `+s.offsets.MessagesOffsetsTable(s.topic)+` o
		   WHERE o.consumer_group = $1
		     AND (m.transaction_id > o.last_processed_transaction_id
		          OR m.transaction_id = o.last_processed_transaction_id AND m."offset" > o.offset_acked)
		   LIMIT $2) AS waiting`, group, mostCounted).Scan(&n)
	if err != nil {
		return -1, fmt.Errorf("count the messages of the outbox: %w", err)
	}
	return n, nil
}

// mostCounted bounds what counting the lag costs the producer's database.
const mostCounted = 100_000
