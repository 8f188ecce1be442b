package console

import (
	"errors"
	"maps"
	"testing"
	"time"

	"github.com/ledgerfeed/ledgerfeed/internal/console/session"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

// TestSessionsOfCells: a person with workspaces in two databases switches between them. Each session
// is in the database of its workspace, and ends when the person leaves it.
func TestSessionsOfCells(t *testing.T) {
	t.Parallel()
	stores := map[string]*session.Store{}
	for name, workspaceID := range map[string]string{"a": "acme", "b": "beta"} {
		pool := testkit.Must(pg.Open(t.Context(), testkit.NewDatabase(t), pg.Options{MaxConns: 2}))(t)
		t.Cleanup(pool.Close)
		testkit.Must(pool.Exec(t.Context(), `SELECT workspace_create($1, 'The name of ' || $1, now())`, workspaceID))(t)
		others := func() (others []*session.Store) {
			for other, store := range stores {
				if other != name {
					others = append(others, store)
				}
			}
			return others
		}
		stores[name] = testkit.Must(session.NewStore(session.Config{Pool: pool, Cell: name, Others: others}))(t)
	}
	a, b := stores["a"], stores["b"]

	want := map[string]string{"acme": "The name of acme", "beta": "The name of beta"}
	if names := testkit.Must(a.Workspaces(t.Context(), []string{"acme", "beta", "gamma"}))(t); !maps.Equal(names, want) {
		t.Errorf("workspaces: %v", names)
	}
	grants := []session.Grant{{Workspace: "acme", Role: session.Viewer}, {Workspace: "beta", Role: session.Admin}}
	opening := session.Opening{Person: session.Person{Name: "dana"}, WorkspaceID: "acme", Grants: grants, SignedIn: time.Now(), How: "in a test"}
	open := func(by *session.Store, wantCell string) (token string, found *session.Session) {
		t.Helper()
		token, _, err := by.Open(t.Context(), opening)
		if err != nil {
			t.Fatal(err)
		}
		if got := session.CellOf(token); got != wantCell {
			t.Fatalf("%s is opened in the cell %q", opening.WorkspaceID, got)
		}
		if _, err := stores[map[string]string{"a": "b", "b": "a"}[wantCell]].Find(t.Context(), token, true); !errors.Is(err, session.ErrNone) {
			t.Errorf("found in the other database: %v", err)
		}
		for _, store := range stores {
			found = testkit.Must(store.FindAnywhere(t.Context(), token))(t)
			if found.WorkspaceID != opening.WorkspaceID {
				t.Errorf("found the session of %s", found.WorkspaceID)
			}
		}
		return token, found
	}
	first, inAcme := open(a, "a")
	opening.WorkspaceID, opening.Replaces = "beta", inAcme
	second, inBeta := open(a, "b")
	if _, err := a.Find(t.Context(), first, false); !errors.Is(err, session.ErrNone) {
		t.Errorf("the session before: %v", err)
	}
	opening.WorkspaceID, opening.Replaces = "acme", inBeta
	open(b, "a")
	if _, err := b.Find(t.Context(), second, false); !errors.Is(err, session.ErrNone) {
		t.Errorf("the second session: %v", err)
	}
}
