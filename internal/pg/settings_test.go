package pg_test

import (
	"testing"

	"github.com/ledgerfeed/ledgerfeed/internal/pg"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

// TestDefaultsOfTheDatabase: texts and statements mean the same whatever the database
// has as its defaults.
func TestDefaultsOfTheDatabase(t *testing.T) {
	t.Parallel()
	database := testkit.NewDatabase(t)
	open := func() (name, hex string, octets int) {
		t.Helper()
		pool, err := pg.Open(t.Context(), database, pg.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer pool.Close()
		if err := pool.QueryRow(t.Context(), `SELECT $1::text, encode('\x00ff'::bytea, 'hex'), octet_length($1)`, "Büro").Scan(&name, &hex, &octets); err != nil {
			t.Fatal(err)
		}
		return name, hex, octets
	}
	pool, err := pg.Open(t.Context(), database, pg.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for setting, value := range map[string]string{"client_encoding": "LATIN1", "standard_conforming_strings": "off", "idle_session_timeout": "1ms"} {
		testkit.Must(pool.Exec(t.Context(), `DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET `+setting+` = %L', current_database(), '`+value+`'); END $$`))(t)
	}
	pool.Close()
	if name, hex, octets := open(); name != "Büro" || hex != "00ff" || octets != len("Büro") {
		t.Errorf("the server has taken the text for %q of %d bytes, and read %s", name, octets, hex)
	}
}
