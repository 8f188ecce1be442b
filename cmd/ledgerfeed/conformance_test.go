//go:build unix

package main

import (
	"encoding/json"
	"os/exec"
	"strings"
	"testing"

	"github.com/ledgerfeed/ledgerfeed/internal/cli"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit/replication"
)

// installation is the program on one database or several.
type installation struct {
	*testing.T
	url      string            // DATABASE_URL; empty: there are cells
	settings []string          // of every command
	cells    map[string]string // of the fixtures
	standby  bool              // answers are read from one
}

func (i *installation) command(args ...string) *exec.Cmd {
	i.Helper()
	c := command(i.T, i.url, args...)
	c.Env = append(c.Env, i.settings...)
	return c
}

func (i *installation) succeed(args ...string) string {
	i.Helper()
	r := runCommand(i.T, i.command(args...))
	if r.code != cli.ExitDone {
		i.Fatalf("%v: %s", args, r)
	}
	return r.out
}

func (i *installation) reader(base, workspaceID, scopes string) reader {
	i.Helper()
	var made struct{ Key string }
	out := i.succeed("key", "create", "--workspace", workspaceID, "--name", "test", "--scopes", scopes, "--rate-limit", "1000000", "--json")
	if err := json.Unmarshal([]byte(out), &made); err != nil {
		i.Fatal(err)
	}
	return reader{t: i.T, base: base, key: made.Key}
}

// TestFixturesThroughTheProgram: the fixtures, appended and served by the program, give exactly the
// expected bytes, in the order of fields, for each set of permissions: from one database, from two
// cells, and from a standby.
func TestFixturesThroughTheProgram(t *testing.T) {
	t.Parallel()
	for name, install := range map[string]func(*testing.T) *installation{
		"one database": func(t *testing.T) *installation {
			t.Helper()
			return &installation{T: t, url: testkit.NewDatabase(t)}
		},
		"two cells": func(t *testing.T) *installation {
			t.Helper()
			c := newCells(t)
			return &installation{T: t, settings: c.settings(), cells: map[string]string{"agency": "a", "currencies": "b"}}
		},
		"a standby": func(t *testing.T) *installation {
			t.Helper()
			primary := replication.Start(t)
			succeed(t, primary.URL(), "migrate")
			return &installation{T: t, url: primary.URL(), settings: []string{"LEDGERFEED_READ_DATABASE_URL=" + primary.Replica().URL()}, standby: true}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conform(install(t))
		})
	}
}

func conform(i *installation) {
	i.succeed("migrate")
	expected := map[string]map[string]json.RawMessage{}
	for _, name := range []string{"agency", "currencies"} {
		i.succeed("append", "--cell="+i.cells[name], "--create-workspace", "../../domain/testdata/"+name+".ndjson")
		if err := json.Unmarshal([]byte(read(i.T, "../../domain/testdata/"+name+".expected.json")), &expected); err != nil {
			i.Fatal(err)
		}
	}
	program := i.command("serve")
	program.Env = append(program.Env, "LEDGERFEED_RETENTION=876000h") // the fixture grows older
	serving := startProcess(i.T, program)
	base := apiOf(serving)
	if i.standby {
		serving.await("answers are read from standbys")
	}
	i.succeed("status", "--wait", "--timeout", "1m")
	for workspaceID, views := range expected {
		for view, scopes := range map[string]string{
			"base": endpointScopes, "pay": endpointScopes + ",pay:read", "pay+margin": endpointScopes + ",pay:read,margin:read",
		} {
			var lists map[string]json.RawMessage
			if err := json.Unmarshal(views[view], &lists); err != nil {
				i.Fatal(err)
			}
			i.reader(base, workspaceID, scopes).conforms(workspaceID+" "+view, lists)
		}
	}
	if _, metrics := bodyOf(i.T, strings.TrimSpace(serving.await("for=admin url="))+"/metrics"); i.standby && strings.Contains(metrics, "ledgerfeed_api_copy_reads_total 0\n") {
		i.Error("nothing was read from the standby")
	}
	if code := serving.stop(); code != cli.ExitDone {
		i.Errorf("serve ended with %d:\n%s", code, serving.log)
	}
}

// conforms checks that a reader sees what is expected, by the names of lists.
func (r reader) conforms(what string, lists map[string]json.RawMessage) {
	r.t.Helper()
	for name, want := range lists {
		switch of := what + " " + name; name {
		case "credit":
			r.sameCredit(of, want)
		case "events":
			same(r.t, of, array(r.list("/v1/events", 9)), want)
		default:
			same(r.t, of, array(r.list("/v1/"+name, 7)), want)
			r.singles(name, want)
		}
	}
}
