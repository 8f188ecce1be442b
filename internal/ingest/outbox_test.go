package ingest_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	wsql "github.com/ThreeDotsLabs/watermill-sql/v4/pkg/sql"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ledgerfeed/ledgerfeed/internal/ingest"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

// producer has a database of its own, with an outbox and a table of its work.
type producer struct {
	t    *testing.T
	url  string
	pool testkit.DB
}

func newProducer(t *testing.T) *producer {
	t.Helper()
	p := &producer{t: t, url: testkit.EmptyDatabase(t)}
	p.pool = testkit.Must(pgxpool.New(context.Background(), p.url))(t)
	t.Cleanup(p.pool.Close)
	schema := wsql.DefaultPostgreSQLSchema{}
	for _, q := range testkit.Must(schema.SchemaInitializingQueries(wsql.SchemaInitializingQueriesParams{Topic: "ledgerfeed"}))(t) {
		testkit.Must(p.pool.Exec(t.Context(), q.Query, q.Args...))(t)
	}
	return p
}

// publish writes messages to the outbox in one transaction, with watermill-sql's publisher.
func (p *producer) publish(commit bool, messages ...*message.Message) {
	p.t.Helper()
	tx := testkit.Must(p.pool.Begin(p.t.Context()))(p.t)
	defer func() { _ = tx.Rollback(context.Background()) }()
	publisher := testkit.Must(wsql.NewPublisher(wsql.TxFromPgx(tx), wsql.PublisherConfig{SchemaAdapter: wsql.DefaultPostgreSQLSchema{}}, nil))(p.t)
	testkit.Must(0, publisher.Publish("ledgerfeed", messages...))(p.t)
	if commit {
		testkit.Must(0, tx.Commit(p.t.Context()))(p.t)
	}
}

func (p *producer) source() ingest.Source {
	p.t.Helper()
	return testkit.Must(ingest.OpenOutbox(context.Background(), testkit.Must(ingest.ParseTarget(p.url))(p.t), testkit.Discard()))(p.t)
}

func msg(id, payload string) *message.Message { return message.NewMessage(id, []byte(payload)) }

func TestOutboxIsAppendedOnceAndInOrder(t *testing.T) {
	t.Parallel()
	n, p := install(t), newProducer(t)
	_, stop := n.start(p.source(), n.metrics)
	n.start(p.source(), nil) // another process
	want := map[string][]string{}
	for i := range 300 {
		w := fmt.Sprintf("w%d", i%7)
		id := fmt.Sprintf("e%d", i)
		want[w] = append(want[w], id)
		p.publish(true, msg(id, line(w, id)), msg(id+"x", line(w, id))) // twice
		p.publish(false, msg("never", line(w, "never")))
		if i == 150 {
			stop()
		}
	}
	for w, ids := range want {
		n.eventuallyHolds(w, ids)
	}
}

// open begins a transaction that has an id. Its insert writes a message, and end commits it.
func (p *producer) open() (insert func(id string), end func()) {
	p.t.Helper()
	tx := testkit.Must(p.pool.Begin(p.t.Context()))(p.t)
	p.t.Cleanup(func() { _ = tx.Rollback(context.Background()) })
	testkit.Must(tx.Exec(p.t.Context(), `SELECT pg_current_xact_id()`))(p.t)
	insert = func(id string) {
		testkit.Must(tx.Exec(p.t.Context(), `INSERT INTO watermill_ledgerfeed (uuid, payload, metadata, transaction_id) VALUES ($1, $2, '{}', pg_current_xact_id())`, id, line("w", id)))(p.t)
	}
	return insert, func() { testkit.Must(0, tx.Commit(p.t.Context()))(p.t) }
}

// next reads a batch as often as a message that is not held up needs at most.
func next(t *testing.T, s ingest.Source) (ids []string) {
	t.Helper()
	for range 3 {
		b := testkit.Must(s.Next(t.Context()))(t)
		if b == nil {
			continue
		}
		for i := range b.Messages {
			ids = append(ids, b.Messages[i].UUID)
		}
		b.Release(t.Context())
		return ids
	}
	return nil
}

// TestOutboxKeepsTheOrderOfChanges: when two transactions change a row one after the other, their
// messages have this order, whichever of them began first, and also if one of them must be waited for.
func TestOutboxKeepsTheOrderOfChanges(t *testing.T) {
	t.Parallel()
	n, p := install(t), newProducer(t)
	insertA, endA := p.open()
	_, endBetween := p.open()
	insertB, endB := p.open()
	insertB("older")
	endB()
	insertA("newer")
	endA()
	source := p.source()
	defer source.Close()
	if ids := next(t, source); ids != nil {
		t.Errorf("%v are read while the message before them cannot be", ids)
	}
	endBetween()
	n.start(p.source(), nil)
	n.eventuallyHolds("w", []string{"older", "newer"})
}

// TestDeletingWhatWasRead: the statement of docs/operations/ingest.md deletes what was read and nothing
// else, whatever the order of offsets is.
func TestDeletingWhatWasRead(t *testing.T) {
	t.Parallel()
	n, p := install(t), newProducer(t)
	insertFirst, endFirst := p.open()
	_, endBetween := p.open()
	insertLast, endLast := p.open()
	insertLast("last") // at the lower offset, and committed after the other one was read
	insertFirst("first")
	endFirst()
	n.start(p.source(), nil)
	n.eventuallyHolds("w", []string{"first"})
	endLast()
	statement := regexp.MustCompile("(?s)```sql\n(DELETE FROM watermill_ledgerfeed .*?)```").FindSubmatch(testkit.Must(os.ReadFile("../../docs/operations/ingest.md"))(t))
	deleted := func() int64 { return testkit.Must(p.pool.Exec(t.Context(), string(statement[1])))(t).RowsAffected() }
	testkit.Eventually(t, func() error { // the offset moves after the entry is in the log
		if deleted() == 0 {
			return errors.New("nothing was deleted")
		}
		return nil
	})
	if n := deleted(); n != 0 {
		t.Errorf("%d messages that nobody has read were deleted", n)
	}
	endBetween()
	n.eventuallyHolds("w", []string{"first", "last"})
}

// TestOutboxOfAnotherServer: an outbox with transaction ids that its server has not reached is an error
// that says what to do, and after that nothing is lost or doubled.
func TestOutboxOfAnotherServer(t *testing.T) {
	t.Parallel()
	n, p := install(t), newProducer(t)
	_, stop := n.start(p.source(), nil)
	p.publish(true, msg("a", line("w", "a")))
	n.eventuallyHolds("w", []string{"a"})
	stop()
	testkit.Must(p.pool.Exec(t.Context(), `UPDATE watermill_ledgerfeed SET transaction_id = '1000000000'`))(t) // as a dump brings them
	testkit.Must(p.pool.Exec(t.Context(), `UPDATE watermill_offsets_ledgerfeed SET last_processed_transaction_id = '1000000000'`))(t)
	p.publish(true, msg("b", line("w", "b")))
	source := p.source()
	t.Cleanup(source.Close)
	_, err := source.Next(t.Context())
	if err == nil || !strings.Contains(err.Error(), "transaction ids that this server has not reached") {
		t.Fatalf("the error is %v", err)
	}
	repair := regexp.MustCompile(`BEGIN; .*; COMMIT`).FindString(err.Error())
	testkit.Must(p.pool.Exec(t.Context(), repair))(t)
	n.start(source, nil)
	n.eventuallyHolds("w", []string{"a", "b"})
}

// TestWhatHoldsUp: a transaction that is open keeps the messages of later ones waiting, and is named.
func TestWhatHoldsUp(t *testing.T) {
	t.Parallel()
	n, p := install(t), newProducer(t)
	n.start(p.source(), nil)
	p.publish(true, msg("a", line("w", "a")))
	n.eventuallyHolds("w", []string{"a"})
	source := p.source()
	t.Cleanup(source.Close)
	open := testkit.Must(p.pool.Begin(t.Context()))(t)
	defer func() { _ = open.Rollback(context.Background()) }()
	testkit.Must(open.Exec(t.Context(), `SELECT pg_current_xact_id()`))(t)
	p.publish(true, msg("b", line("w", "b")))
	if h, err := source.Held(t.Context(), time.Hour); err != nil || h != nil {
		t.Errorf("for an hour: %+v, %v", h, err)
	}
	// Another test's transaction on this server may be older.
	h := testkit.Must(source.Held(t.Context(), 0))(t)
	if h == nil || h.Messages != 1 || h.Session == 0 || h.Since.IsZero() {
		t.Errorf("%+v", h)
	}
	testkit.Must(0, open.Commit(t.Context()))(t)
	n.eventuallyHolds("w", []string{"a", "b"})
}

func TestMessageWithoutAnIDHasItsUUID(t *testing.T) {
	t.Parallel()
	n, p := install(t), newProducer(t)
	n.start(p.source(), nil)
	p.publish(true, msg("uuid-1", strings.Replace(line("w", "x"), `"id":"x",`, "", 1)))
	n.eventuallyHolds("w", []string{"uuid-1"})
}

func TestPoisonBecomesADeadLetterAndHoldsNothing(t *testing.T) {
	t.Parallel()
	n, p := install(t), newProducer(t)
	p.publish(true, msg("m1", line("w", "a")), msg("m2", `{"workspace_id":"w"}`), msg("m3", line("w", "b")), msg("m4", `[]`),
		msg("m5", strings.Replace(line("w", "a"), "i-a", "other", 1)), msg("no id!", strings.Replace(line("w", "x"), `"id":"x",`, "", 1)),
		msg("m7", strings.Replace(line("w", "old"), `"type"`, `"created_at":"2020-01-01T00:00:00.000Z","type"`, 1)), msg("m8", line("w", "c")))
	testkit.Must(p.pool.Exec(t.Context(), `INSERT INTO watermill_ledgerfeed (uuid, payload, metadata, transaction_id) VALUES ('m9', $1, '{"a":{"b":1}}', pg_current_xact_id())`, line("w", "z")))(t)
	p.publish(true, msg("m10", line("w", "d")))
	n.start(p.source(), n.metrics)
	n.eventuallyHolds("w", []string{"a", "b", "c", "d"})
	want := map[string]string{
		"m2": "type is missing", "m4": "want an entry: one JSON object", "m5": "holds this id with other content", "no id!": "the entry has no id",
		"m7": "before the workspace's newest entry", "m9": "the message cannot be read",
	}
	testkit.Eventually(t, func() error { return p.deadAre(want) })
}

// TestEntriesThatTheDatabaseAloneRefuses: what this program takes and the database does not, such as
// after an upgrade of another process, is a dead letter. It holds nothing up.
func TestEntriesThatTheDatabaseAloneRefuses(t *testing.T) {
	t.Parallel()
	n, p := install(t), newProducer(t)
	testkit.Must(n.pool.Exec(t.Context(), `ALTER TABLE event_log ADD CONSTRAINT later CHECK (id NOT LIKE 'unfit%') NOT VALID`))(t)
	want := map[string]string{"unfit3": "later", "unfit4": "later", "unfit20": "later"}
	var (
		ids []string
		all []*message.Message
	)
	for i := range 40 {
		id := fmt.Sprint("e", i)
		if unfit := fmt.Sprint("unfit", i); want[unfit] != "" {
			id = unfit
		} else {
			ids = append(ids, id)
		}
		all = append(all, msg(id, line("w", id)), msg("x"+id, line("x", "x"+id)))
	}
	p.publish(true, all...)
	n.start(p.source(), nil)
	n.eventuallyHolds("w", ids)
	testkit.Eventually(t, func() error { return p.deadAre(want) })
}

// deadAre looks whether the dead letters are those that are wanted, by UUID and a part of
// the reason.
func (p *producer) deadAre(want map[string]string) error {
	rows, err := p.pool.Query(p.t.Context(), `SELECT uuid, metadata::text FROM watermill_ledgerfeed_dead ORDER BY "offset"`)
	if err != nil {
		return err
	}
	got := map[string]string{}
	var id, metadata string
	if _, err := pgx.ForEachRow(rows, []any{&id, &metadata}, func() error {
		var m map[string]string
		err := json.Unmarshal([]byte(metadata), &m)
		if _, twice := got[id]; twice {
			err = fmt.Errorf("%s is there twice", id)
		}
		got[id] = m[ingest.MetadataReason]
		return err
	}); err != nil {
		return err
	}
	for id, reason := range want {
		if !strings.Contains(got[id], reason) {
			return fmt.Errorf("the reason of %s is %q, want %q", id, got[id], reason)
		}
	}
	if len(got) != len(want) {
		return fmt.Errorf("dead letters %v", got)
	}
	return nil
}

// TestOutboxAfterACrash ends the connections of the reader between its appends and its
// commit, as the end of a process does, at every batch for a while.
func TestOutboxAfterACrash(t *testing.T) {
	t.Parallel()
	n, p := install(t), newProducer(t)
	i, _ := n.start(crashing{p.source(), new(int)}, nil)
	var want []string
	for k := range 60 {
		id := fmt.Sprintf("e%d", k)
		want = append(want, id)
		p.publish(true, msg("m"+id, line("w", id)), msg("bad"+id, `{}`))
	}
	n.eventuallyHolds("w", want)
	dead := map[string]string{}
	for _, id := range want {
		dead["bad"+id] = "type"
	}
	testkit.Eventually(t, func() error { return p.deadAre(dead) })
	testkit.Eventually(t, func() error { return i.Probe(t.Context()) })
}

// crashing is a source whose every second commit fails.
type crashing struct {
	ingest.Source

	n *int
}

func (c crashing) Next(ctx context.Context) (*ingest.Batch, error) {
	b, err := c.Source.Next(ctx)
	if b == nil {
		return nil, err
	}
	*c.n++
	if *c.n%2 == 1 && *c.n < 20 {
		release := b.Release
		b.Done = func(ctx context.Context, _ []ingest.Dead) error {
			release(ctx)
			return fmt.Errorf("the process ends")
		}
	}
	return b, nil
}

func TestAddressOfAnOutbox(t *testing.T) {
	t.Parallel()
	target := testkit.Must(ingest.ParseTarget("postgres://u:p@shop.example.com:5433/shop?topic=billing&sslmode=require"))(t)
	if target.Topic != "billing" || target.URL != "postgres://u:p@shop.example.com:5433/shop?sslmode=require" {
		t.Errorf("%+v", target)
	}
	target = testkit.Must(ingest.ParseTarget("mysql://u:p@shop.example.com/shop?topic=billing&tls=true"))(t)
	if target.Topic != "billing" || target.URL != "mysql://u:p@shop.example.com/shop?tls=true" {
		t.Errorf("%+v", target)
	}
	for _, wrong := range []string{
		"mysql://u:hunter2@x", "mysql://u:hunter2@x/", "mysql:///y", "mysql://u:hunter2@x/y?sslmode=require", "mysql://u:hunter2@x/y?tls=1", "mysql://u:hunter2@x/y?ca=",
		"mariadb://u:hunter2@x/y?topic=a-b", "sqlite://u:hunter2@x/y",
	} {
		if _, err := ingest.ParseTarget(wrong); err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", wrong, err)
		}
	}
	for _, wrong := range []string{"", "postgres://", "postgres://u:hunter2@x/y?topic=a-b", "postgres://u:hunter2@x/y?topic=", "://"} {
		if _, err := ingest.ParseTarget(wrong); err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", wrong, err)
		}
	}
}
