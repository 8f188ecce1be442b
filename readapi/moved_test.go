package readapi_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
	"github.com/ledgerfeed/ledgerfeed/readapi"
)

// TestCursorsOfAnotherPlace: with the key of a workspace, its cursors open where they were
// not sealed; those of another workspace do not, nor do they without the key.
func TestCursorsOfAnotherPlace(t *testing.T) {
	t.Parallel()
	s := newStand(t)
	now := s.clock.Now()
	for _, w := range []string{"acme", "other"} {
		s.append(history(t, w, 5, now, 20*24*time.Hour, 60)...)
		s.project(w, 0)
	}
	former := s.config
	former.CursorKey = bytes.Repeat([]byte{8}, 32)
	place := &stand{t: t, config: former}
	place.api = testkit.Must(readapi.New(former))(t)
	place.server = serve(t, place.api, former.Logger)
	ask := func(workspaceID string) reply {
		key := s.key(workspaceID, allPermissions()...)
		cursor := cursorFrom(t, place, "/v1/events?limit=2", key)
		return s.get("/v1/events?limit=2&cursor="+url.QueryEscape(cursor), key)
	}
	checkCode(t, "without the key", ask("acme"), http.StatusBadRequest, "cursor_invalid")
	for _, w := range []string{"acme", "other"} { // other gets the key of acme, which is not its own
		testkit.AsOwner(t, s.pool, `INSERT INTO cursor_key (workspace_id, value, since) VALUES ($1, $2, now())`,
			w, readapi.WorkspaceCursorKey(former.CursorKey, "acme"))
	}
	if got := ask("acme"); got.status != http.StatusOK {
		t.Errorf("with the key: %d", got.status)
	}
	checkCode(t, "a cursor of another workspace", ask("other"), http.StatusBadRequest, "cursor_invalid")
}

func cursorFrom(t *testing.T, s *stand, path, key string) string {
	t.Helper()
	r := s.get(path, key)
	var p struct {
		NextCursor string `json:"next_cursor"`
	}
	if err := json.Unmarshal(r.body, &p); err != nil || p.NextCursor == "" {
		t.Fatalf("%v in %s", err, r.body)
	}
	return p.NextCursor
}

// TestMovedWorkspace: readers of a workspace that another database has are told where it is.
func TestMovedWorkspace(t *testing.T) {
	t.Parallel()
	s := newStand(t)
	s.workspace("acme")
	s.workspace("other")
	key, neighbour := s.key("acme", allPermissions()...), s.key("other", allPermissions()...)
	for _, c := range []struct{ address, want string }{{"", ""}, {"https://api.eu.example.com", `"moved_to":"https://api.eu.example.com"`}} {
		testkit.AsOwner(t, s.pool, `UPDATE workspace SET move = 'moved', moved_to = nullif($1, '') WHERE workspace_id = 'acme'`, c.address)
		for _, path := range []string{"/v1/events", "/v1/invoices/in_1", "/v1/me"} {
			r := s.get(path, key)
			if r.status != http.StatusServiceUnavailable || r.header.Get("Retry-After") == "" || !bytes.Contains(r.body, []byte(c.want)) ||
				bytes.Contains(r.body, []byte("moved_to")) != (c.want != "") {
				t.Errorf("%s: %d %s", path, r.status, r.body)
			}
		}
	}
	if r := s.get("/v1/me", neighbour); r.status != http.StatusOK {
		t.Errorf("a neighbour: %d %s", r.status, r.body)
	}
}
