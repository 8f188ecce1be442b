package eventtree_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/eventlog/eventtree"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

// TestTreesAreThoseOfTheEvents: trees that are built in random steps, by two processes
// beside each other, are what the package of the checksum database computes in memory.
func TestTreesAreThoseOfTheEvents(t *testing.T) {
	t.Parallel()
	b := setup(t)
	random := rand.New(rand.NewPCG(1, 1))
	var workspaces []string
	for i := range 12 {
		id := fmt.Sprintf("w%d", i)
		workspaces = append(workspaces, id)
		b.append(id, random, 1+random.IntN(1500)) // a backlog
	}
	for _, entries := range []int{50, 1000} {
		b.start(func(c *eventtree.BuilderConfig) { c.Entries = entries })
	}
	for range 60 {
		b.append(workspaces[random.IntN(len(workspaces))], random, 1+random.IntN(40))
	}
	b.built(workspaces...)
	for _, id := range workspaces {
		b.sound(id)
	}
}

// TestTreesThatAreBuiltAgainAreTheSame: after everything about trees was lost, they have the
// same bytes again, whatever the steps.
func TestTreesThatAreBuiltAgainAreTheSame(t *testing.T) {
	t.Parallel()
	b := setup(t)
	random := rand.New(rand.NewPCG(2, 2))
	b.append("w", random, 70_000/20)
	stop := b.start(func(c *eventtree.BuilderConfig) { c.Entries = 37 })
	b.built("w")
	stop()
	before := b.stored("w")
	b.exec(`DELETE FROM event_tile`)
	b.exec(`DELETE FROM event_tree`)
	b.exec(`DELETE FROM log_checkpoint WHERE consumer = $1`, eventtree.Consumer)
	b.start()
	b.built("w")
	if !slices.Equal(before, b.stored("w")) {
		t.Error("the trees are others")
	}
	b.sound("w")
}

// TestOtherRulesWriteNoTree: a program of the version before, which does not say by which rules its
// leaves are chosen, cannot go on with a tree.
func TestOtherRulesWriteNoTree(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.append("w", rand.New(rand.NewPCG(13, 13)), 50)
	b.start()
	b.built("w")
	_, err := b.pool.Exec(t.Context(), `
		INSERT INTO event_tree AS t (workspace_id, sight, position, chain, size, root)
		SELECT workspace_id, sight, position, chain, size, root FROM event_tree
		    ON CONFLICT (workspace_id, sight) DO UPDATE SET position = excluded.position`)
	if refused, ok := errors.AsType[*pgconn.PgError](err); !ok || refused.Code != "23502" || refused.ColumnName != "rules" {
		t.Errorf("%v", err)
	}
}

// stored is everything that is stored about the trees of a workspace.
func (b *bench) stored(workspaceID string) (list []string) {
	b.t.Helper()
	for _, sql := range []string{
		`SELECT t::text FROM event_tree t WHERE workspace_id = $1 ORDER BY sight`,
		`SELECT t::text FROM event_tile t WHERE workspace_id = $1 ORDER BY sight, level, tile`,
	} {
		rows := testkit.Must(b.pool.Query(b.t.Context(), sql, workspaceID))(b.t)
		for rows.Next() {
			var row string
			if err := rows.Scan(&row); err != nil {
				b.t.Fatal(err)
			}
			list = append(list, row)
		}
	}
	return list
}

// TestAnEndInTheMiddleChangesNothing ends the connections of builders while they work, again
// and again, which is what is left of a process that was killed between claim and commit.
func TestAnEndInTheMiddleChangesNothing(t *testing.T) {
	t.Parallel()
	b := setup(t)
	random := rand.New(rand.NewPCG(3, 3))
	b.append("w", random, 3000)
	other := testkit.OpenPool(t, b.pool.Config().ConnString(), 8)
	held, goOn := make(chan struct{}, 1), make(chan struct{})
	hold := sync.OnceFunc(func() { held <- struct{}{}; <-goOn })
	stop := b.start(func(c *eventtree.BuilderConfig) {
		c.Entries, c.Pool, c.Grown = 20, other, func(string, int64) { hold() }
	})
	end := func() (ended int) {
		t.Helper()
		if err := b.pool.QueryRow(t.Context(), `
			SELECT count(*) FILTER (WHERE pg_terminate_backend(pid)) FROM pg_stat_activity
			 WHERE datname = current_database() AND pid <> pg_backend_pid() AND state LIKE 'idle in transaction%'`).Scan(&ended); err != nil {
			t.Fatal(err)
		}
		return ended
	}
	testkit.Receive(t, held, "a claim of the builder") // one is ended for sure
	ended := end()
	close(goOn)
	if ended == 0 {
		t.Error("the claim under way was in no transaction")
	}
	for range 40 {
		ended += end()
		b.append("w", random, 3)
	}
	stop()
	t.Logf("%d transactions were ended", ended)
	b.exec(`UPDATE log_checkpoint SET retry_at = NULL WHERE consumer = $1`, eventtree.Consumer)
	b.start()
	b.built("w")
	b.sound("w")
}

// TestOnlyWhatIsVisibleIsInATree, and a workspace without events has an empty one.
func TestOnlyWhatIsVisibleIsInATree(t *testing.T) {
	t.Parallel()
	b := setup(t)
	random := rand.New(rand.NewPCG(4, 4))
	b.append("w", random, 10)
	b.start()
	b.built("w")
	b.sound("w")
	b.appendUnseen("w", random, 10)
	b.append("other", random, 300) // is built later than w would be
	b.built("other")
	if at := testkit.Must(eventtree.ReadStates(t.Context(), b.pool, []string{"w"}))(t)["w"].WithPay.Position; at != 10 {
		t.Errorf("the tree is of position %d, and 10 are visible", at)
	}
	empty := testkit.Must(eventtree.ReadStates(t.Context(), b.pool, []string{"none"}))(t)["none"].WithoutPay
	if want := testkit.Must(tlog.TreeHash(0, nil))(t); empty.Size != 0 || empty.Position != 0 || empty.Root != want {
		t.Errorf("%+v", empty)
	}
}

// stays runs a Builder with more events of a workspace: it says why it leaves the tree alone,
// and does, while those of others are built.
func (b *bench) stays(workspaceID string, random *rand.Rand, said string, others ...string) {
	b.t.Helper()
	before := b.stored(workspaceID)
	b.append(workspaceID, random, 10)
	b.start()
	testkit.Eventually(b.t, func() error {
		if !strings.Contains(b.logged.String(), said) {
			return fmt.Errorf("nothing was said: %s", b.logged)
		}
		return nil
	})
	b.built(others...)
	if !slices.Equal(before, b.stored(workspaceID)) {
		b.t.Error("the tree was changed")
	}
}

// TestAnotherLogChangesNoTree: a workspace whose log is not the one that its tree was built
// of stops, keeps its tree and holds no other.
func TestAnotherLogChangesNoTree(t *testing.T) {
	t.Parallel()
	b := setup(t)
	random := rand.New(rand.NewPCG(5, 5))
	b.append("w", random, 300)
	b.append("other", random, 300)
	stop := b.start()
	b.built("w", "other")
	stop()
	b.exec(`UPDATE event_tree SET chain = sha256('another') WHERE workspace_id = 'w' AND sight = 'events'`)
	b.append("other", random, 10)
	b.stays("w", random, "was built from another log", "other")
}

// TestTilesAtTheEdgeAreWrittenAboutOnceASecond: entries that come one by one are gathered for
// most of a second, and then written about once.
func TestTilesAtTheEdgeAreWrittenAboutOnceASecond(t *testing.T) {
	t.Parallel()
	b := setup(t)
	random := rand.New(rand.NewPCG(6, 6))
	b.exec(`CREATE TABLE written (at timestamptz)`)
	b.exec(`CREATE FUNCTION note_written() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO written VALUES (clock_timestamp()); RETURN NULL; END $$`)
	b.exec(`CREATE TRIGGER written AFTER INSERT ON event_tree FOR EACH STATEMENT EXECUTE FUNCTION note_written()`)
	over := make(chan struct{}, 1) // each value ends one pause
	pause := func(ctx context.Context, d time.Duration) bool {
		if d <= 0 || d > time.Second {
			t.Errorf("entries are gathered for %v", d)
		}
		select {
		case <-over:
			return true
		case <-ctx.Done():
			return false
		}
	}
	b.append("quiet", random, 1) // before the Builder listens
	b.start(func(c *eventtree.BuilderConfig) { c.Gather, c.Sweep, c.Sleep = 0, time.Hour, pause })
	b.built("quiet") // so the one sweep is over
	writes := func() (n int) {
		t.Helper()
		if err := b.pool.QueryRow(t.Context(), `SELECT count(*) FROM written`).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	before := writes()
	for round := 1; round <= 3; round++ {
		for range 10 {
			b.append("w", random, 1)
		}
		over <- struct{}{}
		b.built("w")
		if n := writes() - before; n != round {
			t.Fatalf("10 entries %d times: %d writes", round, n)
		}
	}
	b.sound("w")
}

// TestIndexOfAnEvent: the index of each event is its place among those of the sight, whether
// the tree has it or not.
func TestIndexOfAnEvent(t *testing.T) {
	t.Parallel()
	b := setup(t)
	random := rand.New(rand.NewPCG(7, 7))
	b.append("w", random, 1400)
	stop := b.start()
	b.built("w")
	stop()
	b.append("w", random, 300)
	for _, s := range eventtree.Sights() {
		for i, l := range b.leaves("w", s) {
			if i%7 != 0 && i%256 > 1 {
				continue
			}
			index, ok, err := eventtree.IndexOf(t.Context(), b.pool, "w", s, l.Position)
			if err != nil || !ok || index != int64(i) {
				t.Fatalf("%s: the event at %d has index %d (%v, %v), want %d", s, l.Position, index, ok, err, i)
			}
		}
	}
	b.append("far", random, 3500)
	if _, ok, err := eventtree.IndexOf(t.Context(), b.pool, "far", eventtree.WithPay, 3500); ok || err != nil {
		t.Errorf("the index of an event far behind the tree is told (%v)", err)
	}
}

func TestBuilderNeedsItsConfig(t *testing.T) {
	t.Parallel()
	if _, err := eventtree.NewBuilder(eventtree.BuilderConfig{}); err == nil {
		t.Error("a Builder was made of nothing")
	}
	b := setup(t)
	if _, err := eventtree.NewBuilder(b.config(func(c *eventtree.BuilderConfig) { c.Notifier = (*eventlog.Notifier)(nil) })); err == nil {
		t.Error("a Builder was made without a Notifier")
	}
}

// TestDamagedTilesAreNotSigned: a tree whose edge does not give its root is not built on.
func TestDamagedTilesAreNotSigned(t *testing.T) {
	t.Parallel()
	b := setup(t)
	random := rand.New(rand.NewPCG(6, 6))
	b.append("w", random, 300)
	stop := b.start()
	b.built("w")
	stop()
	b.exec(`UPDATE event_tile k SET hashes = set_byte(hashes, 3, get_byte(hashes, 3) # 1)
	         WHERE workspace_id = 'w' AND sight = 'events' AND level = 0
	           AND tile = (SELECT max(tile) FROM event_tile l WHERE l.workspace_id = k.workspace_id AND l.sight = k.sight AND l.level = 0)`)
	b.stays("w", random, "hashes at its edge that do not give its root")
}
