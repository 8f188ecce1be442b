package measure

import (
	"testing"

	"github.com/jackc/pgx/v5"
)

// TestOwnDatabase: whatever form DATABASE_URL has, what is measured is in a database of its
// own, not in the one that it names.
func TestOwnDatabase(t *testing.T) {
	t.Parallel()
	for _, address := range []string{
		"postgres://ledgerfeed@/ledgerfeed?host=%2Ftmp%2Frun&port=5432", "postgres://me:word@db.example/billing", "postgresql://me@db.example:5433/billing?sslmode=disable",
		"postgres://me@/?host=/tmp/run&dbname=billing", "postgres://me@db.example", "host=/tmp/run user=me dbname=billing", "postgres://me@/billing?database=other&host=/tmp/run",
	} {
		own, err := databaseURL(address, "own")
		if err != nil {
			t.Fatal(err)
		}
		before, err := pgx.ParseConfig(address)
		if err != nil {
			t.Fatal(err)
		}
		after, err := pgx.ParseConfig(own)
		if err != nil {
			t.Fatalf("%s: %v", own, err)
		}
		if after.Database != "own" || after.Host != before.Host || after.User != before.User || after.Password != before.Password || after.Port != before.Port {
			t.Errorf("%s: %s", address, own)
		}
	}
}
