package audit

import (
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
	"github.com/ledgerfeed/ledgerfeed/migrations"
)

func TestMain(m *testing.M) { testkit.Main(m, migrations.Up) }

// setup makes a trail in a database with the workspaces acme and beta.
func setup(t *testing.T) (*Trail, *pgxpool.Pool) {
	t.Helper()
	pool := testkit.Pool(t)
	for _, id := range []string{"acme", "beta"} {
		if _, err := pool.Exec(t.Context(), `SELECT workspace_create($1, $1, now())`, id); err != nil {
			t.Fatal(err)
		}
	}
	return NewTrail(pool, testkit.RunningClock().Now), pool
}

func add(t *testing.T, trail *Trail, c Change) {
	t.Helper()
	if err := trail.Add(t.Context(), c); err != nil {
		t.Fatal(err)
	}
}

func TestAuditIsAppendOnly(t *testing.T) {
	t.Parallel()
	trail, pool := setup(t)
	add(t, trail, Change{WorkspaceID: "acme", Person: "x", Via: ViaConsole, Action: SignIn})
	for _, sql := range []string{`UPDATE console_audit SET person = 'nobody'`, `DELETE FROM console_audit`, `TRUNCATE console_audit`} {
		if _, err := pool.Exec(t.Context(), sql); err == nil || !strings.Contains(err.Error(), "append-only") {
			t.Errorf("%s: %v", sql, err)
		}
	}
}

func TestAuditPages(t *testing.T) {
	t.Parallel()
	trail, _ := setup(t)
	for range 120 {
		add(t, trail, Change{WorkspaceID: "acme", Person: "x", Via: ViaCommand, Action: KeyCreate})
	}
	add(t, trail, Change{WorkspaceID: "beta", Person: "y", Via: ViaCommand, Action: KeyCreate})
	seen, newest := 0, time.Now().Add(time.Hour)
	for position := Newest(); ; {
		list, next, err := trail.Page(t.Context(), "acme", position, 50)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range list {
			if c.Person != "x" || c.At.After(newest) {
				t.Fatalf("%+v after %s", c, newest)
			}
			newest = c.At
		}
		seen += len(list)
		if next == nil {
			break
		}
		position = *next
	}
	if seen != 120 {
		t.Errorf("pages show %d of 120 changes", seen)
	}
}
