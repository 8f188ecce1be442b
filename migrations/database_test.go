package migrations_test

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/internal/pg"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
	"github.com/ledgerfeed/ledgerfeed/migrations"
)

// TestTimeoutsOfTheDatabase: migrations are made whatever timeouts the database has for
// connections that do not set their own.
func TestTimeoutsOfTheDatabase(t *testing.T) {
	t.Parallel()
	testkit.Unpooled(t, "the server's connections are the pooler's")
	database := testkit.EmptyDatabase(t)
	owner := testkit.Must(pgx.Connect(t.Context(), database))(t)
	defer owner.Close(t.Context())
	for _, name := range []string{"statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout"} {
		testkit.Must(owner.Exec(t.Context(), `DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET `+name+` = 1', current_database()); END $$`))(t)
	}
	if _, err := migrations.Up(t.Context(), database); err != nil {
		t.Fatal(err)
	}
	if err := migrations.ApplyGrants(t.Context(), database); err != nil {
		t.Error(err)
	}
	pool := testkit.Must(pg.Open(t.Context(), database, pg.Options{}))(t)
	defer pool.Close()
	testkit.Must(pool.Exec(t.Context(), `SELECT webhook_delivery_days(current_date, current_date)`))(t)
	testkit.Must(pool.Exec(t.Context(), `SELECT pg_sleep(0.01)`))(t)
}

// TestOtherEncodings: a database that is not UTF8 is refused before anything is made in it.
func TestOtherEncodings(t *testing.T) {
	t.Parallel()
	server := testkit.Must(pgx.Connect(t.Context(), testkit.Direct(testkit.EmptyDatabase(t))))(t)
	defer server.Close(t.Context())
	for _, encoding := range []string{"LATIN1", "EUC_JP", "SQL_ASCII"} {
		name := server.Config().Database + "_" + strings.ToLower(encoding)
		testkit.Must(server.Exec(t.Context(), `CREATE DATABASE `+pgx.Identifier{name}.Sanitize()+` ENCODING '`+encoding+`' LOCALE 'C' TEMPLATE template0`))(t)
		t.Cleanup(func() {
			admin := testkit.Must(pgx.Connect(context.Background(), server.Config().ConnString()))(t)
			defer admin.Close(context.Background())
			testkit.Must(admin.Exec(context.Background(), `DROP DATABASE `+pgx.Identifier{name}.Sanitize()))(t)
		})
		at := testkit.Must(url.Parse(server.Config().ConnString()))(t)
		at.Path = "/" + name
		_, missing := migrations.Missing(t.Context(), at.String()) // of migrate --check, and of serve --no-migrate
		_, up := migrations.Up(t.Context(), at.String())
		for _, err := range []error{missing, up} {
			if _, ok := errors.AsType[*pg.EncodingError](err); !ok || !strings.Contains(err.Error(), encoding) ||
				!strings.Contains(err.Error(), `CREATE DATABASE "`+name+`_utf8" ENCODING 'UTF8' LOCALE 'C' TEMPLATE template0;`) {
				t.Errorf("%s: %v", encoding, err)
			}
		}
		if f := fit(t, at.String()); f != migrations.Absent {
			t.Errorf("%s: something was made: %v", encoding, f)
		}
	}
}
