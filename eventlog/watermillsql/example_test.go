package watermillsql_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	wsql "github.com/ThreeDotsLabs/watermill-sql/v4/pkg/sql"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/eventlog/watermillsql"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

// A producer that uses Watermill writes its own table and the log in one
// transaction, which is the outbox.
func ExamplePublisher() {
	ctx := context.Background()
	pool, stop := testkit.ExamplePool()
	defer stop()
	if _, err := pool.Exec(ctx, `CREATE TABLE timesheet (id text PRIMARY KEY, approved_by text NOT NULL)`); err != nil {
		panic(err)
	}

	approve := func(id, by string) error {
		return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, `INSERT INTO timesheet (id, approved_by) VALUES ($1, $2)`, id, by); err != nil {
				return err
			}
			publisher, err := watermillsql.NewPublisher(wsql.TxFromPgx(tx), time.Now, nil)
			if err != nil {
				return err
			}
			msg := message.NewMessage("approved-"+id, fmt.Appendf(nil, `{"time_entry_id": %q}`, id))
			msg.Metadata.Set(watermillsql.MetadataType, "time_entry.approved")
			return publisher.Publish("acme", msg)
		})
	}

	fmt.Println(approve("te_1", "dana"))
	var faulty *domain.DraftError
	fmt.Println(errors.As(approve("te 2", "dana"), &faulty), faulty) // and no row either
	log, err := eventlog.New(eventlog.Config{Pool: pool, Clock: time.Now})
	if err != nil {
		panic(err)
	}
	entries, err := log.Read(ctx, "acme", 0, 10)
	if err != nil {
		panic(err)
	}
	for _, e := range entries {
		fmt.Println(e.Position, e.ID, e.Type, e.Data)
	}
	// Output:
	// <nil>
	// true data.time_entry_id has the wrong form: want an id: 1 to 64 of A-Z a-z 0-9 _ -
	// 1 approved-te_1 time_entry.approved {"time_entry_id":"te_1"}
}

// Another service on the same database subscribes to the log as a consumer group.
// The entries come once the read models show them.
func ExampleNewSubscriber() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	pool, stop := testkit.ExamplePool()
	defer stop()
	log, err := eventlog.New(eventlog.Config{Pool: pool, Clock: time.Now})
	if err != nil {
		panic(err)
	}
	entry, err := domain.NewDraft("acme", "client.recorded", []byte(`{"client_id": "c_1", "name": "Globex"}`))
	if err != nil {
		panic(err)
	}
	if _, err := log.Append(ctx, entry); err != nil {
		panic(err)
	}
	showAll(ctx, pool) // what the running service does

	subscriber, err := watermillsql.NewSubscriber(wsql.BeginnerFromPgx(pool), watermillsql.SubscriberConfig{ConsumerGroup: "crm"})
	if err != nil {
		panic(err)
	}
	messages, err := subscriber.Subscribe(ctx, "acme")
	if err != nil {
		panic(err)
	}
	msg := <-messages
	fmt.Println(msg.Metadata.Get(watermillsql.MetadataPosition), msg.Metadata.Get(watermillsql.MetadataType), string(msg.Payload))
	msg.Ack()
	if err := subscriber.Close(); err != nil {
		panic(err)
	}
	// Output:
	// 1 client.recorded {"client_id":"c_1","name":"Globex"}
}

func showAll(ctx context.Context, pool testkit.DB) {
	_, err := pool.Exec(ctx, `
		UPDATE log_checkpoint c SET position = h.position FROM log_head h
		 WHERE h.workspace_id = c.workspace_id AND c.consumer = $1`, eventlog.ReadModels)
	if err != nil {
		panic(err)
	}
}
