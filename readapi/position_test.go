package readapi_test

import (
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/ledgerfeed/ledgerfeed/eventlog"
)

// visible is the visible position of a workspace.
func (s *stand) visible(workspaceID string) (position int64) {
	s.t.Helper()
	if err := s.pool.QueryRow(s.t.Context(), `SELECT position FROM log_checkpoint WHERE workspace_id = $1 AND consumer = $2`,
		workspaceID, eventlog.ReadModels).Scan(&position); err != nil {
		s.t.Fatal(err)
	}
	return position
}

// TestAnswersSayTheirPosition: every 200 and 304 about a workspace's data, from the cache
// or not, has the visible position that it is of, HEAD included; nothing else has one.
func TestAnswersSayTheirPosition(t *testing.T) {
	t.Parallel()
	s := newStand(t)
	s.workspace("bare")
	s.append(objects("acme")...)
	s.project("acme", 0)
	key := s.key("acme", allPermissions()...)
	check := func(what string, r reply, want string) {
		t.Helper()
		if got := r.header.Get("Log-Position"); got != want {
			t.Errorf("%s: %d with Log-Position %q, want %q", what, r.status, got, want)
		}
	}
	for pass := range 2 {
		if pass == 1 { // entries that are not visible yet do not count
			s.clock.Set(s.clock.Now().Add(48 * time.Hour))
			s.append(history(t, "acme", 3, s.clock.Now(), 24*time.Hour, 50)...)
			s.project("acme", s.visible("acme")+20)
			s.append(objects("acme")[0])
		}
		at := strconv.FormatInt(s.visible("acme"), 10)
		for path, permission := range endpoints() {
			want := at
			if permission == "" {
				want = ""
			}
			var tag string
			for range 3 { // cached the second time
				r := s.get(path, key)
				check(path, r, want)
				tag = r.header.Get("Etag")
			}
			check("HEAD "+path, s.do(http.MethodHead, path, key), want)
			unchanged := s.get(path, key, "If-None-Match", tag)
			check(path+" unchanged", unchanged, want)
			if unchanged.status != 304 {
				t.Errorf("%s: %d", path, unchanged.status)
			}
			check("OPTIONS "+path, s.do(http.MethodOptions, path, key), "")
			check(path+" without a key", s.get(path, ""), "")
			check(path+" with a wrong parameter", s.get(path+"?x=1", key), "")
		}
	}
	check("a workspace without entries", s.get("/v1/invoices", s.key("bare", allPermissions()...)), "0")
	check("an unknown id", s.get("/v1/invoices/none", key), "")
}
