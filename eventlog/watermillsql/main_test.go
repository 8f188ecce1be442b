package watermillsql_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
	"github.com/ledgerfeed/ledgerfeed/migrations"
)

func TestMain(m *testing.M) {
	testkit.Main(m, migrations.Up)
}

// noon is where the tests' clocks start; finer than a millisecond on purpose.
var noon = time.Date(2026, 10, 2, 12, 0, 0, 123_456_789, time.UTC)

func ms(n int) time.Duration { return time.Duration(n) * time.Millisecond }

// bundle is a log in a database of its own.
type bundle struct {
	pool  testkit.DB
	clock *testkit.Clock
	log   *eventlog.Log
}

func setup(t *testing.T) *bundle {
	t.Helper()
	b := &bundle{pool: testkit.Must(pg.Open(t.Context(), testkit.NewDatabase(t), pg.Options{MaxConns: 40}))(t), clock: testkit.NewClock(noon)}
	t.Cleanup(b.pool.Close)
	testkit.AnyClock(t, b.pool)
	b.log = testkit.Must(eventlog.New(eventlog.Config{Pool: b.pool, Clock: b.clock.Now}))(t)
	return b
}

func (b *bundle) workspaces() *eventlog.Workspaces {
	return eventlog.NewWorkspaces(b.pool, b.clock.Now)
}

func draft(t testing.TB, workspaceID, id, typ, data string) domain.Draft {
	t.Helper()
	d := testkit.Must(domain.NewDraft(workspaceID, typ, []byte(data)))(t)
	d.ID = id
	return d
}

// client is an internal entry: a client record whose name is the content.
func client(t testing.TB, workspaceID, id, name string) domain.Draft {
	t.Helper()
	return draft(t, workspaceID, id, "client.recorded", fmt.Sprintf(`{"client_id":"c","name":%q}`, name))
}

// sent is a public entry.
func sent(t testing.TB, workspaceID, id, invoiceID string) domain.Draft {
	t.Helper()
	return draft(t, workspaceID, id, "invoice.sent", fmt.Sprintf(`{"invoice_id":%q,"client_id":"c"}`, invoiceID))
}

func at(d domain.Draft, when time.Time) domain.Draft {
	d.CreatedAt = when
	return d
}

func many(t *testing.T, workspaceID string, n int) (drafts []domain.Draft) {
	t.Helper()
	for i := range n {
		drafts = append(drafts, client(t, workspaceID, fmt.Sprintf("e%05d", i), "n"))
	}
	return drafts
}

func (b *bundle) append(t *testing.T, drafts ...domain.Draft) {
	t.Helper()
	testkit.Must(b.log.Append(t.Context(), drafts...))(t)
}

// entries reads a log and checks its positions and its chain.
func (b *bundle) entries(t *testing.T, workspaceID string) []domain.Entry {
	t.Helper()
	entries := testkit.Must(b.log.Read(t.Context(), workspaceID, 0, 100_000))(t)
	chain := domain.Genesis(workspaceID)
	for i := range entries {
		e := &entries[i]
		if chain = e.ChainAfter(chain); e.Position != int64(i)+1 || e.Chain != chain {
			t.Fatalf("%s: entry %d has position %d and chain %x, want %x", workspaceID, i+1, e.Position, e.Chain, chain)
		}
	}
	return entries
}

func (b *bundle) ids(t *testing.T, workspaceID string) []string {
	t.Helper()
	ids := []string{}
	for _, e := range b.entries(t, workspaceID) {
		ids = append(ids, e.ID)
	}
	return ids
}

func (b *bundle) exec(t *testing.T, sql string, args ...any) {
	t.Helper()
	testkit.Must(b.pool.Exec(t.Context(), sql, args...))(t)
}

// begin starts a transaction; the end of the test rolls it back.
func (b *bundle) begin(t *testing.T) pgx.Tx {
	t.Helper()
	tx := testkit.Must(b.pool.Begin(t.Context()))(t)
	t.Cleanup(func() { _ = tx.Rollback(context.Background()) })
	return tx
}

// refusal checks that err is the refusal of the entry at index, and returns its
// detail.
func refusal(t *testing.T, err error, index int, id string, reason error) (detail string) {
	t.Helper()
	refused, ok := errors.AsType[*eventlog.RefusedError](err)
	if !ok || refused.Index != index || refused.ID != id || !errors.Is(err, reason) {
		t.Fatalf("got error %v, want the refusal of entry %d (%s): %v", err, index, id, reason)
	}
	return refused.Detail
}
