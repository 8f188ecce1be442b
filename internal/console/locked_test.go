package console

import (
	"context"
	"net/http"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/internal/console/session"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
	"github.com/ledgerfeed/ledgerfeed/readapi/access"
)

// TestLockedRowsOfOneWorkspace: while another transaction has locked rows of a
// workspace, its people's changes are refused in words, and people of others look at
// their pages, change things and sign in.
func TestLockedRowsOfOneWorkspace(t *testing.T) {
	t.Parallel()
	s := setup(t)
	locked, _ := s.key(acme, "Locked", access.EventsRead)
	free, _ := s.key(beta, "Free", access.EventsRead)
	p, other := s.signIn(acme, session.Admin), s.signIn(beta, session.Admin)
	s.signIn(acme, session.Viewer)
	s.exec(`UPDATE console_session SET expires_at = now() - interval '1 minute' WHERE workspace_id = $1 AND role = 'viewer'`, acme)
	path := s.link(session.Link{WorkspaceID: beta, Role: session.Admin, Person: "late"})

	conn := testkit.Must(pgx.Connect(t.Context(), s.pool.Config().ConnString()))(t)
	defer conn.Close(context.Background())
	tx := testkit.Must(conn.Begin(t.Context()))(t)
	testkit.Must(tx.Exec(t.Context(), `SELECT FROM api_key WHERE workspace_id = $1 FOR UPDATE`, acme))(t)
	testkit.Must(tx.Exec(t.Context(), `SELECT FROM console_session WHERE workspace_id = $1 AND role = 'viewer' FOR UPDATE`, acme))(t)
	var waiting sync.WaitGroup
	for range 7 {
		waiting.Go(func() {
			if a := p.post("/keys/"+locked+"/rotate", url.Values{"overlap": {"0"}}); a.StatusCode != http.StatusServiceUnavailable {
				t.Errorf("a change of a locked key: %d", a.StatusCode)
			}
		})
	}
	testkit.Eventually(t, func() error { return testkit.LockAwaited(t, s.pool, 2) })
	began := time.Now()
	other.get("/keys").status(http.StatusOK)
	other.post("/keys/"+free+"/rotate", url.Values{"overlap": {"0"}}).status(http.StatusOK)
	s.stranger().post(path, nil).status(http.StatusSeeOther)
	p.get("/keys").status(http.StatusOK)
	if took := time.Since(began); took > 3*time.Second {
		t.Errorf("others waited for %v", took)
	}
	waiting.Wait()
}
