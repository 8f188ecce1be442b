package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

// serverUse is what status --json says of PostgreSQL's connections.
type serverUse struct {
	Max       int `json:"max_connections"`
	Reserved  int
	Used      int
	Left      int
	Processes []struct {
		Process, Address  string
		Roles             []string
		Connections, Most int
	}
	Warning string
}

func useOf(t *testing.T, url string, settings ...string) (u serverUse) {
	t.Helper()
	c := command(t, url, "status", "--json")
	c.Env = append(c.Env, settings...)
	r := runCommand(t, c)
	var s struct{ Connections *serverUse }
	if err := json.Unmarshal([]byte(r.out), &s); err != nil || s.Connections == nil {
		t.Fatalf("%+v: %v", r, err)
	}
	return *s.Connections
}

// TestStatusTellsProcesses: of each process that serves, status says its roles and every
// connection that it has, two with the same roles apart; of PostgreSQL, what is left, with
// doctor's warning where that is too little. One that was killed is not there any more.
func TestStatusTellsProcesses(t *testing.T) {
	t.Parallel()
	url := testkit.NewDatabase(t)
	if u := useOf(t, url); len(u.Processes) != 0 || u.Left != u.Max-u.Reserved-u.Used || u.Used < 1 {
		t.Fatalf("without a process: %+v", u)
	}
	conn := testkit.Must(pgx.Connect(t.Context(), url))(t)
	t.Cleanup(func() { _ = conn.Close(t.Context()) })
	all := command(t, url+"&application_name=billing", "serve")
	all.Env = append(all.Env, "LEDGERFEED_CONNECTIONS=40")
	startProcess(t, all).await("for=admin")
	killed := startProcess(t, command(t, url, "serve", "--roles", "project"))
	killed.await("for=admin")
	startProcess(t, command(t, url, "serve", "--roles", "project")).await("for=admin")
	are := func(want ...string) {
		t.Helper()
		testkit.Eventually(t, func() error {
			var sessions int
			if err := conn.QueryRow(t.Context(), `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND backend_type = 'client backend' AND pid <> pg_backend_pid()`).Scan(&sessions); err != nil {
				t.Fatal(err)
			}
			u := useOf(t, url, "LEDGERFEED_CONNECTIONS=40")
			var are, marks []string
			sum := 0
			for _, p := range u.Processes {
				are, marks = append(are, fmt.Sprintf("%s of %d", strings.Join(p.Roles, " "), p.Most)), append(marks, p.Process)
				sum += p.Connections
				if p.Connections < 3 || p.Connections > p.Most || len(p.Process) != 4 || p.Address != "" {
					return fmt.Errorf("%+v", p)
				}
			}
			slices.Sort(are)
			slices.Sort(marks)
			// Sessions of commands that have just ended may still be there.
			if !slices.Equal(are, want) || len(slices.Compact(marks)) != len(want) || sum > sessions || sessions-sum > 2 {
				return fmt.Errorf("%d of %d sessions: %+v", sum, sessions, u)
			}
			return nil
		})
	}
	are("api project deliver console of 40", "project of 22", "project of 22")
	killed.kill()
	are("api project deliver console of 40", "project of 22")
	text := succeed(t, url, "status")
	if !strings.Contains(text, "LIMIT") || !strings.Contains(text, "api,project,deliver,console") || strings.Contains(text, "Warning: there are too few") {
		t.Errorf("%s", text)
	}

	for _, sql := range []string{
		`DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET search_path TO public, pg_catalog', current_database()); END $$`,
		`CREATE FUNCTION public.current_setting(name text) RETURNS text LANGUAGE sql STABLE AS
		 $$ SELECT CASE name WHEN 'max_connections' THEN '20' ELSE pg_catalog.current_setting(name) END $$`,
	} {
		testkit.Must(conn.Exec(t.Context(), sql))(t)
	}
	const warning = "one with all roles uses up to 31"
	if u := useOf(t, url, "LEDGERFEED_CONNECTIONS=31"); u.Max != 20 || u.Left > 17 || !strings.Contains(u.Warning, warning) {
		t.Errorf("%+v", u)
	}
	for _, args := range []string{"status", "doctor"} {
		c := command(t, url, args)
		c.Env = append(c.Env, "LEDGERFEED_CONNECTIONS=31")
		if r := runCommand(t, c); !strings.Contains(r.out, warning) {
			t.Errorf("%s: %s", args, r.out)
		}
	}
}
