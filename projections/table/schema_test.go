package table

import (
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
	"github.com/ledgerfeed/ledgerfeed/migrations"
)

func TestMain(m *testing.M) {
	testkit.MainAs(m, migrations.Up, migrations.ApplyGrants)
}

// The descriptions have exactly the columns, types and primary keys of the
// schema: a column that only one of them has would never be written or compared.
func TestDescriptionsMatchTheSchema(t *testing.T) {
	t.Parallel()
	pool := testkit.Pool(t)
	for _, described := range NewSet().All() {
		want := []string{"workspace_id text"}
		for _, c := range slices.Concat(described.Keys, described.Columns) {
			want = append(want, c.Name+" "+string(c.typ))
		}
		slices.Sort(want)
		if got := readTexts(t, pool, `
			SELECT attname || ' ' || atttypid::regtype FROM pg_attribute
			 WHERE attrelid = $1::regclass AND attnum > 0 AND NOT attisdropped ORDER BY attname COLLATE "C"`, described.Name); !slices.Equal(got, want) {
			t.Errorf("%s has the columns %q, described as %q", described.Name, got, want)
		}
		key := []string{"workspace_id"}
		for _, c := range described.Keys {
			key = append(key, c.Name)
		}
		if got := readTexts(t, pool, `
			SELECT attname FROM pg_index i CROSS JOIN unnest(i.indkey) WITH ORDINALITY AS k (attnum, n)
			  JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.attnum
			 WHERE i.indrelid = $1::regclass AND i.indisprimary ORDER BY k.n`, described.Name); !slices.Equal(got, key) {
			t.Errorf("%s has the primary key %q, described as %q", described.Name, got, key)
		}
	}
}

func readTexts(t *testing.T, pool querier, sql, name string) []string {
	t.Helper()
	rows, err := pool.Query(t.Context(), sql, name)
	if err != nil {
		t.Fatal(err)
	}
	got, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	return got
}
