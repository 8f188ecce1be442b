package eventlog_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/internal/flow"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

// fate is what a writer knows of its entry at the end.
type fate int

const (
	unknown    fate = iota // an error that does not tell
	appended               // acknowledged
	rolledBack             // its transaction was rolled back
)

// storm is many writers, readers and a killer of connections on one database.
type storm struct {
	logs       []*eventlog.Log // one a process
	pools      []testkit.DB
	workspaces []string

	kills, broken, cancelled, acknowledged atomic.Int64

	mu    sync.Mutex
	fates map[string]fate // by workspace/id
}

const stormWriters = 8

// stormCalls is how many calls each writer makes.
func stormCalls() int { return testkit.Scale(50, 120) }

// TestLogInAStorm: with many writers, rollbacks, killed backends and callers that
// give up, positions are 1…n, no reader sees a position before the one below it,
// nothing acknowledged is lost, nothing rolled back is there, and nothing is there
// twice.
func TestLogInAStorm(t *testing.T) {
	t.Parallel()
	url := testkit.NewDatabase(t)
	s := &storm{workspaces: []string{"a", "b", "c"}, fates: map[string]fate{}}
	for range 2 {
		pool := wide(t, url, 8)
		s.pools = append(s.pools, pool)
		s.logs = append(s.logs, newLog(t, eventlog.Config{Pool: pool, Clock: time.Now, Batchers: 2}))
	}
	seed := testkit.Seed(t)
	s.one(t, url)

	around, calm := context.WithCancel(t.Context())
	var writers, others sync.WaitGroup
	for i := range stormWriters {
		writers.Go(func() { s.write(t, i, rand.New(rand.NewPCG(seed, uint64(i)))) })
	}
	others.Go(func() { s.kill(around, t, url, rand.New(rand.NewPCG(seed, 1000))) })
	for _, w := range s.workspaces {
		others.Go(func() { s.watch(around, t, url, w) })
	}
	writers.Wait()
	calm()
	others.Wait()
	t.Logf("%d entries acknowledged, %d connections killed, %d calls broken, %d cancelled",
		s.acknowledged.Load(), s.kills.Load(), s.broken.Load(), s.cancelled.Load())
	s.verify(t, url)
}

// one makes sure that there is one event of each kind, whatever the random ones do: while the
// log is locked, it kills the connection of an append, which comes again by itself, and another
// append is given up.
func (s *storm) one(t *testing.T, url string) {
	t.Helper()
	conn := testkit.Must(pgx.Connect(t.Context(), testkit.Direct(url)))(t)
	defer func() { _ = conn.Close(context.Background()) }()
	tx := testkit.Must(conn.Begin(t.Context()))(t)
	testkit.Must(tx.Exec(t.Context(), `LOCK TABLE log_head IN ACCESS EXCLUSIVE MODE`))(t)
	waiting := func(ctx context.Context, drafts ...domain.Draft) <-chan error {
		ended := make(chan error, 1)
		go func() {
			_, err := s.logs[0].Append(ctx, drafts...)
			ended <- err
		}()
		testkit.Eventually(t, func() error { return testkit.LockAwaited(t, s.pools[1], 1) })
		return ended
	}

	// Two entries each: a single one would wait in a group that does not end with its caller.
	given := []domain.Draft{sent(t, "a", "given-up", "i"), sent(t, "a", "given-up-too", "i")}
	ctx, giveUp := context.WithCancel(t.Context())
	ended := waiting(ctx, given...)
	giveUp()
	err := testkit.Receive(t, ended, "the end of an append that is given up")
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("an append that is given up ends with %v", err)
	}
	s.cancelled.Add(1)
	s.settle(given, appended, err)

	killed := []domain.Draft{sent(t, "a", "killed", "i"), sent(t, "a", "killed-too", "i")}
	ended = waiting(t.Context(), killed...)
	testkit.Eventually(t, func() error {
		var n int64
		// Not by the transaction: PostgreSQL lists the same sessions until its end.
		if err := s.pools[1].QueryRow(t.Context(), `
			SELECT count(*) FILTER (WHERE pg_terminate_backend(pid)) FROM pg_stat_activity
			 WHERE datname = current_database() AND wait_event_type = 'Lock'`).Scan(&n); err != nil {
			t.Fatal(err)
		}
		s.kills.Add(n)
		select {
		case err := <-ended:
			if s.kills.Load() == 0 || err == nil {
				t.Fatalf("an append ended with %v while the log was locked, after %d kills", err, s.kills.Load())
			}
			return nil
		default:
			return fmt.Errorf("the append goes on after %d kills", s.kills.Load())
		}
	})
	s.broken.Add(1)
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.settle(killed, appended, s.insist(t, rand.New(rand.NewPCG(0, 0)), killed))
}

// write makes calls of all kinds; every entry gets an id of its own.
func (s *storm) write(t *testing.T, writer int, rng *rand.Rand) {
	for call := range stormCalls() {
		drafts := make([]domain.Draft, 1)
		if rng.IntN(3) == 0 {
			drafts = make([]domain.Draft, 1+rng.IntN(5))
		}
		for i := range drafts {
			w := s.workspaces[rng.IntN(len(s.workspaces))]
			drafts[i] = sent(t, w, fmt.Sprintf("e-%d-%d-%d", writer, call, i), "i")
		}
		n := rng.IntN(len(s.logs))
		switch rng.IntN(8) {
		case 0:
			s.settle(drafts, rolledBack, s.inTx(t.Context(), n, drafts, false))
		case 1:
			s.settle(drafts, appended, s.inTx(t.Context(), n, drafts, true))
		case 2:
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(rng.IntN(3000))*time.Microsecond)
			_, err := s.logs[n].Append(ctx, drafts...)
			cancel()
			if errors.Is(err, context.DeadlineExceeded) {
				s.cancelled.Add(1)
			}
			s.settle(drafts, appended, err)
		default:
			s.settle(drafts, appended, s.insist(t, rng, drafts))
		}
	}
}

// insist appends until that succeeds, with the same ids, as Append demands, and
// each time through another process.
func (s *storm) insist(t *testing.T, rng *rand.Rand, drafts []domain.Draft) error {
	for {
		_, err := s.logs[rng.IntN(len(s.logs))].Append(t.Context(), drafts...)
		var refused *eventlog.RefusedError
		switch {
		case err == nil:
			return nil
		case errors.As(err, &refused) || t.Context().Err() != nil:
			t.Errorf("appending: %v", err)
			return err
		}
		s.broken.Add(1)
	}
}

// inTx appends the first half by AppendTx and the rest by the statement for producers.
func (s *storm) inTx(ctx context.Context, n int, drafts []domain.Draft, commit bool) error {
	rollback := errors.New("roll back")
	err := pgx.BeginFunc(ctx, s.pools[n], func(tx pgx.Tx) error {
		// One workspace, so that two such transactions never wait for each other.
		for i := range drafts {
			drafts[i].WorkspaceID = drafts[0].WorkspaceID
		}
		half := (len(drafts) + 1) / 2
		if _, err := s.logs[n].AppendTx(ctx, tx, drafts[:half]...); err != nil {
			return err
		}
		for _, d := range drafts[half:] {
			if err := publish(ctx, tx, time.Now(), d); err != nil {
				return err
			}
		}
		if !commit {
			return rollback
		}
		return nil
	})
	if errors.Is(err, rollback) {
		return nil
	}
	if err != nil {
		s.broken.Add(1)
	}
	return err
}

func (s *storm) settle(drafts []domain.Draft, as fate, err error) {
	if err != nil && as == appended {
		as = unknown
	}
	if as == appended {
		s.acknowledged.Add(int64(len(drafts)))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range drafts {
		s.fates[drafts[i].WorkspaceID+"/"+drafts[i].ID] = as
	}
}

// kill ends random backends of the writers.
func (s *storm) kill(ctx context.Context, t *testing.T, url string, rng *rand.Rand) {
	conn, err := pgx.Connect(ctx, testkit.Direct(url)+"&application_name=killer")
	if err != nil {
		t.Error(err)
		return
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	// Where a transaction takes longer than the time to the next kill, the last writer would
	// never get through. So a few connections are killed for each entry that does.
	const most = 8
	var through, since int64 // entries that were acknowledged, and connections killed since then
	for flow.Sleep(ctx, time.Duration(1+rng.IntN(15))*time.Millisecond) {
		if n := s.acknowledged.Load(); n != through {
			through, since = n, 0
		} else if since >= most {
			continue
		}
		var killed int64
		err := conn.QueryRow(ctx, `
			SELECT count(*) FILTER (WHERE gone) FROM (
			  SELECT pg_terminate_backend(pid) AS gone FROM (
			    SELECT pid FROM pg_stat_activity
			     WHERE datname = current_database() AND application_name NOT IN ('killer', 'watcher') AND state <> 'idle'
			     ORDER BY random() LIMIT 1) AS one) AS k`).Scan(&killed)
		if err != nil && ctx.Err() == nil {
			t.Errorf("killing: %v", err)
		}
		s.kills.Add(killed)
		since += killed
	}
}

// watch reads the new entries, as a consumer does, and counts all each time.
func (s *storm) watch(ctx context.Context, t *testing.T, url, workspaceID string) {
	conn, err := pgx.Connect(ctx, testkit.Direct(url)+"&application_name=watcher")
	if err != nil {
		t.Error(err)
		return
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	var last int64
	for ctx.Err() == nil {
		rows, err := conn.Query(ctx, `SELECT position FROM event_log WHERE workspace_id = $1 AND position > $2 ORDER BY position`, workspaceID, last)
		var fresh []int64
		if err == nil {
			fresh, err = pgx.CollectRows(rows, pgx.RowTo[int64])
		}
		var count, top int64
		if err == nil {
			err = conn.QueryRow(ctx, `SELECT count(*), coalesce(max(position), 0) FROM event_log WHERE workspace_id = $1`, workspaceID).Scan(&count, &top)
		}
		if err != nil {
			if ctx.Err() == nil {
				t.Errorf("watching: %v", err)
			}
			return
		}
		for _, p := range fresh {
			if p != last+1 {
				t.Errorf("%s: a reader saw position %d after %d", workspaceID, p, last)
				return
			}
			last = p
		}
		if count != top || top < last {
			t.Errorf("%s: a reader saw %d entries up to position %d, after %d", workspaceID, count, top, last)
			return
		}
	}
}

func (s *storm) verify(t *testing.T, url string) {
	b := &bundle{pool: wide(t, url, 2), clock: testkit.NewClock(noon)}
	b.log = newLog(t, eventlog.Config{Pool: b.pool, Clock: time.Now})
	there := map[string]bool{}
	for _, w := range s.workspaces {
		for _, e := range b.soundLog(t, w) {
			key := w + "/" + e.ID
			if there[key] {
				t.Errorf("%s is in the log twice", key)
			}
			there[key] = true
			if f, known := s.fates[key]; !known || f == rolledBack {
				t.Errorf("%s is in the log, though rolled back", key)
			}
		}
	}
	for key, f := range s.fates {
		if f == appended && !there[key] {
			t.Errorf("%s was acknowledged and is lost", key)
		}
	}
}
