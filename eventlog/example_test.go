package eventlog_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	wsql "github.com/ThreeDotsLabs/watermill-sql/v4/pkg/sql"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/eventlog"
)

// A producer writes its own table and the log in one transaction: there is
// never a row without its entry, nor an entry without its row.
func ExampleLog_AppendTx() {
	ctx := context.Background()
	pool, stop := exampleDatabase()
	defer stop()
	log, err := eventlog.New(eventlog.Config{Pool: pool, Clock: time.Now})
	if err != nil {
		panic(err)
	}

	approve := func(id, by string) error {
		return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, `INSERT INTO timesheet (id, approved_by) VALUES ($1, $2)`, id, by); err != nil {
				return err
			}
			entry, err := domain.NewDraft("acme", "time_entry.approved", fmt.Appendf(nil, `{"time_entry_id": %q}`, id))
			if err != nil {
				return err
			}
			entry.ID = "approved-" + id // the same approval is never appended twice
			_, err = log.AppendTx(ctx, tx, entry)
			if err == nil && by == "" {
				return errors.New("nobody approved it") // takes the entry back with the row
			}
			return err
		})
	}

	fmt.Println(approve("te_1", "dana"))
	fmt.Println(approve("te_2", ""))
	printLog(ctx, pool, log)
	// Output:
	// <nil>
	// nobody approved it
	// 1 timesheets
	// 1 approved-te_1 time_entry.approved {"time_entry_id":"te_1"}
}

// The same through Watermill, for producers that speak it already. The
// transaction is the outbox.
func ExamplePublisher() {
	ctx := context.Background()
	pool, stop := exampleDatabase()
	defer stop()

	approve := func(id, by string) error {
		return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, `INSERT INTO timesheet (id, approved_by) VALUES ($1, $2)`, id, by); err != nil {
				return err
			}
			publisher, err := eventlog.NewPublisher(wsql.TxFromPgx(tx), time.Now, nil)
			if err != nil {
				return err
			}
			msg := message.NewMessage("approved-"+id, fmt.Appendf(nil, `{"time_entry_id": %q}`, id))
			msg.Metadata.Set(eventlog.MetadataType, "time_entry.approved")
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
	printLog(ctx, pool, log)
	// Output:
	// <nil>
	// true data.time_entry_id has the wrong form: want an id: 1 to 64 of A-Z a-z 0-9 _ -
	// 1 timesheets
	// 1 approved-te_1 time_entry.approved {"time_entry_id":"te_1"}
}

// Another consumer in the house taps the log with Watermill. The entries come
// once the read models show them.
func ExampleNewTap() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	pool, stop := exampleDatabase()
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

	tap, err := eventlog.NewTap(wsql.BeginnerFromPgx(pool), eventlog.TapConfig{ConsumerGroup: "crm"})
	if err != nil {
		panic(err)
	}
	messages, err := tap.Subscribe(ctx, "acme")
	if err != nil {
		panic(err)
	}
	msg := <-messages
	fmt.Println(msg.Metadata.Get(eventlog.MetadataPosition), msg.Metadata.Get(eventlog.MetadataType), string(msg.Payload))
	msg.Ack()
	if err := tap.Close(); err != nil {
		panic(err)
	}
	// Output:
	// 1 client.recorded {"client_id":"c_1","name":"Globex"}
}

func printLog(ctx context.Context, pool *pgxpool.Pool, log *eventlog.Log) {
	var timesheets int
	if err := pool.QueryRow(ctx, `SELECT count(*) FROM timesheet`).Scan(&timesheets); err != nil {
		panic(err)
	}
	fmt.Println(timesheets, "timesheets")
	err := log.Walk(ctx, "acme", 0, func(e *domain.Entry) error {
		fmt.Println(e.Position, e.ID, e.Type, e.Data)
		return nil
	})
	if err != nil {
		panic(err)
	}
}

func showAll(ctx context.Context, pool *pgxpool.Pool) {
	_, err := pool.Exec(ctx, `
		UPDATE log_checkpoint c SET position = h.position FROM log_head h
		 WHERE h.workspace_id = c.workspace_id AND c.consumer = $1`, eventlog.ReadModels)
	if err != nil {
		panic(err)
	}
}
