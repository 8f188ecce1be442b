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
	"math"
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
	rows, err := s.read(ctx, tx)
	if err == nil && len(rows) == 0 {
		err = s.mustBeOfThisServer(ctx, tx)
	}
	if err == nil && len(rows) > 0 {
		rows, err = s.inOrder(ctx, tx, rows)
	}
	if err != nil || len(rows) == 0 {
		pg.Rollback(context.WithoutCancel(ctx), tx)
		if err == nil || overtaken(err) {
			flow.Sleep(ctx, pollInterval)
			return nil, nil
		}
		return nil, err
	}
	last := rows[len(rows)-1]
	slices.SortFunc(rows, func(x, y outboxRow) int { return cmp.Compare(x.Offset, y.Offset) })
	b := newBatch(rows)
	b.Done = func(ctx context.Context, dead []Dead) error {
		if err := s.done(ctx, tx, last.Row, dead); err != nil {
			pg.Rollback(ctx, tx)
			return err
		}
		return nil
	}
	b.Release = func(ctx context.Context) { pg.Rollback(ctx, tx) }
	return b, nil
}

// outboxRow is a row of an outbox. fault says why it cannot be read; nil: it can.
type outboxRow struct {
	wsql.Row
	fault error
}

// newBatch is a batch of rows of an outbox, without its functions.
func newBatch(rows []outboxRow) *Batch {
	b := &Batch{Messages: make([]Message, len(rows))}
	for i := range rows {
		b.Messages[i] = Message{Message: rows[i].Msg, Headers: rows[i].Metadata, Fault: rows[i].fault}
	}
	return b
}

// overtaken reports whether another process has moved the offset while this one waited for
// it.
func overtaken(err error) bool { return pg.RolledBack(err) }

// read returns the next messages of transactions that have no older one beside them, in the order of
// their transactions.
func (s *OutboxSource) read(ctx context.Context, tx pgx.Tx) (list []outboxRow, err error) {
	q, err := s.schema.SelectQuery(wsql.SelectQueryParams{Topic: s.topic, ConsumerGroup: group, OffsetsAdapter: s.offsets})
	if err != nil {
		return nil, fmt.Errorf("read the outbox: %w", err)
	}
	rows, err := tx.Query(ctx, q.Query, q.Args...)
	if err != nil {
		return nil, cmp.Or(explain(err), fmt.Errorf("read the outbox: %w", err))
	}
	defer rows.Close()
	for rows.Next() {
		var r outboxRow
		if r.Row, err = s.schema.UnmarshalMessage(wsql.UnmarshalMessageParams{Row: rows}); err != nil {
			r.fault = fmt.Errorf("the message cannot be read: %w", err)
			if r.Row, err = bare(rows); err != nil {
				return nil, err
			}
		}
		list = append(list, r)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("read the outbox: %w", err)
	}
	return list, nil
}

// lookAhead is how many messages behind a batch are looked at for one that was inserted before it.
const lookAhead = 10_000

// inOrder returns the first of the rows that were read: so many that no message behind them was inserted
// before one of them. A transaction has its id from its first change on. If another one with a higher id
// changes a row first, commits, and the older one changes the same row after it, their messages have
// the order of the changes in their offsets alone.
func (s *OutboxSource) inOrder(ctx context.Context, tx pgx.Tx, rows []outboxRow) ([]outboxRow, error) {
	last := &rows[len(rows)-1]
	var read, waiting *int64 // the lowest offset behind these rows of a message that can be read now, and of one that cannot yet
	err := tx.QueryRow(ctx, `
		SELECT min("offset") FILTER (WHERE ended), min("offset") FILTER (WHERE NOT ended) FROM (
		  SELECT "offset", transaction_id < pg_snapshot_xmin(pg_current_snapshot()) AS ended FROM `+s.schema.MessagesTable(s.topic)+`
		   WHERE (transaction_id, "offset") > ($1, $2) ORDER BY transaction_id, "offset" LIMIT $3) AS behind`,
		last.ExtraData["transaction_id"], last.Offset, lookAhead).Scan(&read, &waiting)
	if err != nil {
		return nil, fmt.Errorf("read the outbox: %w", err)
	}
	offsets := make([]int64, len(rows))
	for i := range rows {
		offsets[i] = rows[i].Offset
	}
	return rows[:inOrder(offsets, orMost(read), orMost(waiting))], nil
}

func orMost(offset *int64) int64 {
	if offset == nil {
		return math.MaxInt64
	}
	return *offset
}

// inOrder returns how many of the first messages can be appended in the order of their offsets. read and
// waiting are as in OutboxSource.inOrder. None can if a message has to come before them that cannot be
// read until a transaction ends. If what has to come before them is further away, they are all
// appended.
func inOrder(offsets []int64, read, waiting int64) int {
	highest := make([]int64, len(offsets)) // of the first ones
	for i, offset := range offsets {
		highest[i] = offset
		if i > 0 {
			highest[i] = max(offset, highest[i-1])
		}
	}
	behind := min(read, waiting)
	for n := len(offsets); n > 0; n-- {
		if highest[n-1] < behind {
			return n
		}
		behind = min(behind, offsets[n-1])
	}
	if waiting < highest[len(offsets)-1] {
		return 0
	}
	return len(offsets)
}

// mustBeOfThisServer returns an error if the outbox has transaction ids that this server has not given
// out. New messages would get lower ids, and look as if they had been read.
func (s *OutboxSource) mustBeOfThisServer(ctx context.Context, tx pgx.Tx) error {
	var ahead bool
	messages, offsets := s.schema.MessagesTable(s.topic), s.offsets.MessagesOffsetsTable(s.topic)
	err := tx.QueryRow(ctx, `
		SELECT EXISTS (SELECT FROM (SELECT transaction_id FROM `+messages+` ORDER BY transaction_id DESC LIMIT 1) AS newest
		                WHERE transaction_id >= pg_snapshot_xmax(pg_current_snapshot()))
		    OR EXISTS (SELECT FROM `+offsets+` WHERE consumer_group = $1 AND last_processed_transaction_id >= pg_snapshot_xmax(pg_current_snapshot()))`, group).Scan(&ahead)
	if err != nil {
		return fmt.Errorf("read the outbox: %w", err)
	}
	if !ahead {
		return nil
	}
	return fmt.Errorf("the outbox has transaction ids that this server has not reached, so messages could be left out: it comes from a dump, or the server lost its newest transactions. "+
		"Run BEGIN; UPDATE %s SET transaction_id = pg_current_xact_id(); UPDATE %s SET last_processed_transaction_id = '0' WHERE consumer_group = '%s'; COMMIT. Then all messages are read again, and the log skips those that it has", messages, offsets, group)
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
func (s *OutboxSource) done(ctx context.Context, tx pgx.Tx, last wsql.Row, dead []Dead) error {
	if len(dead) > 0 {
		publisher, err := wsql.NewPublisher(wsql.TxFromPgx(tx), wsql.PublisherConfig{SchemaAdapter: deadSchema()}, nil)
		if err == nil {
			err = publisher.Publish(s.topic+deadSuffix, buried(dead)...)
		}
		if err != nil {
			return fmt.Errorf("keep dead letters of the outbox: %w", err)
		}
	}
	q, err := s.offsets.AckMessageQuery(wsql.AckMessageQueryParams{Topic: s.topic, ConsumerGroup: group, LastRow: last})
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

// Held is a transaction that keeps messages of an outbox waiting.
type Held struct {
	Messages int64     `json:"messages"` // that wait, up to mostCounted
	Session  int       `json:"session"`  // the process id of its session in the producer's server
	Since    time.Time `json:"since"`    // when it began
}

// Held is of Source. Messages are read in the order of their transactions, so each of them waits for every
// older transaction of the server that has written something. An account without pg_read_all_stats does
// not see when those of others began, and is told of none.
func (s *OutboxSource) Held(ctx context.Context, atLeast time.Duration) (*Held, error) {
	h := &Held{}
	err := s.pool.QueryRow(ctx, `
		SELECT pid, xact_start FROM pg_stat_activity
		 WHERE backend_xid IS NOT NULL AND xact_start < clock_timestamp() - $1::interval
		 ORDER BY age(backend_xid) DESC LIMIT 1`, atLeast).Scan(&h.Session, &h.Since)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	if err == nil {
		h.Since = h.Since.UTC()
		err = s.pool.QueryRow(ctx, `
			SELECT count(*) FROM (
			  SELECT FROM `+s.schema.MessagesTable(s.topic)+` WHERE transaction_id >= pg_snapshot_xmin(pg_current_snapshot()) LIMIT $1) AS waiting`, mostCounted).Scan(&h.Messages)
	}
	if err != nil {
		return nil, s.deadError("look for what holds up", err)
	}
	if h.Messages == 0 {
		return nil, nil
	}
	return h, nil
}

// mostCounted bounds what counting the lag costs the producer's database.
const mostCounted = 100_000
