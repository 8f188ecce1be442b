package testkit

import (
	"context"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
)

// ExamplePool is Pool for an example, which has no *testing.T. What fails panics;
// stop does what the end of a test does.
func ExamplePool() (pool *pgxpool.Pool, stop func()) {
	tb := &exampleTB{}
	return Pool(tb), func() {
		for i := len(tb.cleanups) - 1; i >= 0; i-- {
			tb.cleanups[i]()
		}
	}
}

// exampleTB is the part of testing.TB that Pool needs.
type exampleTB struct {
	testing.TB // nil

	cleanups []func()
}

func (*exampleTB) Helper()                   {}
func (*exampleTB) Name() string              { return "example" }
func (*exampleTB) Context() context.Context  { return context.Background() }
func (e *exampleTB) Cleanup(f func())        { e.cleanups = append(e.cleanups, f) }
func (*exampleTB) Fatal(args ...any)         { panic(fmt.Sprint(args...)) }
func (*exampleTB) Fatalf(s string, a ...any) { panic(fmt.Sprintf(s, a...)) }
func (*exampleTB) Errorf(s string, a ...any) { panic(fmt.Sprintf(s, a...)) }
