package eventlog_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
	"github.com/ledgerfeed/ledgerfeed/migrations"
)

func TestMain(m *testing.M) {
	testkit.Main(m, migrations.Up, testkit.Waits)
}

// timeout is how long a test waits for what must come: long enough for a machine
// that has much else to do.
const timeout = time.Minute

// noon is where the tests' clocks start; finer than a millisecond on purpose.
var noon = time.Date(2026, 10, 2, 12, 0, 0, 123_456_789, time.UTC)

// bundle is a log in a database of its own.
type bundle struct {
	pool  testkit.DB
	clock *testkit.Clock
	log   *eventlog.Log

	metrics *prometheus.Registry // of further logs
}

func setup(t *testing.T) *bundle {
	t.Helper()
	b := &bundle{pool: testkit.Pool(t), clock: testkit.NewClock(noon), metrics: prometheus.NewRegistry()}
	testkit.AnyClock(t, b.pool)
	b.log = newLog(t, eventlog.Config{Pool: b.pool, Clock: b.clock.Now})
	return b
}

func (b *bundle) workspaces() *eventlog.Workspaces {
	return eventlog.NewWorkspaces(b.pool, b.clock.Now)
}

func newLog(t testing.TB, cfg eventlog.Config) *eventlog.Log {
	t.Helper()
	l, err := eventlog.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// wide is a pool of the database at url that many goroutines can share.
func wide(t testing.TB, url string, conns int32) testkit.DB {
	t.Helper()
	return testkit.OpenPool(t, url, conns)
}

// client is an internal entry: a client record whose name is the content.
func client(t testing.TB, workspaceID, id, name string) domain.Draft {
	t.Helper()
	d, err := domain.NewDraft(workspaceID, "client.recorded", fmt.Appendf(nil, `{"client_id":"c","name":%q}`, name))
	if err != nil {
		t.Fatal(err)
	}
	d.ID = id
	return d
}

// sent is a public entry.
func sent(t testing.TB, workspaceID, id, invoiceID string) domain.Draft {
	t.Helper()
	d, err := domain.NewDraft(workspaceID, "invoice.sent", fmt.Appendf(nil, `{"invoice_id":%q,"client_id":"c"}`, invoiceID))
	if err != nil {
		t.Fatal(err)
	}
	d.ID = id
	return d
}

func at(d domain.Draft, when time.Time) domain.Draft {
	d.CreatedAt = when
	return d
}

func (b *bundle) append(t *testing.T, drafts ...domain.Draft) []eventlog.Receipt {
	t.Helper()
	receipts, err := b.log.Append(t.Context(), drafts...)
	if err != nil {
		t.Fatal(err)
	}
	return receipts
}

func (b *bundle) entries(t *testing.T, workspaceID string) []domain.Entry {
	t.Helper()
	entries, err := b.log.Read(t.Context(), workspaceID, 0, 100_000)
	if err != nil {
		t.Fatal(err)
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
	if _, err := b.pool.Exec(t.Context(), sql, args...); err != nil {
		t.Fatal(err)
	}
}

// begin starts a transaction; the end of the test rolls it back.
func (b *bundle) begin(t *testing.T) pgx.Tx {
	t.Helper()
	tx, err := b.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tx.Rollback(context.Background()) })
	return tx
}

// refusal checks that err is the refusal of the entry at index, and returns its
// detail.
func refusal(t *testing.T, err error, index int, id string, reason error) (detail string) {
	t.Helper()
	var refused *eventlog.RefusedError
	if !errors.As(err, &refused) {
		t.Fatalf("got error %v, want the refusal of %s", err, id)
	}
	if refused.Index != index || refused.ID != id || !errors.Is(err, reason) {
		t.Fatalf("refused entry %d (%s): %v; want entry %d (%s): %v", refused.Index, refused.ID, err, index, id, reason)
	}
	return refused.Detail
}

// soundLog checks the invariants of a log: positions 1…n,
// times that never fall, the chain, the public form and the head.
func (b *bundle) soundLog(t *testing.T, workspaceID string) []domain.Entry {
	t.Helper()
	entries := b.entries(t, workspaceID)
	chain := domain.Genesis(workspaceID)
	var newest time.Time
	for i := range entries {
		e := &entries[i]
		if e.Position != int64(i)+1 {
			t.Fatalf("%s: position %d follows %d", workspaceID, e.Position, i)
		}
		if e.CreatedAt.Before(newest) {
			t.Fatalf("%s: entry %d was published at %v, before %v", workspaceID, e.Position, e.CreatedAt, newest)
		}
		newest = e.CreatedAt
		if chain = e.ChainAfter(chain); e.Chain != chain {
			t.Fatalf("%s: entry %d carries chain %x, want %x", workspaceID, e.Position, e.Chain, chain)
		}
	}
	head, err := b.log.Head(t.Context(), workspaceID)
	if err != nil {
		t.Fatal(err)
	}
	want := eventlog.Head{Position: int64(len(entries)), CreatedAt: newest, Chain: chain}
	if head != want {
		t.Fatalf("%s: head %+v, want %+v", workspaceID, head, want)
	}
	b.soundPublicForms(t, workspaceID, entries)
	return entries
}

func (b *bundle) soundPublicForms(t *testing.T, workspaceID string, entries []domain.Entry) {
	t.Helper()
	rows, err := b.pool.Query(t.Context(), `
		SELECT coalesce(public_event, '') FROM event_log WHERE workspace_id = $1 ORDER BY position`, workspaceID)
	if err != nil {
		t.Fatal(err)
	}
	stored, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	for i := range entries {
		if want := entries[i].PublicEvent(); stored[i] != want {
			t.Fatalf("%s: entry %d shows %s, want %s", workspaceID, i+1, stored[i], want)
		}
	}
}
