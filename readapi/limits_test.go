package readapi_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
	"github.com/ledgerfeed/ledgerfeed/readapi/access"
)

// TestRefusalsLookAlike: missing, malformed, unknown, revoked and expired keys are
// answered alike.
func TestRefusalsLookAlike(t *testing.T) {
	t.Parallel()
	s := newStand(t)
	s.workspace("acme")
	record, revoked, err := s.store.Create(t.Context(), access.NewKey{WorkspaceID: "acme", Name: "x", Permissions: access.PermissionsOf(access.PayRead)})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.store.Revoke(t.Context(), "acme", record.ID); err != nil {
		t.Fatal(err)
	}
	_, expired, err := s.store.Create(t.Context(), access.NewKey{
		WorkspaceID: "acme", Name: "x", Permissions: access.PermissionsOf(access.PayRead), ExpiresAt: s.clock.Now().Add(time.Second),
	})
	if err != nil {
		t.Fatal(err)
	}
	s.clock.Advance(2 * time.Second)
	live := s.key("acme", access.PayRead)
	unknown := testkit.Must(s.format.Generate(bytes.NewReader(bytes.Repeat([]byte{1, 2, 3}, 100))))(t).Reveal()
	var first string
	for i, headers := range [][]string{
		{}, {"Authorization", "Bearer x"}, {"Authorization", "Bearer"}, {"Authorization", "Bearer "}, {"Authorization", "Basic " + live},
		{"Authorization", live}, {"Authorization", "Bearer " + unknown}, {"Authorization", "Bearer " + revoked.Reveal()},
		{"Authorization", "Bearer " + expired.Reveal()}, {"Authorization", "Bearer " + live + ",x"}, {"Authorization", "Bearer " + live, "Authorization", "Bearer " + live},
	} {
		r := s.get("/v1/me", "", append(headers, "X-Request-Id", "same", "X-Forwarded-For", fmt.Sprintf("203.0.113.%d", i))...)
		r.header.Del("Date")
		// Only the count differs: a key that was sent counts, a missing one does not.
		r.header.Del("RateLimit")
		r.header.Del("RateLimit-Remaining")
		text := fmt.Sprint(r.status, r.header, string(r.body))
		if first == "" {
			first = text
		}
		if r.status != 401 || text != first {
			t.Errorf("%q is answered with\n%s\nthe first one with\n%s", headers, text, first)
		}
	}
	for _, scheme := range []string{"Bearer ", "bearer ", "BEARER  "} {
		if r := s.get("/v1/me", "", "Authorization", scheme+live); r.status != 200 {
			t.Errorf("%q: %d", scheme, r.status)
		}
	}
}

// TestRateLimits: the count in the headers, the refusal, the next minute.
func TestRateLimits(t *testing.T) {
	t.Parallel()
	s := newStand(t)
	s.workspace("acme")
	key, other := s.keyLimited("acme", 3, access.PayRead), s.keyLimited("acme", 5, access.PayRead)
	s.clock.Set(s.clock.Now().Truncate(time.Minute).Add(17*time.Second + 300*time.Millisecond))
	for i, path := range []string{"/v1/me", "/v1/nowhere", "/v1/invoices"} {
		r := s.get(path, key)
		if got := strings.Join([]string{r.header.Get("Ratelimit-Limit"), r.header.Get("Ratelimit-Remaining"), r.header.Get("Ratelimit-Reset")}, " "); got != fmt.Sprintf("3 %d 43", 2-i) {
			t.Errorf("%s: %s", path, got)
		}
		if r.header.Get("Ratelimit-Policy") != `"key";q=3;w=60` || r.header.Get("Ratelimit") != fmt.Sprintf(`"key";r=%d;t=43`, 2-i) {
			t.Errorf("%s: %s, %s", path, r.header.Get("Ratelimit-Policy"), r.header.Get("Ratelimit"))
		}
	}
	for range 3 {
		r := s.get("/v1/me", key)
		checkHeaders(t, "too many", r)
		if r.status != 429 || r.header.Get("Retry-After") != "43" || r.header.Get("Ratelimit-Remaining") != "0" {
			t.Errorf("above the limit: %d %v", r.status, r.header)
		}
	}
	if r := s.get("/v1/me", other); r.status != 200 || r.header.Get("Ratelimit-Remaining") != "4" {
		t.Errorf("another key: %d, %s left", r.status, r.header.Get("Ratelimit-Remaining"))
	}
	s.clock.Set(s.clock.Now().Truncate(time.Minute).Add(time.Minute))
	if r := s.get("/v1/me", key); r.status != 200 || r.header.Get("Ratelimit-Remaining") != "2" || r.header.Get("Ratelimit-Reset") != "60" {
		t.Errorf("in the next minute: %d %v", r.status, r.header)
	}
	for i := range access.RefusedKeysPerMinute + 4 {
		r := s.get("/v1/me", "x")
		want, left := 401, max(0, access.RefusedKeysPerMinute-1-i)
		if i > access.RefusedKeysPerMinute { // more than 20 were sent before this one
			want = 429
		}
		if r.status != want || r.header.Get("Ratelimit-Remaining") != fmt.Sprint(left) || r.header.Get("Ratelimit-Limit") != "20" {
			t.Errorf("refused key %d: %d, %s left", i+1, r.status, r.header.Get("Ratelimit-Remaining"))
		}
	}
	if r := s.get("/v1/me", ""); r.status != 429 {
		t.Errorf("no key from a slowed address: %d", r.status)
	}
	if r := s.get("/v1/me", key); r.status != 200 {
		t.Errorf("a valid key from a slowed address: %d", r.status)
	}
	s.clock.Advance(time.Minute)
	if r := s.get("/v1/me", "x"); r.status != 401 {
		t.Errorf("a refused key a minute later: %d", r.status)
	}
}
