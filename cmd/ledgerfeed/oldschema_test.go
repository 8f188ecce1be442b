package main

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/internal/cli"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
	"github.com/ledgerfeed/ledgerfeed/migrations"
)

// waiting starts a process that has to wait for a migration, and returns the address of
// its listener for operators.
func waiting(t *testing.T, url string, args ...string) (p *process, admin string) {
	t.Helper()
	p = startProcess(t, command(t, url, append([]string{"serve"}, args...)...))
	return p, strings.TrimSuffix(strings.TrimSpace(p.await("readiness=")), "/readyz")
}

// says waits until /readyz says "not ready" with a text, or "ready" for an empty one.
func says(t *testing.T, admin, text string) {
	t.Helper()
	testkit.Eventually(t, func() error {
		status, body := bodyOf(t, admin+"/readyz")
		if text == "" && status == http.StatusOK || text != "" && status == http.StatusServiceUnavailable && strings.Contains(body, text) {
			return nil
		}
		return fmt.Errorf("%d %s, want %q", status, body, text)
	})
}

// TestServeWaitsForTheMigration: a process whose account may not migrate, with and without
// --no-migrate, is alive and not ready on an older schema, says what to do, serves nothing,
// and starts by itself when the owner of the tables has migrated and given the rights.
func TestServeWaitsForTheMigration(t *testing.T) {
	t.Parallel()
	owner := testkit.NewDatabase(t)
	if err := migrations.ApplyGrants(t.Context(), owner); err != nil {
		t.Fatal(err)
	}
	db := testkit.Must(pgx.Connect(t.Context(), owner))(t)
	t.Cleanup(func() { _ = db.Close(t.Context()) })
	// A schema without its newest migration, and a table whose rights are not given yet, as
	// between migrate and migrate --grants apply.
	var newest string
	if err := db.QueryRow(t.Context(), `DELETE FROM goose_db_version WHERE version_id = (SELECT max(version_id) FROM goose_db_version) RETURNING version_id`).Scan(&newest); err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec(t.Context(), `REVOKE ALL ON webhook FROM ledgerfeed_service`); err != nil {
		t.Fatal(err)
	}
	service := owner + "&role=" + migrations.RoleService
	first, admin := waiting(t, service)
	second, other := waiting(t, service, "--no-migrate")
	for _, address := range []string{admin, other} {
		says(t, address, "1 migration is missing")
		says(t, address, "run ledgerfeed migrate as the owner of the tables")
		if status := statusOf(t, address+"/healthz"); status != http.StatusOK {
			t.Errorf("/healthz answers %d", status)
		}
		if _, metrics := bodyOf(t, address+"/metrics"); !strings.Contains(metrics, "ledgerfeed_ready 0") {
			t.Error("the metric says ready")
		}
	}
	if r := runCommand(t, command(t, service, "migrate", "--check")); r.code != cli.ExitFailed || !strings.Contains(r.out, "missing 0000"+newest) {
		t.Errorf("migrate --check: %+v", r)
	}
	for _, p := range []*process{first, second} {
		if strings.Contains(p.log.String(), "listening") {
			t.Errorf("it serves:\n%s", p.log)
		}
	}
	if code := second.stop(); code != cli.ExitDone {
		t.Errorf("a process that waits ended with %d:\n%s", code, second.log)
	}
	if _, err := db.Exec(t.Context(), `INSERT INTO goose_db_version (version_id, is_applied) VALUES ($1, true)`, newest); err != nil {
		t.Fatal(err)
	}
	says(t, admin, "may not read [webhook]: run ledgerfeed migrate --grants apply")
	succeed(t, owner, "migrate", "--grants", "apply")
	says(t, admin, "")
	if status := statusOf(t, apiOf(first)+"/v1/me"); status != http.StatusUnauthorized {
		t.Errorf("the API answers %d", status)
	}
}

// TestServeBeforeTheFirstMigration: what starts before anybody has made the tables waits,
// too, such as beside a job that makes them.
func TestServeBeforeTheFirstMigration(t *testing.T) {
	t.Parallel()
	url := testkit.EmptyDatabase(t)
	serving, admin := waiting(t, url, "--no-migrate")
	says(t, admin, "the first is 00001_baseline.sql")
	succeed(t, url, "migrate")
	says(t, admin, "")
	if code := serving.stop(); code != cli.ExitDone {
		t.Errorf("it ended with %d:\n%s", code, serving.log)
	}
}
