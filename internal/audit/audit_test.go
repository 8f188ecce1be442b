package audit

import (
	"context"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
	"github.com/ledgerfeed/ledgerfeed/migrations"
)

func TestMain(m *testing.M) { testkit.Main(m, migrations.Up) }

// setup makes a trail in a database with the workspaces acme and beta.
func setup(t *testing.T) (*Trail, testkit.DB) {
	t.Helper()
	pool := testkit.Pool(t)
	for _, id := range []string{"acme", "beta"} {
		if _, err := pool.Exec(t.Context(), `SELECT workspace_create($1, $1, now())`, id); err != nil {
			t.Fatal(err)
		}
	}
	return NewTrail(pool), pool
}

// add adds a change that a person made in the console.
func add(t *testing.T, pool testkit.DB, person string, c Change) {
	t.Helper()
	ctx := As(t.Context(), Actor{Via: ViaConsole, Name: person, Issuer: "https://id.example", Subject: "sub-" + person})
	if err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error { return Add(ctx, tx, time.Now(), c) }); err != nil {
		t.Fatal(err)
	}
}

func TestAuditIsAppendOnly(t *testing.T) {
	t.Parallel()
	_, pool := setup(t)
	add(t, pool, "x", Change{WorkspaceID: "acme", Action: SignIn})
	for _, sql := range []string{`UPDATE console_audit SET person = 'nobody'`, `DELETE FROM console_audit`, `TRUNCATE console_audit`} {
		if _, err := pool.Exec(t.Context(), sql); err == nil || !strings.Contains(err.Error(), "append-only") {
			t.Errorf("%s: %v", sql, err)
		}
	}
}

func TestAuditPages(t *testing.T) {
	t.Parallel()
	trail, pool := setup(t)
	for range 120 {
		add(t, pool, "x", Change{WorkspaceID: "acme", Action: KeyCreate})
	}
	add(t, pool, "y", Change{WorkspaceID: "beta", Action: KeyCreate})
	seen, newest := 0, time.Now().Add(time.Hour)
	for position := Newest(); ; {
		list, next, err := trail.Page(t.Context(), "acme", Filter{}, position, 50)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range list {
			if c.Actor.Name != "x" || c.Actor.Subject != "sub-x" || c.At.After(newest) {
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

// A change says who made it: the actor of its context, whatever their name is, and
// without one the account that runs the program.
func TestActors(t *testing.T) {
	t.Parallel()
	trail, pool := setup(t)
	person := Actor{Via: ViaConsole, Name: "The Boss", Issuer: "https://id.example", Subject: "user-1"}
	for _, ctx := range []context.Context{t.Context(), AsService(t.Context()), As(t.Context(), person)} {
		if err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error { return Add(ctx, tx, time.Now(), Change{WorkspaceID: "acme", Action: KeyCreate}) }); err != nil {
			t.Fatal(err)
		}
	}
	list, _, err := trail.Page(t.Context(), "acme", Filter{}, Newest(), 10)
	if err != nil || len(list) != 3 {
		t.Fatal(list, err)
	}
	if list[0].Actor != person || list[1].Actor != (Actor{Via: ViaService, Name: account()}) || list[2].Actor != (Actor{Via: ViaCommand, Name: account()}) {
		t.Errorf("%+v", list)
	}
}

// A filter chooses by who, what and when; text that looks like a pattern is text.
func TestAuditFilter(t *testing.T) {
	t.Parallel()
	trail, pool := setup(t)
	add(t, pool, "Dana", Change{WorkspaceID: "acme", Action: SignIn})
	add(t, pool, "Eve", Change{WorkspaceID: "acme", Action: KeyCreate})
	add(t, pool, "dan%", Change{WorkspaceID: "acme", Action: KeyCreate})
	add(t, pool, "Dana", Change{WorkspaceID: "beta", Action: SignIn})
	now := time.Now()
	for _, c := range []struct {
		filter Filter
		want   string
	}{
		{Filter{}, "dan% Eve Dana"}, {Filter{Who: "DAN"}, "dan% Dana"}, {Filter{Who: "n%"}, "dan%"}, {Filter{Who: "sub-Eve"}, "Eve"},
		{Filter{Action: KeyCreate}, "dan% Eve"}, {Filter{Who: "dan", Action: KeyCreate}, "dan%"}, {Filter{Since: now.Add(time.Hour)}, ""},
		{Filter{Since: now.Add(-time.Hour), Until: now.Add(time.Hour)}, "dan% Eve Dana"}, {Filter{Until: now.Add(-time.Hour)}, ""},
	} {
		list, _, err := trail.Page(t.Context(), "acme", c.filter, Newest(), 10)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, change := range list {
			names = append(names, change.Actor.Name)
		}
		if got := strings.Join(names, " "); got != c.want {
			t.Errorf("%+v finds %q, want %q", c.filter, got, c.want)
		}
	}
}

// TestEveryActionHasALabel: every action that the source declares can be chosen and has a label.
func TestEveryActionHasALabel(t *testing.T) {
	t.Parallel()
	source := testkit.Must(os.ReadFile("action.go"))(t)
	for _, found := range regexp.MustCompile(`\bAction = "([^"]+)"`).FindAllSubmatch(source, -1) {
		if !slices.Contains(Actions(), Action(found[1])) {
			t.Errorf("%s cannot be chosen", found[1])
		}
	}
	for _, a := range Actions() {
		if a.Label() == string(a) {
			t.Errorf("%s has no label", a)
		}
	}
}
