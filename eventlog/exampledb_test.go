package eventlog_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

// exampleTB lets an example, which has no *testing.T, have a test database.
type exampleTB struct {
	testing.TB // nil: the methods below are all that testkit needs

	cleanups []func()
}

func (*exampleTB) Helper()                   {}
func (*exampleTB) Name() string              { return "example" }
func (*exampleTB) Context() context.Context  { return context.Background() }
func (e *exampleTB) Cleanup(f func())        { e.cleanups = append(e.cleanups, f) }
func (*exampleTB) Fatal(args ...any)         { panic(fmt.Sprint(args...)) }
func (*exampleTB) Fatalf(s string, a ...any) { panic(fmt.Sprintf(s, a...)) }
func (*exampleTB) Errorf(s string, a ...any) { panic(fmt.Sprintf(s, a...)) }

// exampleDatabase stands for the database that a producer shares with
// Ledgerfeed. It has a table of the producer's own.
func exampleDatabase() (pool *pgxpool.Pool, stop func()) {
	tb := &exampleTB{}
	pool = testkit.Pool(tb)
	if _, err := pool.Exec(tb.Context(), `CREATE TABLE timesheet (id text PRIMARY KEY, approved_by text NOT NULL)`); err != nil {
		panic(err)
	}
	return pool, func() {
		for i := len(tb.cleanups) - 1; i >= 0; i-- {
			tb.cleanups[i]()
		}
	}
}
