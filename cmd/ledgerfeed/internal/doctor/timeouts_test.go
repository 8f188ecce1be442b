package doctor

import (
	"testing"

	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

// TestTimeouts: doctor names timeouts of connections that do not set their own, and where
// they come from.
func TestTimeouts(t *testing.T) {
	t.Parallel()
	testkit.Unpooled(t, "the server's connections are the pooler's")
	p := newPatient(t)
	p.finds("encoding", OK, "UTF8")
	p.finds("timeouts", OK, "none is set")
	p.finds("size", OK, "entries in the last 24 hours")
	set := func(setting string) {
		t.Helper()
		p.exec(`DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET ` + setting + `', current_database()); END $$`)
	}
	set("statement_timeout = 3600000")
	set("lock_timeout = 1000")
	p.finds("timeouts", OK, "statement_timeout is 1h0m0s (of the database)")
	p.finds("timeouts", Warning, "lock_timeout is 1s (of the database): PostgreSQL ends each statement that waits longer for a lock")
	set("statement_timeout = 1")
	p.finds("timeouts", Warning, "statement_timeout is ")
}
