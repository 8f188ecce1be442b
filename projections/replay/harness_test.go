package replay_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
	"github.com/ledgerfeed/ledgerfeed/projections/projectionstest"
	"github.com/ledgerfeed/ledgerfeed/projections/replay"
)

// bench is a database with a log, and what is needed to project and replay it.
type bench struct {
	*projectionstest.Bench
	t      *testing.T
	memory int64 // of a Replayer; 0: the default
}

func newBench(t *testing.T) *bench {
	t.Helper()
	return &bench{Bench: projectionstest.New(t), t: t}
}

// projected is a bench with two projected workspaces: ws-1 and ws-2.
func projected(t *testing.T) *bench {
	t.Helper()
	return &bench{t: t, Bench: projectionstest.Filled(t, "projected", func(b *projectionstest.Bench) {
		b.Append(projectionstest.Generate(t, "ws-1", 1, 900))
		b.Append(projectionstest.Generate(t, "ws-2", 2, 700))
		b.Project(1000)
	})}
}

func draft(t *testing.T, line string) domain.Draft {
	t.Helper()
	return projectionstest.Draft(t, []byte(line))
}

// bothWays runs a test with the rows of a replay in memory, and with them in
// shadow tables, because no workspace fits into the memory.
func bothWays(t *testing.T, test func(t *testing.T, memory int64)) {
	t.Helper()
	for name, memory := range map[string]int64{"in memory": 0, "in shadow tables": 1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, memory)
		})
	}
}

// within bounds the memory of replays.
func (b *bench) within(memory int64) *bench {
	b.memory = memory
	return b
}

// replayer makes a Replayer over the database.
func (b *bench) replayer(change ...func(*replay.Config)) *replay.Replayer {
	b.t.Helper()
	pool, err := pg.Open(b.t.Context(), b.URL, pg.Options{MaxConns: 6, Settings: replay.PoolSettings()})
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(pool.Close)
	cfg := replay.Config{Pool: pool, Clock: time.Now, Memory: b.memory, MassRows: 5}
	for _, c := range change {
		c(&cfg)
	}
	r, err := replay.New(cfg)
	if err != nil {
		b.t.Fatal(err)
	}
	return r
}

// verify returns every difference as a line.
func (b *bench) verify(r *replay.Replayer, q replay.VerifyRequest) (lines []string, done []replay.Verification) {
	b.t.Helper()
	err := r.Verify(b.t.Context(), q,
		func(d replay.Difference) { lines = append(lines, d.String()) },
		func(v replay.Verification) { done = append(done, v) })
	if err != nil {
		b.t.Fatal(err)
	}
	slices.Sort(lines)
	return lines, done
}

// damage runs a statement that no program of ours runs.
func (b *bench) damage(sql string, args ...any) {
	b.t.Helper()
	err := pg.InTx(b.t.Context(), testkit.OwnerConn(b.t, b.Pool), func(tx pgx.Tx) error {
		// No trigger refuses it.
		if _, err := tx.Exec(b.t.Context(), "SET LOCAL session_replication_role = replica"); err != nil {
			return err
		}
		tag, err := tx.Exec(b.t.Context(), sql, args...)
		if err != nil {
			return err
		}
		if tag.RowsAffected() == 0 {
			return fmt.Errorf("%s: touched nothing", sql)
		}
		return nil
	})
	if err != nil {
		b.t.Fatal(err)
	}
}

// text reads one value.
func (b *bench) text(sql string, args ...any) (v string) {
	b.t.Helper()
	if err := b.Pool.QueryRow(b.t.Context(), sql, args...).Scan(&v); err != nil {
		b.t.Fatal(err)
	}
	return v
}

// until waits for what happens in another goroutine; failing says what did not.
func (b *bench) until(done func() bool, failing func() string) {
	b.t.Helper()
	testkit.Eventually(b.t, func() error {
		if !done() {
			return errors.New(failing())
		}
		return nil
	})
}

// awaitText waits until a statement returns the wanted value.
func (b *bench) awaitText(want, sql string) {
	b.t.Helper()
	b.until(func() bool { return b.text(sql) == want }, func() string { return sql + " gives " + want })
}
