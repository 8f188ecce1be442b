package testkit

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
)

// complaints is a test whose failures are kept instead of reported.
type complaints struct {
	testing.TB
	said []string
}

func (c *complaints) Errorf(format string, args ...any) {
	c.said = append(c.said, fmt.Sprintf(format, args...))
}

// TestNotBlockedSeesWhoWaits: a session that waits is a failure, also behind one that waited
// before; one that waited before, and one that waits for somebody else, is none.
func TestNotBlockedSeesWhoWaits(t *testing.T) {
	t.Parallel()
	pool := Pool(t)
	Must(pool.Exec(t.Context(), `INSERT INTO notes VALUES (1, 'locked'), (2, 'locked by another'), (3, 'free')`))(t)
	holder := Must(pgx.Connect(t.Context(), pool.Config().ConnString()))(t)
	other := Must(pgx.Connect(t.Context(), pool.Config().ConnString()))(t)
	t.Cleanup(func() { _ = other.Close(context.Background()); _ = holder.Close(context.Background()) })
	lock := func(conn *pgx.Conn, id int) pgx.Tx {
		tx := Must(conn.Begin(t.Context()))(t)
		Must(tx.Exec(t.Context(), `SELECT FROM notes WHERE id = $1 FOR UPDATE`, id))(t)
		return tx
	}
	held, elsewhere := lock(holder, 1), lock(other, 2)
	pid := PID(t, held)

	ended := make(chan error)
	change := func(id int) {
		go func() {
			_, err := pool.Exec(context.WithoutCancel(t.Context()), `UPDATE notes SET body = 'changed' WHERE id = $1`, id)
			ended <- err
		}()
	}
	waiting := func(n int) func() { return func() { Eventually(t, func() error { return LockAwaited(t, pool, n) }) } }

	change(1)
	waiting(1)()
	for _, c := range []struct {
		name string
		work func()
		want string
	}{
		{"nothing waits", func() { Must(pool.Exec(t.Context(), `UPDATE notes SET body = 'changed' WHERE id = 3`))(t) }, ""},
		{"another's lock", func() { change(2); waiting(2)() }, ""},
		{"behind who waited before", func() { change(1); waiting(3)() }, "UPDATE notes SET body = 'changed'"},
	} {
		judge := &complaints{TB: t}
		NotBlocked(judge, pool, pid, c.work)
		if said := strings.Join(judge.said, "\n"); (c.want == "") != (said == "") || !strings.Contains(said, c.want) {
			t.Errorf("%s: %q, want %q", c.name, said, c.want)
		}
	}
	for _, tx := range []pgx.Tx{held, elsewhere} {
		if err := tx.Rollback(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	for range 3 {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}
