package migrations_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/internal/pg"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
	"github.com/ledgerfeed/ledgerfeed/migrations"
)

// as connects with a role of a database.
func as(t *testing.T, url, role string) *pgx.Conn {
	t.Helper()
	conn := testkit.Must(pgx.Connect(t.Context(), url))(t)
	t.Cleanup(func() { _ = conn.Close(t.Context()) })
	if _, err := conn.Exec(t.Context(), "SET ROLE "+role); err != nil {
		t.Fatal(err)
	}
	return conn
}

const appendOne = `SELECT positions FROM log_append('acme', clock_timestamp(), NULL, false,
	ARRAY['evt_%d'], ARRAY['client.recorded'], ARRAY[NULL]::timestamptz[], ARRAY['{"client_id":"c","name":"C"}'], ARRAY[NULL]::text[], NULL, NULL, 1000)`

// TestRoles: each role may do what it is for, and nothing that it must not.
func TestRoles(t *testing.T) {
	t.Parallel()
	url := testkit.NewDatabase(t)
	for range 2 { // it can be run again
		if err := migrations.ApplyGrants(t.Context(), url); err != nil {
			t.Fatal(err)
		}
	}
	const (
		yes = true
		no  = false
	)
	for i, c := range []struct {
		role, sql string
		may       bool
	}{
		{migrations.RoleWriter, fmt.Sprintf(appendOne, 1), yes},
		{migrations.RoleWriter, `SELECT log_publish('acme', clock_timestamp(), '[]')`, yes},
		{migrations.RoleWriter, `SELECT FROM event_log`, no},
		{migrations.RoleWriter, `SELECT FROM log_head`, no},
		{migrations.RoleWriter, `SELECT FROM invoice`, no},
		{migrations.RoleWriter, `SELECT FROM webhook`, no},
		{migrations.RoleWriter, `SELECT workspace_create('other', 'Other', now())`, no},
		{migrations.RoleWriter, `SELECT workspace_unmake('acme')`, no},
		{migrations.RoleWriter, `SELECT webhook_delivery_days(current_date, current_date)`, no},
		{migrations.RoleService, fmt.Sprintf(appendOne, 2), yes},
		{migrations.RoleService, `SELECT workspace_create('other', 'Other', now())`, yes},
		{migrations.RoleService, `SELECT webhook_delivery_days(current_date, current_date - 30)`, yes},
		{migrations.RoleService, `TRUNCATE request_log_00`, yes},
		{migrations.RoleService, `INSERT INTO event_log SELECT * FROM event_log`, no},
		{migrations.RoleService, `UPDATE event_log SET data = '{}'`, no},
		{migrations.RoleService, `DELETE FROM event_log`, no},
		{migrations.RoleService, `TRUNCATE event_log`, no},
		{migrations.RoleService, `ALTER TABLE event_log DISABLE TRIGGER ALL`, no},
		{migrations.RoleService, `SET session_replication_role = replica`, no},
		{migrations.RoleService, `DROP TABLE webhook_delivery_other`, no},
		{migrations.RoleService, `UPDATE log_head SET chain = ''`, no},
		{migrations.RoleService, `SELECT workspace_unmake('acme')`, no},
		{migrations.RoleService, `UPDATE console_audit SET detail = ''`, no},
		{migrations.RoleService, `DELETE FROM console_audit`, no},
		{migrations.RoleService, `CREATE TABLE its_own ()`, no},
		{migrations.RoleService, `CREATE OR REPLACE FUNCTION log_clock() RETURNS timestamptz LANGUAGE sql RETURN NULL::timestamptz`, no},
		{migrations.RoleAuditor, `SELECT data FROM event_log`, yes},
		{migrations.RoleAuditor, `SELECT FROM invoice`, yes},
		{migrations.RoleAuditor, `CREATE TEMPORARY TABLE shadow (LIKE invoice)`, yes},
		{migrations.RoleWriter, `CREATE TEMPORARY TABLE shadow (LIKE pg_class)`, no},
		{migrations.RoleAuditor, `DELETE FROM invoice`, no},
		{migrations.RoleAuditor, fmt.Sprintf(appendOne, 3), no},
		{migrations.RoleAuditor, `SELECT FROM webhook`, no},
		{migrations.RoleAuditor, `SELECT FROM api_key`, no},
		{migrations.RoleAuditor, `SELECT FROM service_key`, no},
		{migrations.RoleAuditor, `SELECT FROM console_session`, no},
		{"pg_monitor", fmt.Sprintf(appendOne, 4), no}, // a role that has nothing to do with the program
	} {
		_, err := as(t, url, c.role).Exec(t.Context(), c.sql)
		if c.may && err != nil || !c.may && !pg.Forbidden(err) && !mustOwn(err) {
			t.Errorf("%d: %s: %s: %v", i, c.role, c.sql, err)
		}
	}
}

// mustOwn reports PostgreSQL's other way to say that a right is missing.
func mustOwn(err error) bool {
	return err != nil && (strings.Contains(err.Error(), "must be owner") || strings.Contains(err.Error(), "permission denied"))
}

// TestFunctionsOfTheOwnerSeeNoOtherTables: a table of the caller's that has the name of
// one of the program's is not used in its place.
func TestFunctionsOfTheOwnerSeeNoOtherTables(t *testing.T) {
	t.Parallel()
	url := testkit.NewDatabase(t)
	if err := migrations.ApplyGrants(t.Context(), url); err != nil {
		t.Fatal(err)
	}
	conn := as(t, url, migrations.RoleAuditor)
	for _, sql := range []string{
		`CREATE TEMPORARY TABLE log_head (LIKE public.log_head)`,
		`CREATE TEMPORARY TABLE event_log (LIKE public.event_log)`,
		`RESET ROLE`, `SET ROLE ` + migrations.RoleService, fmt.Sprintf(appendOne, 1),
	} {
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
	var n int
	if err := as(t, url, migrations.RoleAuditor).QueryRow(t.Context(), `SELECT count(*) FROM public.event_log`).Scan(&n); err != nil || n != 1 {
		t.Errorf("the log has %d entries, %v", n, err)
	}
}

// TestGrantsNameEveryTable: what a later migration adds is decided about.
func TestGrantsNameEveryTable(t *testing.T) {
	t.Parallel()
	names := []string{"goose_db_version"} // which says what was migrated
	for _, table := range tablesOf(t, testkit.Pool(t)) {
		if table.Parent == "" {
			names = append(names, table.Name)
		}
	}
	listed := migrations.Tables()
	slices.Sort(names)
	slices.Sort(listed)
	if !slices.Equal(listed, names) {
		t.Errorf("grants.sql names\n%v\nthe tables are\n%v", listed, names)
	}
}

// TestProducersCannotBreakTheLog: what the program checks before it appends, the
// database checks for accounts that append without it.
func TestProducersCannotBreakTheLog(t *testing.T) {
	t.Parallel()
	url := testkit.NewDatabase(t)
	if err := migrations.ApplyGrants(t.Context(), url); err != nil {
		t.Fatal(err)
	}
	owner := testkit.Must(pgx.Connect(t.Context(), url))(t)
	t.Cleanup(func() { _ = owner.Close(t.Context()) })
	// A session's account and its role are two things.
	for _, sql := range []string{`CREATE ROLE some_producer LOGIN IN ROLE ledgerfeed_writer`, `SET SESSION AUTHORIZATION some_producer`} {
		if _, err := owner.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	one := func(now, id, typ, created, data, public string, restore bool) error {
		_, err := owner.Exec(t.Context(), `SELECT log_append('acme', `+now+`, NULL, false, ARRAY[$1], ARRAY[$2], ARRAY[$3]::timestamptz[], ARRAY[$4], ARRAY[nullif($5, '')], NULL, NULL, 1000, $6)`,
			id, typ, created, data, public, restore)
		return err
	}
	const data, public = `{"invoice_id":"i"}`, `{"object_type":"invoice","invoice_id":"i"}`
	if err := one("clock_timestamp()", "e1", "invoice.reversed", "2026-01-01Z", data, public, false); err != nil {
		t.Fatal(err)
	}
	for what, err := range map[string]error{
		"no time":           one("NULL", "e2", "invoice.reversed", "4000-01-01Z", data, public, false),
		"restore":           one("clock_timestamp()", "e2", "invoice.reversed", "4000-01-01Z", data, public, true),
		"line break in id":  one("clock_timestamp()", "e\r\nX: 1", "invoice.reversed", "2026-01-02Z", data, public, false),
		"quote in id":       one("clock_timestamp()", `e"`, "invoice.reversed", "2026-01-02Z", data, public, false),
		"long id":           one("clock_timestamp()", strings.Repeat("e", 65), "invoice.reversed", "2026-01-02Z", data, public, false),
		"escape in type":    one("clock_timestamp()", "e2", "\x1b[2Jinvoice.reversed", "2026-01-02Z", data, public, false),
		"data is null":      one("clock_timestamp()", "e2", "invoice.reversed", "2026-01-02Z", "null", public, false),
		"data is no JSON":   one("clock_timestamp()", "e2", "invoice.reversed", "2026-01-02Z", "{", public, false),
		"data is large":     one("clock_timestamp()", "e2", "invoice.reversed", "2026-01-02Z", `{"x":"`+strings.Repeat("x", 200_000)+`"}`, public, false),
		"public is no JSON": one("clock_timestamp()", "e2", "invoice.reversed", "2026-01-02Z", data, `not json, "a":1`, false),
		"public is large":   one("clock_timestamp()", "e2", "invoice.reversed", "2026-01-02Z", data, `{"x":"`+strings.Repeat("x", 200_000)+`"}`, false),
		"before 1970": func() error {
			_, err := owner.Exec(t.Context(), `SELECT log_append('new', clock_timestamp(), NULL, false, ARRAY['e1'], ARRAY['invoice.reversed'], ARRAY['0044-03-15 BC'::timestamptz], ARRAY['{}'], ARRAY[NULL]::text[], NULL, NULL, 1000)`)
			return err
		}(),
	} {
		if err == nil {
			t.Errorf("%s is appended", what)
		}
	}
	if _, err := owner.Exec(t.Context(), `RESET SESSION AUTHORIZATION`); err != nil {
		t.Fatal(err)
	}
	// Lines of an export of older logs stay as they are, and the owner restores.
	if err := one("clock_timestamp()", "e3", "invoice.reversed", "2030-01-01Z", data, public, true); err != nil {
		t.Errorf("the owner: %v", err)
	}
}

// TestApplyTakesRightsAway: what the roles had besides, and what everybody may do in a
// database that comes from an older PostgreSQL.
func TestApplyTakesRightsAway(t *testing.T) {
	t.Parallel()
	url := testkit.NewDatabase(t)
	if err := migrations.ApplyGrants(t.Context(), url); err != nil {
		t.Fatal(err)
	}
	owner := testkit.Must(pgx.Connect(t.Context(), url))(t)
	t.Cleanup(func() { _ = owner.Close(t.Context()) })
	if _, err := owner.Exec(t.Context(), `
		GRANT CREATE ON SCHEMA public TO PUBLIC, ledgerfeed_writer;
		GRANT EXECUTE ON FUNCTION log_append TO ledgerfeed_auditor, PUBLIC;
		GRANT EXECUTE ON FUNCTION workspace_unmake TO ledgerfeed_auditor;
		GRANT SELECT, INSERT ON webhook_delivery_other TO ledgerfeed_auditor;
		GRANT DELETE ON event_log TO ledgerfeed_service`); err != nil {
		t.Fatal(err)
	}
	if err := migrations.ApplyGrants(t.Context(), url); err != nil {
		t.Fatal(err)
	}
	for _, c := range [][2]string{
		{migrations.RoleWriter, `CREATE TABLE its_own ()`},
		{migrations.RoleAuditor, fmt.Sprintf(appendOne, 1)},
		{"pg_monitor", fmt.Sprintf(appendOne, 1)},
		{migrations.RoleAuditor, `SELECT workspace_unmake('acme')`},
		{migrations.RoleAuditor, `SELECT FROM webhook_delivery_other`},
		{migrations.RoleService, `DELETE FROM event_log`},
	} {
		if _, err := as(t, url, c[0]).Exec(t.Context(), c[1]); !pg.Forbidden(err) {
			t.Errorf("%s: %s: %v", c[0], c[1], err)
		}
	}
}
