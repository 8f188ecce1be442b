//go:build unix

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ledgerfeed/ledgerfeed/internal/cli"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit/pgserver"
)

// cells are two cells, a and b, each on a PostgreSQL server of its own, with a workspace each.
type cells struct {
	*testing.T
	servers map[string]*pgserver.Server // by the cell's name
	file    string
	keys    map[string]string // of workspaces
	serving *process
	api     string
	console string
}

func newCells(t *testing.T) *cells {
	t.Helper()
	c := &cells{T: t, servers: map[string]*pgserver.Server{}, keys: map[string]string{}, file: filepath.Join(t.TempDir(), "cells.yaml")}
	host, list := pgserver.NewHost(t), "cells:\n"
	for _, name := range []string{"a", "b"} {
		server := host.Server("cell-"+name, "fsync=off")
		server.Initialize()
		server.Begin()
		server.Execute("postgres", "CREATE DATABASE ledgerfeed")
		c.servers[name] = server
		list += fmt.Sprintf("  - name: %s\n    url: %s\n", name, server.URL(pgserver.Administrator, "ledgerfeed"))
	}
	if err := os.WriteFile(c.file, []byte(list), 0o600); err != nil {
		t.Fatal(err)
	}
	return c
}

// command prepares the program as a process of the cells.
func (c *cells) command(args ...string) *exec.Cmd {
	c.Helper()
	cmd := command(c.T, "", args...)
	cmd.Env = append(cmd.Env, c.settings()...)
	return cmd
}

// settings are those of every command.
func (c *cells) settings() []string {
	return []string{"LEDGERFEED_CELLS=" + c.file, "LEDGERFEED_SECRET_KEY=a key for all processes of a test"}
}

func (c *cells) run(args ...string) result {
	c.Helper()
	return runCommand(c.T, c.command(args...))
}

func (c *cells) succeed(args ...string) string {
	c.Helper()
	r := c.run(args...)
	if r.code != cli.ExitDone {
		c.Fatalf("%v: %s", args, r)
	}
	return r.out
}

func (c *cells) fail(code int, want string, args ...string) {
	c.Helper()
	if r := c.run(args...); r.code != code || !strings.Contains(r.errOut, want) {
		c.Errorf("%v: %s\nwant exit %d and %q", args, r, code, want)
	}
}

// fill makes a workspace with a client of its own, and a key.
func (c *cells) fill(cell, workspaceID string) {
	c.Helper()
	c.succeed("workspace", "create", "--cell", cell, "--id", workspaceID)
	file := filepath.Join(c.TempDir(), "entries.ndjson")
	line := fmt.Sprintf(`{"workspace_id":%q,"type":"client.recorded","data":{"client_id":"cl_of_%[1]s","name":"Of %[1]s"}}`+"\n", workspaceID)
	if err := os.WriteFile(file, []byte(line), 0o600); err != nil {
		c.Fatal(err)
	}
	c.succeed("append", "--cell", cell, file)
	var made struct{ Key string }
	if err := json.Unmarshal([]byte(c.succeed("key", "create", "--workspace", workspaceID, "--name", "test", "--scopes", "clients:read", "--rate-limit", "1000000", "--json")), &made); err != nil {
		c.Fatal(err)
	}
	c.keys[workspaceID] = made.Key
}

func (c *cells) serve() {
	c.Helper()
	c.serving = startProcess(c.T, c.command("serve"))
	c.api, c.console = apiOf(c.serving), strings.TrimSpace(c.serving.await("for=console url="))
}

// clients asks for the clients of a key's workspace.
func (c *cells) clients(key string) (status int, text string) {
	c.Helper()
	req := testkit.Must(http.NewRequestWithContext(c.Context(), http.MethodGet, c.api+"/v1/clients", http.NoBody))(c)
	req.Header.Set("Authorization", "Bearer "+key)
	resp := testkit.Must(http.DefaultTransport.RoundTrip(req))(c)
	defer resp.Body.Close()
	return resp.StatusCode, string(testkit.Must(io.ReadAll(resp.Body))(c))
}

// shows waits until the API shows a workspace's client to its key.
func (c *cells) shows(workspaceID string) {
	c.Helper()
	testkit.Eventually(c, func() error {
		if status, text := c.clients(c.keys[workspaceID]); status != http.StatusOK || !strings.Contains(text, "cl_of_"+workspaceID) {
			return fmt.Errorf("%s: %d: %s", workspaceID, status, text)
		}
		return nil
	})
}

// away waits until the API says that it cannot answer about a workspace.
func (c *cells) away(workspaceID string) {
	c.Helper()
	testkit.Eventually(c, func() error {
		if status, text := c.clients(c.keys[workspaceID]); status != http.StatusServiceUnavailable || !strings.Contains(text, `"unavailable"`) {
			return fmt.Errorf("%s: %d: %s", workspaceID, status, text)
		}
		return nil
	})
}

// unhurt checks that a workspace of another cell is answered all the time.
func (c *cells) unhurt(workspaceID string) {
	c.Helper()
	testkit.Throughout(c, time.Second, func() error {
		if status, text := c.clients(c.keys[workspaceID]); status != http.StatusOK {
			return fmt.Errorf("%s: %d: %s", workspaceID, status, text)
		}
		return nil
	})
}

// TestCells: a process serves two cells at the same addresses, each with its own workspaces. One
// whose server is killed hurts only its own, also when the process starts meanwhile, and is served
// again when the server is back.
func TestCells(t *testing.T) {
	t.Parallel()
	c := newCells(t)
	if out := c.succeed("migrate"); !strings.Contains(out, "cell a\napplied") || !strings.Contains(out, "cell b\napplied") {
		t.Errorf("migrate: %s", out)
	}
	c.fill("a", "acme")
	c.fill("b", "beta")
	c.serve()
	c.shows("acme")
	c.shows("beta")
	if status, text := c.clients("service_none"); status != http.StatusUnauthorized {
		t.Errorf("a text that is no key: %d: %s", status, text)
	}
	admin := strings.TrimSpace(c.serving.await("for=admin url="))
	answers(t, admin+"/readyz", http.StatusOK)
	testkit.Eventually(t, func() error { // the process is ready with one of them
		_, text := bodyOf(t, admin+"/metrics")
		for _, metric := range []string{`ledgerfeed_ready{cell="a"} 1`, `ledgerfeed_ready{cell="b"} 1`, `ledgerfeed_workspaces{cell="a"} 1`, `ledgerfeed_workspaces{cell="b"} 1`} {
			if !strings.Contains(text, metric) {
				return errors.New("the metrics lack " + metric)
			}
		}
		return nil
	})

	c.servers["b"].Kill()
	c.away("beta")
	c.unhurt("acme")
	if status, text := bodyOf(t, admin+"/readyz"); status != http.StatusOK || !strings.Contains(text, `{"cell":"b",`) {
		t.Errorf("readyz: %d: %s", status, text)
	}
	if code := c.serving.stop(); code != cli.ExitDone {
		t.Errorf("stopped with %d:\n%s", code, c.serving.log)
	}
	c.serve()
	c.shows("acme")
	c.away("beta")
	c.unhurt("acme")
	c.servers["b"].Begin()
	c.shows("beta")
	c.servers["a"].Kill() // the first one in the file
	c.away("acme")
	c.unhurt("beta")
	c.servers["a"].Begin()
	c.shows("acme")
}

// TestConsoleOfCells: a sign-in link leads to the workspace of its cell.
func TestConsoleOfCells(t *testing.T) {
	t.Parallel()
	c := newCells(t)
	c.succeed("migrate")
	c.fill("a", "acme")
	c.fill("b", "beta")
	c.serve()
	for workspaceID := range c.keys { // both cells are up
		c.shows(workspaceID)
	}
	for workspaceID := range c.keys {
		browser := &http.Client{Jar: testkit.Must(cookiejar.New(nil))(t)}
		_, token, _ := strings.Cut(strings.TrimSpace(c.succeed("console", "link", "--workspace", workspaceID)), "/sign-in/")
		req := testkit.Must(http.NewRequestWithContext(t.Context(), http.MethodPost, c.console+"/sign-in/"+token, http.NoBody))(t)
		resp := testkit.Must(browser.Do(req))(t)
		page := string(testkit.Must(io.ReadAll(resp.Body))(t))
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusOK || !strings.Contains(page, workspaceID) {
			t.Errorf("the console of %s: %d:\n%s", workspaceID, resp.StatusCode, page)
		}
	}
}

// TestMoveBetweenCells: a workspace moves while it is read. Its key works before and afterwards, at
// the same address.
func TestMoveBetweenCells(t *testing.T) {
	t.Parallel()
	c := newCells(t)
	c.succeed("migrate")
	c.fill("a", "acme")
	c.serve()
	c.shows("acme")
	c.succeed("workspace", "move", "--id", "acme", "--to-cell", "b")
	c.shows("acme")
	c.servers["a"].Kill() // it is really in the other cell
	c.shows("acme")
	c.servers["a"].Begin()
	c.fail(cli.ExitUsage, "set --cell to the cell it came from", "workspace", "move", "--id", "acme", "--to-cell", "b", "--finish")
	c.succeed("workspace", "move", "--cell", "a", "--id", "acme", "--to-cell", "b", "--finish")
	c.shows("acme")
}

// TestCommandsOfCells: a command works on the cell of its workspace, on that of --cell, or on all.
func TestCommandsOfCells(t *testing.T) {
	t.Parallel()
	c := newCells(t)
	c.succeed("migrate")
	c.fill("a", "acme")
	c.fill("b", "beta")
	c.fail(cli.ExitUsage, "add --cell, one of a, b", "append")
	both := c.command("status")
	both.Env = append(both.Env, "DATABASE_URL=postgres://one/db")
	if r := runCommand(t, both); r.code != cli.ExitUsage || !strings.Contains(r.errOut, "LEDGERFEED_CELLS is set: unset DATABASE_URL") {
		t.Errorf("with DATABASE_URL: %s", r)
	}
	c.fail(cli.ExitUsage, `there is no cell "c"; want one of a, b`, "status", "--cell", "c")
	c.fail(cli.ExitFailed, "no cell has the workspace gamma", "key", "list", "--workspace", "gamma")
	c.fail(cli.ExitFailed, "the workspace acme already exists in the cell a", "workspace", "create", "--cell", "b", "--id", "acme")
	elsewhere := c.command("append", "--cell", "b", "--create-workspace")
	elsewhere.Stdin = strings.NewReader(`{"workspace_id":"acme","type":"client.recorded","data":{"client_id":"c","name":"n"}}` + "\n")
	if r := runCommand(t, elsewhere); r.code != cli.ExitFailed || !strings.Contains(r.errOut, "the workspace acme already exists in the cell a") {
		t.Errorf("appended to another cell: %s", r)
	}
	if out := c.succeed("key", "list", "--workspace", "beta"); !strings.Contains(out, "test") {
		t.Errorf("the keys of beta: %s", out)
	}
	var found []string
	for line := range strings.Lines(c.succeed("workspace", "list", "--json")) {
		var of struct {
			Cell   string
			Result []struct{ ID string }
		}
		if err := json.Unmarshal([]byte(line), &of); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		for _, w := range of.Result {
			found = append(found, of.Cell+" "+w.ID)
		}
	}
	if want := []string{"a acme", "b beta"}; !slices.Equal(found, want) {
		t.Errorf("workspaces: %v, want %v", found, want)
	}
	c.succeed("migrate", "--check", "--cell", "a")
	c.servers["a"].Stop()
	// What fails in one cell is said, and does not keep the command from the others.
	r := c.run("status", "--json")
	if r.code != cli.ExitFailed || !strings.Contains(r.errOut, "cell a: cannot connect") || !strings.Contains(r.out, `{"cell":"b"`) {
		t.Errorf("status with a cell away: %s", r)
	}
}
