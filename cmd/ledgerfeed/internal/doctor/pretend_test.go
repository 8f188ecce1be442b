package doctor

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
	"github.com/ledgerfeed/ledgerfeed/migrations"
)

// pretends puts functions and views of the tests before PostgreSQL's own, so that the
// server seems to be what it is not.
func (p *patient) pretends(sql string) {
	p.t.Helper()
	p.exec(`DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET search_path TO public, pg_catalog', current_database()); END $$`)
	p.exec(sql)
	testkit.AsPool(p.pool).Reset()
}

// hasSetting pretends that a setting of the server has a value.
func (p *patient) hasSetting(name, value string) {
	p.t.Helper()
	p.pretends(fmt.Sprintf(`
		CREATE OR REPLACE FUNCTION public.current_setting(name text) RETURNS text LANGUAGE sql STABLE AS
		$$ SELECT CASE name WHEN '%s' THEN '%s' ELSE pg_catalog.current_setting(name) END $$`, name, value))
}

func TestOldServer(t *testing.T) {
	t.Parallel()
	p := newPatient(t)
	p.finds("version", OK, "PostgreSQL")
	p.hasSetting("server_version_num", "140009")
	p.finds("version", Error, "PostgreSQL ")
	_, err := migrations.Up(t.Context(), p.db.URL)
	if err == nil || !strings.Contains(err.Error(), "the program needs version 15 or newer") {
		t.Errorf("the migrations say %v", err)
	}
}

func TestServerSettings(t *testing.T) {
	t.Parallel()
	t.Run("connections", func(t *testing.T) {
		t.Parallel()
		p := newPatient(t)
		p.finds("connections", OK, "are in use")
		p.hasSetting("max_connections", "20")
		p.finds("connections", Warning, "of 20 connections are in use")
	})
	t.Run("vacuum", func(t *testing.T) {
		t.Parallel()
		p := newPatient(t)
		p.finds("vacuum", OK, "autovacuum is on")
		p.hasSetting("autovacuum", "off")
		p.finds("vacuum", Error, "autovacuum is off")
	})
	t.Run("age", func(t *testing.T) {
		t.Parallel()
		p := newPatient(t)
		p.pretends(`CREATE FUNCTION public.age(xid) RETURNS integer LANGUAGE sql AS 'SELECT 1500000000'`)
		p.finds("vacuum", Error, "1500000000 back")
	})
	for _, setting := range []string{"fsync", "full_page_writes", "synchronous_commit"} {
		t.Run(setting, func(t *testing.T) {
			t.Parallel()
			p := newPatient(t)
			p.pretends(`CREATE VIEW public.pg_settings AS SELECT name, CASE WHEN name = '` + setting + `' THEN 'off' ELSE 'on' END AS setting FROM pg_catalog.pg_settings`)
			p.finds("durability", Error, setting+" is off")
			p.exec(`CREATE OR REPLACE VIEW public.pg_settings AS SELECT name, 'on' AS setting FROM pg_catalog.pg_settings`)
			p.finds("durability", OK, "loses nothing")
		})
	}
}

// TestForgottenTransaction: a session whose transaction is open for long is named.
func TestForgottenTransaction(t *testing.T) {
	t.Parallel()
	p := newPatient(t)
	cfg := testkit.Must(pgx.ParseConfig(p.db.URL))(t)
	cfg.RuntimeParams["application_name"] = "a forgotten psql"
	conn := testkit.Must(pgx.ConnectConfig(t.Context(), cfg))(t)
	t.Cleanup(func() { _ = conn.Close(t.Context()) })
	testkit.Must(conn.Exec(t.Context(), "BEGIN"))(t)
	p.finds("transactions", OK, "none has been open for long")
	p.pretends(`
		CREATE VIEW public.pg_stat_activity AS
		SELECT datname, pid, application_name, usename, client_addr, backend_type, backend_start, state, query, query_start, wait_event_type,
		       CASE WHEN application_name = 'a forgotten psql' THEN xact_start - interval '16 minutes' ELSE xact_start END AS xact_start
		  FROM pg_catalog.pg_stat_activity`)
	p.finds("transactions", Warning, "(a forgotten psql) has had a transaction open for 16m")
}

// TestLongProjection: a projector's transaction is named when it has been open for a minute,
// and one that only reads a checkpoint is not.
func TestLongProjection(t *testing.T) {
	t.Parallel()
	p := newPatient(t)
	cfg := testkit.Must(pgx.ParseConfig(p.db.URL))(t)
	cfg.RuntimeParams["application_name"] = "a projector"
	conn := testkit.Must(pgx.ConnectConfig(t.Context(), cfg))(t)
	t.Cleanup(func() { _ = conn.Close(t.Context()) })
	testkit.Must(conn.Exec(t.Context(), "BEGIN"))(t)
	testkit.Must(conn.Exec(t.Context(), "SELECT FROM log_checkpoint"))(t)
	p.pretends(`
		CREATE VIEW public.pg_stat_activity AS
		SELECT datname, pid, application_name, usename, client_addr, backend_type, backend_start, state, query, query_start, wait_event_type,
		       CASE WHEN application_name = 'a projector' THEN xact_start - interval '5 minutes 55 seconds' ELSE xact_start END AS xact_start
		  FROM pg_catalog.pg_stat_activity`)
	p.finds("transactions", OK, "none has been open for long")
	testkit.Must(conn.Exec(t.Context(), "SELECT FROM log_checkpoint FOR UPDATE"))(t)
	p.finds("transactions", Warning, "(a projector) has had a transaction open for 5m")
}

// TestLockedTable: a session with an exclusive lock on a table is named, and so is how many wait for
// it. A check of that table says so at once.
func TestLockedTable(t *testing.T) {
	t.Parallel()
	p := newPatient(t)
	p.finds("locks", OK, "no session has blocked others")
	p.pretends(`
		CREATE VIEW public.pg_stat_activity AS
		SELECT datname, pid, application_name, usename, client_addr, backend_type, backend_start, state, query, wait_event_type,
		       query_start - interval '1 minute' AS query_start, xact_start - interval '1 minute' AS xact_start
		  FROM pg_catalog.pg_stat_activity`)
	cfg := testkit.Must(pgx.ParseConfig(p.db.URL))(t)
	cfg.RuntimeParams["application_name"] = "a long ALTER"
	conn := testkit.Must(pgx.ConnectConfig(t.Context(), cfg))(t)
	t.Cleanup(func() { _ = conn.Close(t.Context()) })
	testkit.Must(conn.Exec(t.Context(), "BEGIN; LOCK TABLE webhook"))(t)
	p.pool = testkit.Must(pgxpool.New(t.Context(), p.db.URL+"&lock_timeout=20ms"))(t) // the command's is a second
	t.Cleanup(testkit.AsPool(p.pool).Close)
	p.finds("locks", Error, "(a long ALTER) has had its transaction open for 1m")
	p.finds("locks", Error, "holds a lock on webhook that stops every other session there")
	p.finds("webhooks", Error, "a session holds a lock on a table that it reads")
	waits := make(chan error, 1)
	waiter := testkit.Must(pgx.Connect(t.Context(), p.db.URL))(t)
	go func() {
		_, err := waiter.Exec(context.WithoutCancel(t.Context()), "BEGIN; LOCK TABLE charge; SELECT FROM webhook")
		waits <- errors.Join(err, waiter.Close(context.WithoutCancel(t.Context())))
	}()
	testkit.Eventually(t, func() error {
		list := testkit.Must(checkLocks(t.Context(), p.examination))(t)
		if len(list) != 1 || !strings.Contains(list[0].Text, "1 session waits for it") {
			return fmt.Errorf("%+v", list)
		}
		return nil
	})
	testkit.Must(conn.Exec(t.Context(), "ROLLBACK"))(t)
	if err := <-waits; err != nil {
		t.Error(err)
	}
	p.finds("API keys", OK, "")
}

// TestMissingRight: a table that the role may not read is named.
func TestMissingRight(t *testing.T) {
	t.Parallel()
	p := newPatient(t)
	p.asService(`REVOKE SELECT ON charge FROM ` + migrations.RoleService)
	p.finds("privileges", Error, "may not read [charge]")
}
