package main

import (
	"os"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/internal/cli"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

// TestMigrateTellsBefore: --check and --dry-run say what is missing and change nothing.
func TestMigrateTellsBefore(t *testing.T) {
	t.Parallel()
	url := testkit.EmptyDatabase(t)
	for _, c := range []struct {
		args string
		code int
		says string
	}{
		{"migrate --check", cli.ExitFailed, "missing 00001_baseline.sql"},
		{"migrate --check --json", cli.ExitFailed, `{"missing":["00001_baseline.sql"`},
		{"migrate --dry-run", cli.ExitDone, "CREATE TABLE event_log"},
		{"migrate --check --dry-run", cli.ExitUsage, "check"},
		{"migrate --check", cli.ExitFailed, "ledgerfeed migrate"},
		{"migrate", cli.ExitDone, "applied 00001_baseline.sql"},
		{"migrate --check", cli.ExitDone, "up to date"},
		{"migrate --dry-run --json", cli.ExitDone, `{"missing":[]}`},
		{"migrate", cli.ExitDone, "up to date"},
	} {
		r := runCommand(t, command(t, url, strings.Fields(c.args)...))
		if r.code != c.code || !strings.Contains(r.out+r.errOut, c.says) {
			t.Errorf("%s: exit %d, want %d and %q in:\n%s%s", c.args, r.code, c.code, c.says, r.out, r.errOut)
		}
	}
}

// TestGrantsArePrintedWithoutADatabase: an administrator of PostgreSQL gets the SQL on a
// machine where the program has no database, and none is made; in the database of the
// tables it makes the roles, and the owner's part gives them their rights.
func TestGrantsArePrintedWithoutADatabase(t *testing.T) {
	t.Parallel()
	printed := map[string]string{}
	for _, what := range []string{"roles", "print"} {
		dir := t.TempDir()
		c := command(t, "", "migrate", "--grants", what, "--data-dir", dir)
		c.Env = append(c.Env, "PATH=") // no PostgreSQL could be started
		r := runCommand(t, c)
		if made := testkit.Must(os.ReadDir(dir))(t); r.code != cli.ExitDone || r.errOut != "" || len(made) > 0 {
			t.Errorf("%s: exit %d, made %v:\n%s", what, r.code, made, r.errOut)
		}
		printed[what] = r.out
	}
	rights, whole := strings.CutPrefix(printed["print"], printed["roles"])
	if !whole || rights == "" {
		t.Fatalf("print does not begin with the roles, or has no rights:\n%s", printed["print"])
	}
	// In a schema of its own, which search_path names.
	url := testkit.EmptyDatabase(t)
	db := testkit.Must(pgx.Connect(t.Context(), url))(t)
	t.Cleanup(func() { _ = db.Close(t.Context()) })
	run := func(sql string) {
		t.Helper()
		if _, err := db.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	run(`CREATE SCHEMA "Own"; SET search_path = "Own"; ` + printed["roles"])
	succeed(t, url+`&search_path=%22Own%22`, "migrate")
	run(rights)
	run(`SET ROLE ledgerfeed_service`)
	run(`SELECT FROM "Own".event_log`)
}
