package eventlog_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

// A producer writes its own table and the log in one transaction: there is
// never a row without its entry, nor an entry without its row.
func ExampleLog_AppendTx() {
	ctx := context.Background()
	pool, stop := testkit.ExamplePool()
	defer stop()
	if _, err := pool.Exec(ctx, `CREATE TABLE timesheet (id text PRIMARY KEY, approved_by text NOT NULL)`); err != nil {
		panic(err)
	}
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
	var timesheets int
	if err := pool.QueryRow(ctx, `SELECT count(*) FROM timesheet`).Scan(&timesheets); err != nil {
		panic(err)
	}
	fmt.Println(timesheets, "timesheets")
	err = log.Walk(ctx, "acme", 0, func(e *domain.Entry) error {
		fmt.Println(e.Position, e.ID, e.Type, e.Whole())
		return nil
	})
	if err != nil {
		panic(err)
	}
	// Output:
	// <nil>
	// nobody approved it
	// 1 timesheets
	// 1 approved-te_1 time_entry.approved {"time_entry_id":"te_1"}
}
