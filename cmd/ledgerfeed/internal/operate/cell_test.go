package operate

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ledgerfeed/ledgerfeed/internal/pg"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
	"github.com/ledgerfeed/ledgerfeed/migrations"
)

func TestMain(m *testing.M) { testkit.Main(m, migrations.Up) }

// TestCellFile: a file names cells, or the error says what is wrong with it, without the addresses.
func TestCellFile(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ text, want string }{
		{"cells:\n  - name: a\n    url: postgres://hidden@one/db\n  - name: b-2\n    url: host=two dbname=hidden\n", ""},
		{"", "there are no cells"},
		{"cells: []", "there are no cells"},
		{"cells:\n  a: postgres://hidden@one/db", "want a list such as"},
		{"cells:\n  - name: a\n    url: postgres://hidden@one/db\n    size: 1", "want a list such as"},
		{"cells:\n  - name: A\n    url: postgres://hidden@one/db", `cell 1: the name is "A": want`},
		{"cells:\n  - url: postgres://hidden@one/db", `cell 1: the name is "": want`},
		{"cells:\n  - name: a", "cell a: want a url such as"},
		{"cells:\n  - name: a\n    url: mysql://hidden@one/db", "cell a: the url is not a valid"},
		{"cells:\n  - name: a\n    url: postgres://hidden@one/db\n  - name: a\n    url: postgres://hidden@two/db", "cell 2: there are two cells with the name a"},
		{"cells:\n  - name: a\n    url: postgres://hidden@one/db\n  - name: b\n    url: postgres://hidden@one/db", "cell b: another cell has the same url"},
	} {
		name := filepath.Join(t.TempDir(), "cells.yaml")
		if err := os.WriteFile(name, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := readCellFile(name)
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%q: %v", c.text, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "hidden")):
			t.Errorf("%q: %v, want %q", c.text, err, c.want)
		}
	}
}

// TestCellOfAWorkspace: all cells are asked for a workspace. One that does not answer counts only if
// no other has it.
func TestCellOfAWorkspace(t *testing.T) {
	t.Parallel()
	one, two := testkit.NewDatabase(t), testkit.NewDatabase(t)
	for url, id := range map[string]string{one: "acme", two: "beta"} {
		conn := testkit.Must(pg.Connect(t.Context(), url))(t)
		testkit.Must(conn.Exec(t.Context(), `SELECT workspace_create($1, $1, now())`, id))(t)
		if err := conn.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	both := Cells{{"a", one}, {"b", two}}
	if c, err := both.Of(t.Context(), "beta"); err != nil || c.Name != "b" {
		t.Errorf("beta is in %q: %v", c.Name, err)
	}
	if _, err := both.Of(t.Context(), "gamma"); !errors.Is(err, errNowhere) {
		t.Errorf("gamma: %v", err)
	}
	away := Cells{{"a", one}, {"c", "host=" + t.TempDir()}}
	if c, err := away.Of(t.Context(), "acme"); err != nil || c.Name != "a" {
		t.Errorf("acme, with a cell away, is in %q: %v", c.Name, err)
	}
	if _, err := away.Of(t.Context(), "beta"); err == nil || errors.Is(err, errNowhere) || !strings.Contains(err.Error(), "cannot look for the workspace beta in the cell c") {
		t.Errorf("beta, with a cell away: %v", err)
	}
}
