package migrations_test

import (
	"fmt"
	"os"
	"regexp"
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
	ARRAY['evt_%d'], ARRAY['client.recorded'], ARRAY[NULL]::timestamptz[], ARRAY['{"client_id":"c","name":"C"}'], ARRAY[NULL]::text[], 1000)`

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
	text := string(testkit.Must(os.ReadFile("grants.sql"))(t))
	var names []string
	for _, table := range tablesOf(t, testkit.Pool(t)) {
		if table.Parent == "" {
			names = append(names, table.Name)
		}
	}
	revoked := regexp.MustCompile(`(?s)REVOKE ALL ON\n(.*?)\n {4}FROM`).FindStringSubmatch(text)
	if revoked == nil {
		t.Fatal("grants.sql revokes nothing")
	}
	listed := strings.FieldsFunc(revoked[1], func(r rune) bool { return r == ',' || r == ' ' || r == '\n' })
	for _, name := range names {
		if !slices.Contains(listed, name) {
			t.Errorf("grants.sql does not name %s", name)
		}
	}
}
