//go:build full && outside

package pg_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/ledgerfeed/ledgerfeed/internal/pg"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit/pooler"
)

// shownSettings asks for the settings of the test, by a query with arguments, one
// without, a batch, in a transaction and by a statement of it, and by COPY.
const shownSettings = `SELECT concat_ws(' ', current_setting('enable_sort'), current_setting('lock_timeout'), current_setting('statement_timeout'), current_setting('idle_in_transaction_session_timeout'))`

// TestPoolerTransactionsHaveTheirSettings: whichever way a statement goes, through
// whichever connection, it has the settings of its own pool and no other's.
func TestPoolerTransactionsHaveTheirSettings(t *testing.T) {
	t.Parallel()
	p := pooler.Start(t, testkit.NewDatabase(t))
	var group sync.WaitGroup
	for i := range 4 {
		sort := []string{"on", "off"}[i%2]
		pool := testkit.Must(pg.Open(t.Context(), p.URL, pg.Options{
			MaxConns: 4, ReadBuffer: (i % 3) << 14, CancelStatements: true,
			Settings: map[string]string{"enable_sort": sort, "lock_timeout": fmt.Sprintf("%dms", 701+i), "statement_timeout": fmt.Sprintf("%dms", 60001+i)},
		}))(t)
		t.Cleanup(pool.Close)
		want := fmt.Sprintf("%s %dms %dms 30s", sort, 701+i, 60001+i)
		for range 4 {
			group.Go(func() {
				for range 25 {
					for name, shown := range map[string]func() (string, error){
						"a query with arguments": func() (s string, err error) {
							err = pool.QueryRow(t.Context(), shownSettings+` WHERE $1`, true).Scan(&s)
							return s, err
						},
						"a query without": func() (s string, err error) { err = pool.QueryRow(t.Context(), shownSettings).Scan(&s); return s, err },
						"the simple protocol": func() (s string, err error) {
							err = pool.QueryRow(t.Context(), shownSettings, pgx.QueryExecModeSimpleProtocol).Scan(&s)
							return s, err
						},
						"a batch":               func() (string, error) { return inBatch(t.Context(), pool.SendBatch) },
						"a batch, many results": func() (string, error) { return manyResults(t.Context(), pool.SendBatch) },
						"a transaction": func() (s string, err error) {
							err = pg.InTx(t.Context(), pool, func(tx pgx.Tx) error { return tx.QueryRow(t.Context(), shownSettings).Scan(&s) })
							return s, err
						},
						"a transaction's batch": func() (s string, err error) {
							err = pg.InTx(t.Context(), pool, func(tx pgx.Tx) error {
								if _, err := tx.Exec(t.Context(), "SELECT 1"); err != nil {
									return err
								}
								s, err = inBatch(t.Context(), tx.SendBatch)
								return err
							})
							return s, err
						},
					} {
						if got, err := shown(); err != nil || got != want {
							t.Errorf("%s: %q, %v; want %q", name, got, err, want)
							return
						}
					}
				}
			})
		}
	}
	group.Wait()
}

func inBatch(ctx context.Context, send func(context.Context, *pgx.Batch) pgx.BatchResults) (s string, err error) {
	var b pgx.Batch
	b.Queue(`SELECT $1::int`, 1)
	b.Queue(shownSettings+` WHERE $1`, true)
	r := send(ctx, &b)
	if _, err := r.Exec(); err != nil {
		return "", errors.Join(err, r.Close())
	}
	err = r.QueryRow().Scan(&s)
	return s, errors.Join(err, r.Close())
}

func manyResults(ctx context.Context, send func(context.Context, *pgx.Batch) pgx.BatchResults) (s string, err error) {
	var b pgx.Batch
	for i := range 50 {
		b.Queue(`SELECT $1::int, repeat('x', 3000) FROM generate_series(1, 20)`, i)
	}
	b.Queue(shownSettings+` WHERE $1`, true)
	r := send(ctx, &b)
	for range 50 {
		tag, err := r.Exec()
		if err != nil || tag.RowsAffected() != 20 {
			return "", errors.Join(err, r.Close(), fmt.Errorf("%v", tag))
		}
	}
	err = r.QueryRow().Scan(&s)
	return s, errors.Join(err, r.Close())
}

// TestPoolerErrorsAndLocalSettings: an error ends its statement alone, what a transaction
// sets for itself stays, timeouts work, and so does the end of the caller's time.
func TestPoolerErrorsAndLocalSettings(t *testing.T) {
	t.Parallel()
	p := pooler.Start(t, testkit.NewDatabase(t))
	pool := testkit.Must(pg.Open(t.Context(), p.URL, pg.Options{MaxConns: 2, CancelStatements: true, Settings: map[string]string{"statement_timeout": "400ms"}}))(t)
	defer pool.Close()
	for range 20 {
		var answer *pgconn.PgError
		if _, err := pool.Exec(t.Context(), `SELECT 1 / $1::int`, 0); !errors.As(err, &answer) || answer.Code != "22012" {
			t.Errorf("divided by zero: %v", err)
		}
		if _, err := pool.Exec(t.Context(), `SELEKT`); !errors.As(err, &answer) || answer.Code != "42601" {
			t.Errorf("no SQL: %v", err)
		}
		err := pg.InLimitedTx(t.Context(), pool, 123*time.Millisecond, func(tx pgx.Tx) error {
			var shown string
			if err := tx.QueryRow(t.Context(), `SELECT current_setting('lock_timeout') || current_setting('statement_timeout')`).Scan(&shown); err != nil || shown != "123ms400ms" {
				t.Errorf("in the transaction: %q, %v", shown, err)
			}
			return errors.New("rolled back")
		})
		if err == nil || err.Error() != "rolled back" {
			t.Error(err)
		}
	}
	for _, sleep := range []func() error{
		func() error { _, err := pool.Exec(t.Context(), `SELECT pg_sleep($1)`, 60.0); return err },
		func() error { _, err := pool.Exec(t.Context(), `SELECT pg_sleep(60)`); return err },
	} {
		if err := sleep(); !pg.Canceled(err) {
			t.Errorf("slept: %v", err)
		}
	}
	short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := pool.Exec(short, `SELECT pg_sleep($1)`, 60.0); err == nil {
		t.Error("slept, past the caller's time")
	}
	if _, err := pool.Exec(t.Context(), `CREATE TABLE copied (n int)`); err != nil {
		t.Fatal(err)
	}
	if n, err := pool.CopyFrom(t.Context(), pgx.Identifier{"copied"}, []string{"n"}, pgx.CopyFromSlice(5000, func(i int) ([]any, error) { return []any{i}, nil })); err != nil || n != 5000 {
		t.Errorf("copied %d: %v", n, err)
	}
	var sum int
	if err := pool.QueryRow(t.Context(), `SELECT sum(n) FROM copied`).Scan(&sum); err != nil || sum != 4999*5000/2 {
		t.Errorf("%d, %v", sum, err)
	}
}

// TestPoolerIsNamed: without the setting, a pooler is named, also one that throws the
// settings away.
func TestPoolerIsNamed(t *testing.T) {
	t.Parallel()
	p := pooler.Start(t, testkit.NewDatabase(t))
	for name, open := range map[string]func() error{
		"a pool":       func() error { _, err := pg.Open(t.Context(), p.Bare, pg.Options{}); return err },
		"a connection": func() error { _, err := pg.Connect(t.Context(), p.Bare); return err },
	} {
		var is *pg.PoolerError
		if err := open(); !errors.As(err, &is) || !strings.Contains(err.Error(), "set LEDGERFEED_POOLER=transaction") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
