package testkit

import (
	"testing"

	"github.com/ledgerfeed/ledgerfeed/internal/pg"
)

// AnyClock lets the log of a database take entries from clocks that tests move: it
// no longer compares them with its own.
func AnyClock(t testing.TB, pool pg.DB) {
	t.Helper()
	const compareWithNothing = `CREATE OR REPLACE FUNCTION log_clock() RETURNS timestamptz LANGUAGE sql VOLATILE RETURN NULL::timestamptz`
	AsOwner(t, pool, compareWithNothing)
}
