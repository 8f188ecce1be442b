package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

// TestReadinessIsThatOfEachRole: what a role needs for its work is tried, so that a
// database that answers some questions and not others is noticed.
func TestReadinessIsThatOfEachRole(t *testing.T) {
	t.Parallel()
	url := testkit.NewDatabase(t)
	serving := startProcess(t, command(t, url, "serve"))
	admin := strings.TrimSpace(strings.TrimPrefix(serving.await("for=admin"), " url="))
	pool := testkit.Must(pgxpool.New(t.Context(), url))(t)
	t.Cleanup(pool.Close)
	// await waits until the roles that are not ready are these, with a reason.
	await := func(roles ...string) {
		t.Helper()
		testkit.Eventually(t, func() error {
			status, text := bodyOf(t, admin+"/readyz")
			var answer struct {
				Ready   bool
				Reasons []struct{ Role, Reason string }
			}
			if err := json.Unmarshal([]byte(text), &answer); err != nil {
				return fmt.Errorf("%s: %w", text, err)
			}
			var found []string
			for _, r := range answer.Reasons {
				if r.Reason == "" {
					return errors.New("no reason in " + text)
				}
				found = append(found, r.Role)
			}
			if strings.Join(found, " ") != strings.Join(roles, " ") || answer.Ready != (len(roles) == 0) || (status == http.StatusOK) != answer.Ready {
				return fmt.Errorf("%d %s, want %v not ready", status, text, roles)
			}
			return nil
		})
	}
	await()
	for _, c := range []struct{ table, column, role string }{
		{"invoice", "", "api"}, {"log_checkpoint", "segment_max", "project"}, {"webhook_cursor", "", "deliver"}, {"workspace", "", "console"},
	} {
		take, giveBack := "ALTER TABLE "+c.table+" RENAME TO gone", "ALTER TABLE gone RENAME TO "+c.table
		if c.column != "" {
			take, giveBack = "ALTER TABLE "+c.table+" RENAME "+c.column+" TO gone", "ALTER TABLE "+c.table+" RENAME gone TO "+c.column
		}
		if _, err := pool.Exec(t.Context(), take); err != nil {
			t.Fatal(err)
		}
		await(c.role)
		if status := statusOf(t, admin+"/healthz"); status != http.StatusOK {
			t.Errorf("without %s, /healthz is answered %d: the process would be restarted", c.table, status)
		}
		for _, role := range []string{"api", "project", "deliver", "console"} {
			want := http.StatusOK
			if role == c.role {
				want = http.StatusServiceUnavailable
			}
			if status := statusOf(t, admin+"/readyz?role="+role); status != want {
				t.Errorf("without %s, the role %s is answered %d", c.table, role, status)
			}
		}
		if _, err := pool.Exec(t.Context(), giveBack); err != nil {
			t.Fatal(err)
		}
		await()
	}
	// A function fails as it does after libraries were replaced under a running server.
	if _, err := pool.Exec(t.Context(), "ALTER FUNCTION log_position_since(text, timestamptz) RENAME TO gone"); err != nil {
		t.Fatal(err)
	}
	await("api")
}

// TestProfilesAreOff: nobody gets profiles unless the setting says so.
func TestProfilesAreOff(t *testing.T) {
	t.Parallel()
	for setting, want := range map[string]int{"false": http.StatusNotFound, "true": http.StatusOK} {
		c := command(t, testkit.NewDatabase(t), "serve", "--roles", "api")
		c.Env = append(c.Env, "LEDGERFEED_PPROF="+setting)
		serving := startProcess(t, c)
		admin := strings.TrimSpace(strings.TrimPrefix(serving.await("for=admin"), " url="))
		for _, path := range []string{"/debug/pprof/", "/debug/pprof/heap", "/debug/pprof/cmdline"} {
			if status := statusOf(t, admin+path); status != want {
				t.Errorf("with %s, %s is answered %d, want %d", setting, path, status, want)
			}
		}
		if status := statusOf(t, apiOf(serving)+"/debug/pprof/"); status == http.StatusOK {
			t.Errorf("the API offers profiles")
		}
		serving.stop()
	}
}
