package eventtree_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/eventlog/eventtree"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
	"github.com/ledgerfeed/ledgerfeed/migrations"
)

func TestMain(m *testing.M) { testkit.Main(m, migrations.Up) }

// bench is a log and what builds trees of it.
type bench struct {
	t        *testing.T
	pool     testkit.DB
	log      *eventlog.Log
	notifier *eventlog.Notifier
	logged   *testkit.Buffer
}

func setup(t *testing.T) *bench {
	t.Helper()
	b := &bench{t: t, logged: &testkit.Buffer{}, pool: testkit.OpenPool(t, testkit.NewDatabase(t), 3*eventtree.Connections)}
	b.notifier = eventlog.NewNotifier(b.pool, b.logged.Logger())
	b.log = testkit.Must(eventlog.New(eventlog.Config{Pool: b.pool, Clock: time.Now}))(t)
	return b
}

// config of a Builder that does not wait.
func (b *bench) config(change ...func(*eventtree.BuilderConfig)) eventtree.BuilderConfig {
	cfg := eventtree.BuilderConfig{
		Pool: b.pool, Notifier: b.notifier, Clock: time.Now, Logger: b.logged.Logger(), Gather: time.Millisecond, Sweep: 20 * time.Millisecond,
	}
	for _, f := range change {
		f(&cfg)
	}
	return cfg
}

// start runs a Builder until the test ends or stop is called.
func (b *bench) start(change ...func(*eventtree.BuilderConfig)) (stop func()) {
	b.t.Helper()
	builder := testkit.Must(eventtree.NewBuilder(b.config(change...)))(b.t)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- builder.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			b.t.Error(err)
		}
	})
	b.t.Cleanup(stop)
	return stop
}

// draft is the entry with a number: of ten, some are internal, and some need pay:read: payouts, and
// charges that are not billed to the client.
func draft(t *testing.T, workspaceID string, random *rand.Rand, n int) domain.Draft {
	t.Helper()
	typ, data := "invoice.sent", fmt.Sprintf(`{"invoice_id":"in_%d","client_id":"c"}`, n)
	switch random.IntN(10) {
	case 0, 1:
		typ, data = "client.recorded", fmt.Sprintf(`{"client_id":"c","name":"Client %d"}`, n)
	case 2:
		typ, data = domain.TypeChargeCreated, fmt.Sprintf(`{"charge_id":"ch_%d","client_id":"c","date":"2026-10-01","category":"x","kind":"y","billed_to_client":%v,"amount":"1.00","currency":"EUR","period":"2026-10"}`, n, n%2 == 0)
	case 3:
		typ, data = domain.TypeChargeDeleted, []string{`{"charge_id":"ch_1"}`, `{"charge_id":"ch_1","billed_to_client":true}`, `{"charge_id":"ch_1","billed_to_client":false}`}[n%3]
	case 4:
		typ, data = domain.TypePayoutPaid, fmt.Sprintf(`{"payment_id":"pm_%d","contractor_id":"co_1","amount":"1.00","currency":"EUR","source":"x"}`, n)
	}
	d := testkit.Must(domain.NewDraft(workspaceID, typ, []byte(data)))(t)
	d.ID = fmt.Sprintf("e%d", n)
	return d
}

// append appends entries to a workspace and makes them visible.
func (b *bench) append(workspaceID string, random *rand.Rand, count int) {
	b.t.Helper()
	b.appendUnseen(workspaceID, random, count)
	b.show(workspaceID)
}

func (b *bench) appendUnseen(workspaceID string, random *rand.Rand, count int) {
	b.t.Helper()
	var from int
	if err := b.pool.QueryRow(b.t.Context(), `SELECT coalesce(max(position), 0) FROM event_log WHERE workspace_id = $1`, workspaceID).Scan(&from); err != nil {
		b.t.Fatal(err)
	}
	for count > 0 {
		var drafts []domain.Draft
		for range min(count, 500) {
			from++
			drafts = append(drafts, draft(b.t, workspaceID, random, from))
		}
		testkit.Must(b.log.Append(b.t.Context(), drafts...))(b.t)
		count -= len(drafts)
	}
}

// show makes visible what a workspace has, as the projector does.
func (b *bench) show(workspaceID string) {
	b.t.Helper()
	b.exec(`UPDATE log_checkpoint c SET position = h.position, moved_at = now() FROM log_head h
	         WHERE h.workspace_id = c.workspace_id AND c.workspace_id = $1 AND c.consumer = 'read_models'`, workspaceID)
	b.notifier.Notify(eventlog.TopicProjected, workspaceID)
}

func (b *bench) exec(sql string, args ...any) {
	b.t.Helper()
	testkit.Must(b.pool.Exec(b.t.Context(), sql, args...))(b.t)
}

// leaf is an event of the log.
type leaf struct {
	Position int64
	Type     string
	Event    string
	Data     string
}

// needsPay is written apart from the program.
func (l *leaf) needsPay() bool {
	return l.Type == domain.TypePayoutPaid || strings.HasPrefix(l.Type, "charge.") && strings.Contains(l.Data, `"billed_to_client":false`)
}

// leaves are the events of a workspace that are visible, of a sight.
func (b *bench) leaves(workspaceID string, s eventtree.Sight) []leaf {
	b.t.Helper()
	rows := testkit.Must(b.pool.Query(b.t.Context(), `
		SELECT position, type, public_event, data::text FROM event_log e
		 WHERE workspace_id = $1 AND public_event IS NOT NULL
		   AND position <= (SELECT position FROM log_checkpoint c WHERE c.workspace_id = $1 AND c.consumer = 'read_models')
		 ORDER BY position`, workspaceID))(b.t)
	var list []leaf
	for _, l := range testkit.Must(pgx.CollectRows(rows, pgx.RowToStructByPos[leaf]))(b.t) {
		if s == eventtree.WithPay || !l.needsPay() {
			list = append(list, l)
		}
	}
	return list
}

// memory is a tree computed in memory with the package of the checksum database alone.
type memory struct{ hashes []tlog.Hash }

func (m *memory) ReadHashes(indexes []int64) ([]tlog.Hash, error) {
	list := make([]tlog.Hash, len(indexes))
	for i, index := range indexes {
		list[i] = m.hashes[index]
	}
	return list, nil
}

func inMemory(t *testing.T, leaves []leaf) *memory {
	t.Helper()
	m := &memory{}
	for i, l := range leaves {
		m.hashes = append(m.hashes, testkit.Must(tlog.StoredHashes(int64(i), []byte(l.Event), m))(t)...)
	}
	return m
}

// built waits until the trees of workspaces have everything that is visible.
func (b *bench) built(workspaceIDs ...string) {
	b.t.Helper()
	testkit.Eventually(b.t, func() error {
		states, err := eventtree.ReadStates(b.t.Context(), b.pool, workspaceIDs)
		if err != nil {
			return err
		}
		for _, id := range workspaceIDs {
			var visible int64
			if err := b.pool.QueryRow(b.t.Context(), `SELECT position FROM log_checkpoint WHERE workspace_id = $1 AND consumer = 'read_models'`, id).Scan(&visible); err != nil {
				return err
			}
			for _, s := range eventtree.Sights() {
				if at := states[id].Of(s).Position; at != visible {
					return fmt.Errorf("the tree %s of %s is of position %d, and %d is visible", s, id, at, visible)
				}
			}
		}
		return nil
	})
}

// sound compares everything that is stored of a workspace's trees with what is computed in
// memory.
func (b *bench) sound(workspaceID string) {
	b.t.Helper()
	states := testkit.Must(eventtree.ReadStates(b.t.Context(), b.pool, []string{workspaceID}))(b.t)[workspaceID]
	for _, s := range eventtree.Sights() {
		leaves := b.leaves(workspaceID, s)
		m := inMemory(b.t, leaves)
		state := states.Of(s)
		if want := testkit.Must(tlog.TreeHash(int64(len(leaves)), m))(b.t); state.Size != int64(len(leaves)) || state.Root != want {
			b.t.Fatalf("the tree %s of %s has %d leaves and root %v, want %d and %v", s, workspaceID, state.Size, state.Root, len(leaves), want)
		}
		stored := 0
		for _, tile := range tlog.NewTiles(8, 0, state.Size) {
			want := testkit.Must(tlog.ReadTileData(tile, m))(b.t)
			got, _, err := eventtree.ReadTile(b.t.Context(), b.pool, workspaceID, s, eventtree.Path{Level: tile.L, Index: tile.N, Width: tile.W})
			if err != nil || !bytes.Equal(got, want) {
				b.t.Fatalf("%s of %s: tile %s is another (%v)", s, workspaceID, tile.Path(), err)
			}
			stored++
		}
		var rows int
		if err := b.pool.QueryRow(b.t.Context(), `SELECT count(*) FROM event_tile WHERE workspace_id = $1 AND sight = $2`, workspaceID, s).Scan(&rows); err != nil || rows != stored {
			b.t.Fatalf("%d tiles are stored, want %d (%v)", rows, stored, err)
		}
	}
}
