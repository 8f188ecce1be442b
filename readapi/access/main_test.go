package access

import (
	"testing"
	"time"

	"github.com/ledgerfeed/ledgerfeed/internal/brand"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
	"github.com/ledgerfeed/ledgerfeed/migrations"
)

func TestMain(m *testing.M) {
	testkit.MainAs(m, migrations.Up, migrations.ApplyGrants)
}

// start is a time in the middle of a minute, whole microseconds.
var start = time.Date(2026, 10, 2, 9, 15, 30, 123456000, time.UTC)

// bundle is a database with what makes and reads keys in it.
type bundle struct {
	pool   testkit.DB
	clock  *testkit.Clock
	format Format
	store  *Store
}

// setup makes a database with the workspaces acme and globex.
func setup(t *testing.T) *bundle {
	t.Helper()
	b := &bundle{pool: testkit.Pool(t), clock: testkit.NewClock(start), format: format(t, "SERVICE")}
	b.exec(t, `INSERT INTO workspace (workspace_id, name, created_at) VALUES ('acme', 'Acme Inc.', $1), ('globex', 'Globex', $1)`, start)
	store, err := NewStore(StoreConfig{Pool: b.pool, Format: b.format, Clock: b.clock.Now})
	if err != nil {
		t.Fatal(err)
	}
	b.store = store
	return b
}

func (b *bundle) exec(t *testing.T, sql string, args ...any) {
	t.Helper()
	if _, err := b.pool.Exec(t.Context(), sql, args...); err != nil {
		t.Fatal(err)
	}
}

// create makes a key of acme that may read invoices; change may alter it first.
func (b *bundle) create(t *testing.T, change ...func(*NewKey)) (*Record, Secret) {
	t.Helper()
	n := NewKey{WorkspaceID: "acme", Name: "Reporting", Permissions: PermissionsOf(InvoicesRead)}
	for _, f := range change {
		f(&n)
	}
	record, secret, err := b.store.Create(t.Context(), n)
	if err != nil {
		t.Fatal(err)
	}
	return record, secret
}

func (b *bundle) revoke(t *testing.T, keyID string) {
	t.Helper()
	if _, err := b.store.Revoke(t.Context(), "acme", keyID); err != nil {
		t.Fatal(err)
	}
}

func (b *bundle) rotate(t *testing.T, keyID string, overlap time.Duration) Secret {
	t.Helper()
	_, secret, err := b.store.Rotate(t.Context(), "acme", keyID, overlap)
	if err != nil {
		t.Fatal(err)
	}
	return secret
}

func format(t *testing.T, name string) Format {
	t.Helper()
	return NewFormat(testkit.Must(brand.Parse(name))(t))
}
