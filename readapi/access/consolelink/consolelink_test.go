package consolelink

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/internal/console/session"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
	"github.com/ledgerfeed/ledgerfeed/migrations"
)

func TestMain(m *testing.M) { testkit.Main(m, migrations.Up) }

// TestLinks: each kind of link signs its person in, once, and not as the other kind.
func TestLinks(t *testing.T) {
	t.Parallel()
	pool := testkit.Must(pg.Open(t.Context(), testkit.NewDatabase(t), pg.Options{MaxConns: 2}))(t)
	t.Cleanup(pool.Close)
	if _, err := pool.Exec(t.Context(), `SELECT workspace_create('acme', 'Acme', now())`); err != nil {
		t.Fatal(err)
	}
	clock := testkit.NewClock(time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC))
	links := testkit.Must(New(Config{Pool: pool, URL: "https://console.acme.example/", Clock: clock.Now}))(t)
	sessions := testkit.Must(session.NewStore(session.Config{Pool: pool, Clock: clock.Now}))(t)
	dana := Person{WorkspaceID: "acme", Name: "dana", Role: Viewer}
	const frame, tab = "https://console.acme.example/embed/", "https://console.acme.example/sign-in/"

	embed := testkit.Must(links.Embed(t.Context(), dana))(t)
	signIn := testkit.Must(links.SignIn(t.Context(), dana))(t)
	if want := clock.Now().Add(session.LinkLifetime); !embed.ExpiresAt.Equal(want) || !signIn.ExpiresAt.Equal(want) {
		t.Errorf("they work until %s and %s, want %s", embed.ExpiresAt, signIn.ExpiresAt, want)
	}
	framed, isFrame := strings.CutPrefix(embed.URL, frame)
	token, isTab := strings.CutPrefix(signIn.URL, tab)
	if !isFrame || !isTab {
		t.Fatalf("the links are %s and %s", embed.URL, signIn.URL)
	}
	for _, wrong := range []func() (*session.Link, error){
		func() (*session.Link, error) { return sessions.UseEmbedLink(t.Context(), token) },
		func() (*session.Link, error) { return sessions.UseLink(t.Context(), framed) },
	} {
		if _, err := wrong(); !errors.Is(err, session.ErrLink) {
			t.Errorf("a link works as one of the other kind: %v", err)
		}
	}
	l, err := sessions.UseEmbedLink(t.Context(), framed)
	if err != nil || l.Person != "dana" || l.Role != Viewer || l.WorkspaceID != "acme" {
		t.Errorf("%+v %v", l, err)
	}
	if _, err := sessions.UseEmbedLink(t.Context(), framed); !errors.Is(err, session.ErrLink) {
		t.Errorf("a link works twice: %v", err)
	}
}

// TestMistakes: each mistake is named.
func TestMistakes(t *testing.T) {
	t.Parallel()
	pool := testkit.Must(pg.Open(t.Context(), testkit.NewDatabase(t), pg.Options{MaxConns: 2}))(t)
	t.Cleanup(pool.Close)
	for _, c := range []Config{{URL: "https://console.acme.example"}, {Pool: pool}, {Pool: pool, URL: "http://console.acme.example"}} {
		if _, err := New(c); err == nil || !strings.HasPrefix(err.Error(), "consolelink: ") {
			t.Errorf("%+v: %v", c, err)
		}
	}
	links := testkit.Must(New(Config{Pool: pool, URL: "https://console.acme.example"}))(t)
	_, err := links.Embed(t.Context(), Person{WorkspaceID: "nowhere", Role: Admin})
	if _, ok := errors.AsType[*domain.UnknownWorkspaceError](err); !ok {
		t.Errorf("an unknown workspace: %v", err)
	}
	if _, err := links.Embed(t.Context(), Person{WorkspaceID: "nowhere"}); err == nil || !strings.Contains(err.Error(), "want Viewer or Admin") {
		t.Errorf("no role: %v", err)
	}
}
