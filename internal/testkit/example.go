package testkit

import (
	"context"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
)

// ExamplePool is Pool for an example.
func ExamplePool() (pool *pgxpool.Pool, stop func()) {
	tb, stop := ExampleTB()
	return Pool(tb), stop
}

// ExampleTB stands for the *testing.T that an example does not have. What fails panics; stop does
// what the end of a test does.
func ExampleTB() (tb testing.TB, stop func()) {
	e := &exampleTB{}
	return e, func() {
		for i := len(e.cleanups) - 1; i >= 0; i-- {
			e.cleanups[i]()
		}
	}
}

// exampleTB is the part of testing.TB that databases and what runs on them need.
type exampleTB struct {
	testing.TB // nil

	cleanups []func()
}

func (*exampleTB) Helper()                   {}
func (*exampleTB) Name() string              { return "example" }
func (*exampleTB) Context() context.Context  { return context.Background() }
func (e *exampleTB) Cleanup(f func())        { e.cleanups = append(e.cleanups, f) }
func (*exampleTB) Fatal(args ...any)         { panic(fmt.Sprint(args...)) }
func (*exampleTB) Error(args ...any)         { panic(fmt.Sprint(args...)) }
func (*exampleTB) Fatalf(s string, a ...any) { panic(fmt.Sprintf(s, a...)) }
func (*exampleTB) Errorf(s string, a ...any) { panic(fmt.Sprintf(s, a...)) }
