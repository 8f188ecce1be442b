package console

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/internal/audit"
	"github.com/ledgerfeed/ledgerfeed/internal/console/session"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
	"github.com/ledgerfeed/ledgerfeed/readapi/access"
)

// TestLockedRowsOfOneWorkspace: while another transaction has locked rows of a
// workspace, its people's changes wait, and people of others look at
// their pages, change things and sign in without waiting.
func TestLockedRowsOfOneWorkspace(t *testing.T) {
	t.Parallel()
	s := setupWith(t, patient())
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
			if a := p.post("/keys/"+locked+"/rotate", url.Values{"overlap": {"0"}}); a.StatusCode != http.StatusSeeOther && a.StatusCode != http.StatusOK {
				t.Errorf("a change of a key that was locked: %d", a.StatusCode)
			}
		})
	}
	testkit.Eventually(t, func() error { return testkit.LockAwaited(t, s.pool, 2) })
	testkit.NotBlocked(t, s.pool, testkit.PID(t, tx), func() {
		other.get("/keys").status(http.StatusOK)
		other.post("/keys/"+free+"/rotate", url.Values{"overlap": {"0"}}).status(http.StatusOK)
		s.stranger().post(path, nil).status(http.StatusSeeOther)
		p.get("/keys").status(http.StatusOK)
	})
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	waiting.Wait()
}

// TestAChangeOfALockedRow is refused in words.
func TestAChangeOfALockedRow(t *testing.T) {
	t.Parallel()
	settings := PoolSettings()
	settings["lock_timeout"] = "200ms"
	s := setupWith(t, pg.Options{Settings: settings})
	locked, _ := s.key(acme, "Locked", access.EventsRead)
	p := s.signIn(acme, session.Admin)
	conn := testkit.Must(pgx.Connect(t.Context(), s.pool.Config().ConnString()))(t)
	defer conn.Close(context.Background())
	tx := testkit.Must(conn.Begin(t.Context()))(t)
	testkit.Must(tx.Exec(t.Context(), `SELECT FROM api_key WHERE workspace_id = $1 FOR UPDATE`, acme))(t)
	p.post("/keys/"+locked+"/rotate", url.Values{"overlap": {"0"}}).status(http.StatusServiceUnavailable)
}

// TestManySearchesOfOneWorkspace: however many searches and long lists a person asks for at
// the same time, others look at their pages.
func TestManySearchesOfOneWorkspace(t *testing.T) {
	t.Parallel()
	s := setupWith(t, patient())
	well, _, _ := s.seed(acme)
	p, other := s.signIn(acme, session.Admin), s.signIn(beta, session.Viewer)
	var event string
	if err := s.pool.QueryRow(t.Context(), `SELECT min(id) FROM event_log WHERE workspace_id = $1 AND public_event IS NOT NULL`, acme).Scan(&event); err != nil {
		t.Fatal(err)
	}
	for path, table := range map[string]string{
		"/events?about=inv_0004": "event_log", "/events/" + event: "event_log", "/requests?find=req-1": "request_log",
		"/webhooks/" + well + "?about=inv_0004": "webhook_delivery",
	} {
		conn := testkit.Must(pgx.Connect(t.Context(), s.pool.Config().ConnString()))(t)
		tx := testkit.Must(conn.Begin(t.Context()))(t)
		testkit.Must(tx.Exec(t.Context(), `LOCK TABLE `+table))(t) // in place of rows that take long to read
		var waiting sync.WaitGroup
		for range 12 {
			waiting.Go(func() { p.get(path) })
		}
		testkit.Eventually(t, func() error { return testkit.LockAwaited(t, s.pool, 2) })
		// If the searches had all connections, the page would come when they are over: never.
		other.within(t, "/audit").status(http.StatusOK)
		if err := conn.Close(context.Background()); err != nil {
			t.Fatal(err)
		}
		waiting.Wait()
	}
}

// TestSlowRequestsLeaveOthersTheirs: whatever people of two workspaces ask for, those of a third sign
// in and look at their pages, on as many connections as a console has.
func TestSlowRequestsLeaveOthersTheirs(t *testing.T) {
	t.Parallel()
	const third = "gamma"
	o := patient()
	o.MaxConns = 4
	s := setupWith(t, o)
	testkit.AsOwner(t, s.pool, `SELECT workspace_create($1, 'Gamma', now())`, third)
	locked, _ := s.key(acme, "Locked", access.EventsRead)
	many, other := s.signIn(acme, session.Admin), s.signIn(beta, session.Admin)
	path := s.link(session.Link{WorkspaceID: third, Role: session.Admin, Person: "late"})
	conn := testkit.Must(pgx.Connect(t.Context(), s.pool.Config().ConnString()))(t)
	defer conn.Close(context.Background())
	tx := testkit.Must(conn.Begin(t.Context()))(t)
	testkit.Must(tx.Exec(t.Context(), `SELECT FROM api_key WHERE workspace_id = $1 FOR UPDATE`, acme))(t)
	testkit.Must(tx.Exec(t.Context(), `LOCK TABLE request_log`))(t) // in place of rows that take long to read
	var waiting sync.WaitGroup
	for range 4 {
		waiting.Go(func() { many.post("/keys/"+locked+"/rotate", url.Values{"overlap": {"0"}}) })
		waiting.Go(func() { many.get("/requests?find=req-1") })
	}
	testkit.Eventually(t, func() error { return testkit.LockAwaited(t, s.pool, 2) })
	for range 4 {
		waiting.Go(func() { other.get("/requests?find=req-1") })
	}
	testkit.Eventually(t, func() error { return testkit.LockAwaited(t, s.pool, 3) })
	late := s.stranger()
	late.post(path, nil).status(http.StatusSeeOther)
	late.within(t, "/settings").status(http.StatusOK)
	many.within(t, "/settings").status(http.StatusOK)
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	waiting.Wait()
	late.within(t, "/requests?find=req-1").status(http.StatusOK)
}

// TestTheNextSlowRequestIsOfWhoHasNone: a place goes to a workspace without one before one that has
// waited for longer.
func TestTheNextSlowRequestIsOfWhoHasNone(t *testing.T) {
	t.Parallel()
	s := newSlow(4)
	placed := func(r *slowRequest) bool {
		select {
		case <-r.granted:
			return true
		default:
			return false
		}
	}
	first, second, third := s.request(acme), s.request(acme), s.request(acme)
	if !placed(first) || !placed(second) || placed(third) {
		t.Fatalf("a workspace has %d places, want 2", s.used)
	}
	late, none := s.request(beta), s.request("gamma")
	again := s.request(beta)
	if !placed(late) || placed(none) || placed(again) {
		t.Fatal("the last place is not that of a workspace that had none")
	}
	s.leave(acme)
	if !placed(none) || placed(third) || placed(again) {
		t.Error("a workspace without a request under way waits for one that has some")
	}
	s.leave("gamma")
	if placed(third) || placed(again) {
		t.Error("the last place went to a workspace that has one")
	}
	s.leave(acme)
	if !placed(third) || placed(again) {
		t.Error("a free place is not given to who waits")
	}
	if !s.withdraw(beta, again) || s.withdraw(acme, third) {
		t.Error("a request that waits can be withdrawn, and one with a place cannot")
	}
	s.leave(acme)
	s.leave(beta)
	if s.used != 0 || len(s.workspaces) != 0 {
		t.Errorf("%d places of %d workspaces are left", s.used, len(s.workspaces))
	}
}

// within gets a page, which must not take minutes.
func (p *person) within(t *testing.T, path string) *reply {
	t.Helper()
	limited, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	return p.do(http.MethodGet, path, nil, func(r *http.Request) { *r = *r.WithContext(limited) })
}

// TestLockedTables: a table that another transaction has locked, or that takes too long to
// read, makes the pages that read it say so, each within the bound of its connection.
func TestLockedTables(t *testing.T) {
	t.Parallel()
	s := setup(t)
	var bound time.Duration
	var text string
	if err := s.pool.QueryRow(t.Context(), `SHOW statement_timeout`).Scan(&text); err != nil {
		t.Fatal(err)
	}
	if bound, _ = time.ParseDuration(text); bound <= lockTimeout || bound > 30*time.Second {
		t.Errorf("a statement may take %q", text)
	}
	p := s.signIn(acme, session.Admin)
	conn := testkit.Must(pgx.Connect(t.Context(), s.pool.Config().ConnString()))(t)
	defer conn.Close(context.Background())
	tx := testkit.Must(conn.Begin(t.Context()))(t)
	testkit.Must(tx.Exec(t.Context(), `LOCK TABLE event_log, console_audit, webhook`))(t)
	var waiting sync.WaitGroup
	for _, path := range []string{"/events", "/audit", "/webhooks"} {
		waiting.Go(func() {
			if a := p.get(path); a.StatusCode != http.StatusServiceUnavailable {
				t.Errorf("%s of a locked table: %d", path, a.StatusCode)
			}
		})
	}
	waiting.Wait()
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.get("/audit").status(http.StatusOK)
}

// TestSlowStatements: a statement that is ended by its timeout is a page that says so.
func TestSlowStatements(t *testing.T) {
	t.Parallel()
	s := setup(t, func(c *Config) {
		hasty := testkit.Must(pg.Open(t.Context(), testkit.AsPool(c.Pool).Config().ConnString(), pg.Options{MaxConns: 2, Settings: map[string]string{"statement_timeout": "200"}}))(t)
		t.Cleanup(hasty.Close)
		c.Audit = audit.NewTrail(hasty)
	})
	p := s.signIn(acme, session.Admin)
	s.exec(`ALTER TABLE console_audit RENAME TO slow`)
	s.exec(`CREATE VIEW console_audit AS SELECT slow.* FROM slow CROSS JOIN pg_sleep(60)`)
	if a := p.get("/audit"); a.StatusCode != http.StatusServiceUnavailable || !strings.Contains(a.body, "This takes too long") {
		t.Errorf("%d %s", a.StatusCode, a.body)
	}
}
