// This file is a Source that reads an outbox table in a producer's own MySQL or MariaDB, with
// watermill-sql's adapters of a queue. docs/decisions/outbox-in-mysql.md says why not with those of
// offsets.

package ingest

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	wsql "github.com/ThreeDotsLabs/watermill-sql/v4/pkg/sql"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/go-sql-driver/mysql"

	"github.com/ledgerfeed/ledgerfeed/internal/flow"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
)

// mysqlForm is the form of the tables of messages and of dead letters, as docs/guides/outbox/mysql.sql
// shows it. watermill-sql's own form lacks the key, and leaves engine and character set to the server:
// those without transactions, or for few languages, would lose messages.
const mysqlForm = " (\n" +
	"  `offset`   BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,\n" +
	"  uuid       VARCHAR(36) NOT NULL,\n" +
	"  payload    LONGTEXT,\n" +
	"  metadata   LONGTEXT,\n" +
	"  acked      BOOLEAN NOT NULL DEFAULT FALSE,\n" +
	"  created_at TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP,\n" +
	"  KEY acked (acked, `offset`)\n" +
	") ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4"

func isMySQL(scheme string) bool { return scheme == "mysql" || scheme == "mariadb" }

// mysqlConfig reads an address without its topic. It reads no file.
func mysqlConfig(u *url.URL) (*mysql.Config, error) {
	c := mysql.NewConfig()
	c.User = u.User.Username()
	c.Passwd, _ = u.User.Password()
	c.Net, c.Addr, c.TLSConfig = "tcp", net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), "3306")), "preferred"
	if c.DBName = strings.TrimPrefix(u.Path, "/"); c.DBName == "" {
		return nil, errors.New("want the name of a database behind the host, as in mysql://user:password@host/database")
	}
	for name, given := range u.Query() {
		switch value := given[len(given)-1]; {
		case name == "socket" && value != "":
			c.Net, c.Addr = "unix", value
		case name == "tls" && slices.Contains([]string{"true", "false", "preferred", "skip-verify"}, value):
			c.TLSConfig = value
		case name == "ca" && value != "":
		default:
			return nil, fmt.Errorf("the parameter %s is not known, or its value is not: want topic, socket, ca, or tls with true, preferred, skip-verify or false", name)
		}
	}
	c.Timeout = connectTimeout
	c.MaxAllowedPacket = 0 // the server's
	c.Logger = &mysql.NopLogger{}
	// The server ends the session of a machine that has died, and with it the lock.
	c.Params = map[string]string{"autocommit": "1", "time_zone": "'+00:00'", "wait_timeout": fmt.Sprint(int(mysqlHoldTime.Seconds()))}
	c.ParseTime = true
	return c, nil
}

const (
	// connectTimeout bounds a connection attempt.
	connectTimeout = 10 * time.Second
	// mysqlHoldTime is how long a session stays without a statement. It is longer than an append takes.
	mysqlHoldTime = 2 * time.Minute
)

// reading is what may fail of a source.
const reading = "read the outbox"

// mysqlSource is a Source that reads an outbox in MySQL or MariaDB. The rows that are not acked are its
// messages.
type mysqlSource struct {
	db      *sql.DB
	config  *mysql.Config
	topic   string
	schema  wsql.MySQLQueueSchema
	offsets wsql.MySQLQueueOffsetsAdapter
	logger  *slog.Logger
	conn    *sql.Conn // what reads: it has the lock on the outbox; nil: it is to be opened
}

func openMySQL(u *url.URL, topic string, logger *slog.Logger) (*mysqlSource, error) {
	c, err := mysqlConfig(u)
	if err != nil {
		return nil, err
	}
	if file := u.Query().Get("ca"); file != "" {
		text, err := os.ReadFile(file) //nolint:gosec // the setting names it
		if err != nil {
			return nil, fmt.Errorf("read the file that ca names: %w", err)
		}
		c.TLS = &tls.Config{MinVersion: tls.VersionTLS12, ServerName: u.Hostname(), RootCAs: x509.NewCertPool()}
		if !c.TLS.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("the file %s, which ca names, has no certificate in PEM", file)
		}
	}
	connector, err := mysql.NewConnector(c)
	if err != nil {
		return nil, fmt.Errorf("open the database of the outbox: %w", err)
	}
	s := &mysqlSource{db: sql.OpenDB(connector), config: c, topic: topic, logger: logger}
	s.db.SetMaxOpenConns(connections)
	return s, nil
}

// Close closes the connections.
func (s *mysqlSource) Close() {
	s.drop()
	_ = s.db.Close()
}

// drop closes the connection that reads, and so gives the lock up.
func (s *mysqlSource) drop() {
	if s.conn != nil {
		_ = s.conn.Raw(func(any) error { return driver.ErrBadConn })
		s.conn = nil
	}
}

// explain says what could not be done, and why; nil: there is no error.
func (s *mysqlSource) explain(what string, err error) error {
	var (
		answered *mysql.MySQLError
		network  net.Error
		untrue   *tls.CertificateVerificationError
	)
	switch {
	case err == nil:
		return nil
	case errors.As(err, &untrue), errors.Is(err, mysql.ErrNoTLS):
		return s.cannotConnect(err, "correct tls or ca in %s")
	case errors.As(err, &network), errors.Is(err, driver.ErrBadConn), errors.Is(err, mysql.ErrInvalidConn):
		next, cause := pg.NetworkCause(err, "MySQL or MariaDB")
		return s.cannotConnect(cause, next)
	case !errors.As(err, &answered):
		return fmt.Errorf("%s: %w", what, err)
	}
	said := errors.New(answered.Message)
	switch answered.Number {
	case 1045, 1130, 1698: // a wrong password; a host, TLS or a way to sign in that the account may not use
		return s.cannotConnect(said, "correct the user, the password or tls in %s, or let the account sign in from this host")
	case 1044, 1049: // it is not there, or not for this account
		return s.cannotConnect(said, "create the database, give the account rights in it, or correct its name in %s")
	case 1142, 1143: // for a table, or for a column
		return fmt.Errorf("%w: the account in %s needs the rights that docs/operations/ingest.md lists", said, setting)
	case 1054, 1176: // no such column; no such key
		return fmt.Errorf("%w: the outbox's tables need the columns and the key that docs/guides/outbox/mysql.sql shows", said)
	}
	return fmt.Errorf("%s: %w", what, err)
}

func (s *mysqlSource) cannotConnect(cause error, next string) error {
	return pg.ConnectionFailed(s.config.DBName, s.config.Addr, s.config.User, "which "+setting+" names", cause, fmt.Sprintf(next, setting))
}

// hold opens the connection that reads, with the lock, and makes missing tables. False: another process
// has had the lock for a second. The lock spares work. That each message is appended once and in order
// does not depend on it, nor do dead letters.
func (s *mysqlSource) hold(ctx context.Context) (held bool, err error) {
	if s.conn != nil {
		return true, nil
	}
	if s.conn, err = s.db.Conn(ctx); err != nil {
		return false, s.explain(reading, err)
	}
	// Under a lower level, messages of transactions that are open could be read; under a higher one,
	// acking them could lock what producers insert.
	_, err = s.conn.ExecContext(ctx, `SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED`)
	if err == nil {
		err = s.conn.QueryRowContext(ctx, `SELECT COALESCE(GET_LOCK(CONCAT('ledgerfeed ', MD5(CONCAT(DATABASE(), '.', ?))), 1), 0)`, s.topic).Scan(&held)
	}
	if err != nil {
		return false, s.explain(reading, err)
	}
	if !held {
		_ = s.conn.Close() // back to the others
		s.conn = nil
		return false, nil
	}
	return true, s.prepare(ctx)
}

// prepare makes missing tables. It looks first because CREATE TABLE IF NOT EXISTS needs the right to
// create tables even if the table exists.
func (s *mysqlSource) prepare(ctx context.Context) error {
	for topic, payload := range map[string]string{s.topic: "LONGTEXT", s.topic + deadSuffix: "LONGBLOB"} { // a dead letter may be anything
		var (
			there  bool
			others string
		)
		err := s.conn.QueryRowContext(ctx, `
			SELECT COALESCE(SUM(table_name = ?), 0) > 0,
			       COALESCE(GROUP_CONCAT(IF(LEFT(table_name, 18) = 'watermill_offsets_' OR RIGHT(table_name, 5) = '_dead', NULL, table_name) ORDER BY table_name SEPARATOR ' '), '')
			  FROM information_schema.tables WHERE table_schema = DATABASE() AND LEFT(table_name, 10) = 'watermill_'`, "watermill_"+topic).Scan(&there, &others)
		if err == nil && !there {
			_, err = s.conn.ExecContext(ctx, "CREATE TABLE IF NOT EXISTS "+s.schema.MessagesTable(topic)+strings.Replace(mysqlForm, "LONGTEXT", payload, 1))
		}
		if err != nil {
			return s.explain("prepare the outbox", err)
		}
		if !there && topic == s.topic {
			warnMade(ctx, s.logger, s.Name(), others)
		}
	}
	return nil
}

// Next reads the next messages. It locks nothing that a producer uses, and keeps no transaction open. A
// transaction that is open holds nothing up: its messages come when it has committed, whatever their
// offsets are.
func (s *mysqlSource) Next(ctx context.Context) (*Batch, error) {
	held, err := s.hold(ctx)
	var rows []outboxRow
	if held && err == nil {
		rows, err = s.read(ctx)
	}
	if err != nil {
		s.drop()
	}
	if err == nil && len(rows) == 0 {
		flow.Sleep(ctx, pollInterval)
	}
	if len(rows) == 0 {
		return nil, err
	}
	b := newBatch(rows)
	b.Done = func(ctx context.Context, dead []Dead) error {
		err := s.done(ctx, rows, dead)
		if err != nil {
			s.drop()
		}
		return err
	}
	b.Release = func(context.Context) {}
	return b, nil
}

// waiting selects the messages that are not done. Without the key, each read would pass all messages
// that are done.
func (s *mysqlSource) waiting() string {
	return " FROM " + s.schema.MessagesTable(s.topic) + " AS m FORCE INDEX (acked) WHERE m.acked = FALSE"
}

// read returns the next messages.
func (s *mysqlSource) read(ctx context.Context) (list []outboxRow, err error) {
	rows, err := s.conn.QueryContext(ctx, "SELECT m.offset, m.uuid, m.payload, m.metadata"+s.waiting()+fmt.Sprintf(" ORDER BY m.offset LIMIT %d", batchSize)) //nolint:gosec // topicForm bounds the table's name
	if err != nil {
		return nil, s.explain(reading, err)
	}
	defer rows.Close()
	for bytes := 0; bytes < batchBytes && rows.Next(); {
		var row outboxRow
		if row.Row, err = s.schema.UnmarshalMessage(wsql.UnmarshalMessageParams{Row: rows}); err != nil { // of the columns only metadata can be unreadable
			row.fault = fmt.Errorf("the message cannot be read: %w", err)
			if err := rows.Scan(&row.Offset, &row.UUID, &row.Payload, &row.Metadata); err != nil {
				return nil, s.explain(reading, err)
			}
			row.Msg = message.NewMessage(string(row.UUID), row.Payload)
		}
		list, bytes = append(list, row), bytes+len(row.Payload)+len(row.Metadata)
	}
	if err := rows.Err(); err != nil {
		return nil, s.explain(reading, err)
	}
	return list, nil
}

// done acks messages and stores dead letters, in one transaction. It fails if another process has acked
// one of the messages.
func (s *mysqlSource) done(ctx context.Context, rows []outboxRow, dead []Dead) error {
	read := make([]wsql.Row, len(rows))
	for i := range rows {
		read[i] = rows[i].Row
	}
	const what = "note what of the outbox is done"
	return s.inTx(ctx, s.conn, what, func(tx *sql.Tx) error {
		q, err := s.offsets.AckMessageQuery(wsql.AckMessageQueryParams{Topic: s.topic, Rows: read})
		if err != nil {
			return s.explain(what, err)
		}
		result, err := tx.ExecContext(ctx, q.Query, q.Args...)
		if err != nil {
			return s.explain(what, err)
		}
		if acked, err := result.RowsAffected(); err != nil || acked != int64(len(rows)) {
			return cmp.Or(err, errOvertaken)
		}
		publisher, err := wsql.NewPublisher(wsql.TxFromStdSQL(tx), wsql.PublisherConfig{SchemaAdapter: s.schema}, nil)
		for _, letter := range buried(dead) { // one by one: the server bounds the size of a statement
			if err == nil {
				letter.SetContext(ctx)
				err = publisher.Publish(s.topic+deadSuffix, letter)
			}
		}
		return s.explain("keep dead letters of the outbox", err)
	})
}

// beginner is an sql.DB or an sql.Conn.
type beginner interface {
	BeginTx(ctx context.Context, options *sql.TxOptions) (*sql.Tx, error)
}

func (s *mysqlSource) inTx(ctx context.Context, in beginner, what string, do func(*sql.Tx) error) error {
	tx, err := in.BeginTx(ctx, nil)
	if err != nil {
		return s.explain(what, err)
	}
	defer func() { _ = tx.Rollback() }()
	if err := do(tx); err != nil {
		return err
	}
	return s.explain(what, tx.Commit())
}

// Lag counts the messages that wait, up to mostCounted.
func (s *mysqlSource) Lag(ctx context.Context) (int64, error) {
	return s.count(ctx, "SELECT 1"+s.waiting(), mostCounted)
}

// Held is of Source: messages are read in the order of their lines, whatever else is open.
func (*mysqlSource) Held(context.Context, time.Duration) (*Held, error) { return nil, nil }

func (s *mysqlSource) count(ctx context.Context, query string, most int) (n int64, err error) {
	err = s.db.QueryRowContext(ctx, fmt.Sprintf("SELECT COUNT(*) FROM (%s LIMIT %d) AS waiting", query, most)).Scan(&n)
	return n, s.deadError("count messages of the outbox", err)
}

// Name is of DeadLetters.
func (s *mysqlSource) Name() string {
	return s.config.Addr + "/" + s.config.DBName + "/watermill_" + s.topic
}

func (s *mysqlSource) deadTable() string { return s.schema.MessagesTable(s.topic + deadSuffix) }

// Waiting is of DeadLetters.
func (s *mysqlSource) Waiting(ctx context.Context) (int64, error) {
	return s.count(ctx, "SELECT 1 FROM "+s.deadTable(), MostWaiting)
}

// deadError says what could not be done. A missing table is no error.
func (s *mysqlSource) deadError(what string, err error) error {
	if of, ok := errors.AsType[*mysql.MySQLError](err); err == nil || ok && of.Number == 1146 {
		return nil
	}
	return s.explain(what, err)
}

// Letters is of DeadLetters.
func (s *mysqlSource) Letters(ctx context.Context, from LetterID, limit int) ([]Letter, error) {
	if from[0] > 0 { // the id of a letter in PostgreSQL
		return nil, nil
	}
	return s.letters(ctx, "WHERE d.offset >= ? ORDER BY d.offset LIMIT ?", from[1], limit)
}

// Newest is of DeadLetters.
func (s *mysqlSource) Newest(ctx context.Context) (*Letter, error) {
	list, err := s.letters(ctx, "ORDER BY d.offset DESC LIMIT 1")
	if len(list) == 0 {
		return nil, err
	}
	return &list[0], nil
}

func (s *mysqlSource) letters(ctx context.Context, which string, args ...any) ([]Letter, error) {
	const what = "read the dead letters of the outbox"
	rows, err := s.db.QueryContext(ctx, "SELECT 0, d.offset, d.created_at, d.uuid, d.payload, d.metadata FROM "+s.deadTable()+" AS d "+which, args...) //nolint:gosec,rowserrcheck // topicForm bounds the table's name; outboxLetters checks
	if err != nil {
		return nil, s.deadError(what, err)
	}
	defer rows.Close()
	list, err := outboxLetters(rows)
	return list, s.deadError(what, err)
}

// Settle is of DeadLetters. It does all or nothing.
func (s *mysqlSource) Settle(ctx context.Context, gone []LetterID, changed []Letter) error {
	const what = "change the dead letters of the outbox"
	return s.inTx(ctx, s.db, what, func(tx *sql.Tx) error {
		for _, id := range gone {
			if _, err := tx.ExecContext(ctx, "DELETE FROM "+s.deadTable()+" WHERE `offset` = ?", id[1]); err != nil { //nolint:gosec // topicForm bounds the table's name
				return s.explain(what, err)
			}
		}
		for i := range changed {
			metadata, err := changed[i].metadata()
			if err == nil {
				_, err = tx.ExecContext(ctx, "UPDATE "+s.deadTable()+" SET metadata = ? WHERE `offset` = ?", metadata, changed[i].ID[1]) //nolint:gosec // topicForm bounds the table's name
			}
			if err != nil {
				return s.explain(what, err)
			}
		}
		return nil
	})
}
