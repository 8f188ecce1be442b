package eventlog_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

// TestWrongClockIsRefused: a caller whose clock is more than 5 minutes from the
// database's, either way, appends nothing, in whichever form.
func TestWrongClockIsRefused(t *testing.T) {
	t.Parallel()
	b := &bundle{pool: testkit.Pool(t), clock: testkit.RunningClock()} // with the database's own clock
	b.log = newLog(t, eventlog.Config{Pool: b.pool, Clock: b.clock.Now})
	b.append(t, client(t, "w", "first", "n"), client(t, "x", "first", "n"))
	forms := map[string]func() error{
		"single": func() error { _, err := b.log.Append(t.Context(), client(t, "w", "a", "n")); return err },
		"batch": func() error {
			_, err := b.log.Append(t.Context(), client(t, "w", "a", "n"), client(t, "w", "b", "n"))
			return err
		},
		"several": func() error {
			_, err := b.log.Append(t.Context(), client(t, "w", "a", "n"), client(t, "x", "b", "n"))
			return err
		},
		"transaction": func() error {
			_, err := b.log.AppendTx(t.Context(), b.begin(t), client(t, "w", "a", "n"))
			return err
		},
		"publisher": func() error { return publish(t.Context(), b.pool, b.clock.Now(), client(t, "w", "a", "n")) },
	}
	for _, off := range []time.Duration{200 * 24 * time.Hour, 6 * time.Minute, -6 * time.Minute} {
		b.clock.Advance(off)
		for name, form := range forms {
			var wrong *eventlog.ClockError
			if err := form(); !errors.As(err, &wrong) || !eventlog.Certain(err) || wrong.Now == "" || wrong.Database == "" {
				t.Errorf("%s with a clock that is off by %v: %v", name, off, err)
			}
		}
		// Those that share a transaction have it, too.
		var group sync.WaitGroup
		for i := range 20 {
			group.Go(func() {
				var wrong *eventlog.ClockError
				if _, err := b.log.Append(t.Context(), client(t, fmt.Sprint("v", i%4), fmt.Sprint("e", i), "n")); !errors.As(err, &wrong) {
					t.Errorf("together, with a clock that is off by %v: %v", off, err)
				}
			})
		}
		group.Wait()
		b.clock.Advance(-off)
	}
	if len(b.ids(t, "w")) != 1 || len(b.ids(t, "x")) != 1 {
		t.Error("something was appended")
	}
	for _, off := range []time.Duration{4 * time.Minute, -4 * time.Minute} {
		b.clock.Advance(off)
		b.append(t, client(t, "w", fmt.Sprint("off", int(off.Minutes())), "n"))
		b.clock.Advance(-off)
	}
	b.soundLog(t, "w")
}

// strict is a pool whose transactions run at a level that the database has as its
// default.
func strict(t *testing.T, level string) (url string, pool testkit.DB) {
	t.Helper()
	url = testkit.NewDatabase(t)
	pool = testkit.Must(pgxpool.New(t.Context(), url))(t)
	_, err := pool.Exec(t.Context(), `
		DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET default_transaction_isolation = %L', current_database(), '`+level+`'); END $$`)
	if err != nil {
		t.Fatal(err)
	}
	pool.Reset() // it holds for new connections
	t.Cleanup(pool.Close)
	return url, pool
}

// appendSideBySide appends with several logs at once.
func appendSideBySide(t *testing.T, logs []*eventlog.Log, turns int) {
	t.Helper()
	var group sync.WaitGroup
	for l, log := range logs {
		for caller := range 2 {
			group.Go(func() {
				for i := range turns {
					id := fmt.Sprint(l, "-", caller, "-", i)
					for _, drafts := range [][]domain.Draft{
						{client(t, "w", id, "n")},
						{client(t, "w", id+"b", "n"), client(t, "w", id+"c", "n")},
						{client(t, "w", id+"d", "n"), client(t, "x", id, "n")},
					} {
						if _, err := log.Append(t.Context(), drafts...); err != nil {
							t.Error(err)
						}
					}
				}
			})
		}
	}
	group.Wait()
}

// TestIsolationIsTheProgramsOwn: concurrent appends succeed whatever isolation the
// database has as its default.
func TestIsolationIsTheProgramsOwn(t *testing.T) {
	t.Parallel()
	testkit.Unpooled(t, "an isolation level other than read committed as the database's default is refused in words")
	url, _ := strict(t, "serializable")
	b := &bundle{pool: testkit.Must(pg.Open(t.Context(), url, pg.Options{MaxConns: 8}))(t), clock: testkit.RunningClock()}
	t.Cleanup(b.pool.Close)
	var level string
	if err := b.pool.QueryRow(t.Context(), `SHOW transaction_isolation`).Scan(&level); err != nil || level != "read committed" {
		t.Errorf("connections have the level %q, %v", level, err)
	}
	b.log = newLog(t, eventlog.Config{Pool: b.pool, Clock: b.clock.Now})
	appendSideBySide(t, []*eventlog.Log{b.log, newLog(t, eventlog.Config{Pool: b.pool, Clock: b.clock.Now})}, 10)
	if n := len(b.soundLog(t, "w")); n != 160 {
		t.Errorf("%d entries", n)
	}
}

// TestRolledBackAppendsRunAgain: on connections of another program's, at a level at
// which transactions beside one another fail, appends are made again.
func TestRolledBackAppendsRunAgain(t *testing.T) {
	t.Parallel()
	testkit.Unpooled(t, "an isolation level other than read committed as the database's default is refused in words")
	_, pool := strict(t, "repeatable read")
	b := &bundle{pool: pool, clock: testkit.RunningClock()}
	b.log = newLog(t, eventlog.Config{Pool: pool, Clock: b.clock.Now})
	appendSideBySide(t, []*eventlog.Log{b.log, newLog(t, eventlog.Config{Pool: pool, Clock: b.clock.Now})}, 5)
	if n := len(b.soundLog(t, "w")); n != 80 {
		t.Errorf("%d entries", n)
	}
}
