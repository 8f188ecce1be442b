package readapi_test

import (
	"bytes"
	"net/http/httptest"
	"net/url"
	"slices"
	"testing"
	"time"

	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
	"github.com/ledgerfeed/ledgerfeed/readapi"
)

// TestInstancesAreOne: a caller may reach another instance with every request, because
// cursors, ETags and bytes are the same.
func TestInstancesAreOne(t *testing.T) {
	t.Parallel()
	s := newStand(t)
	s.append(history(t, "acme", 3, s.clock.Now(), 20*24*time.Hour, 300)...)
	s.project("acme", 0)
	key := s.key("acme", allPermissions()...)
	second := serve(t, testkit.Must(readapi.New(s.config))(t), s.config.Logger)
	first := s.server
	for path := range lists() {
		for _, accept := range []string{"identity", "gzip", "zstd"} {
			a, b := send(t, first, "GET", path, key, "Accept-Encoding", accept), send(t, second, "GET", path, key, "Accept-Encoding", accept)
			if !bytes.Equal(a.body, b.body) || a.header.Get("Etag") != b.header.Get("Etag") {
				t.Errorf("%s in %s differs between two instances", path, accept)
			}
			if c := send(t, second, "GET", path, key, "Accept-Encoding", accept, "If-None-Match", a.header.Get("Etag")); c.status != 304 {
				t.Errorf("%s in %s with the other instance's ETag: %d", path, accept, c.status)
			}
		}
		want := texts(s.expected("acme", path, nil, view{true, true}))
		turn := 0
		got, _ := s.walk(path, key, url.Values{"limit": {"11"}}, func() {
			turn++
			s.server = []*httptest.Server{first, second}[turn%2]
		})
		s.server = first
		if !slices.Equal(got, want) {
			t.Errorf("%s read from two instances by turns: %d rows, want %d", path, len(got), len(want))
		}
	}
	// With another secret no cursor of the first opens.
	s.config.CursorKey = bytes.Repeat([]byte{8}, 32)
	other := serve(t, testkit.Must(readapi.New(s.config))(t), s.config.Logger)
	page := s.page("/v1/invoices?limit=1", key)
	if r := send(t, other, "GET", "/v1/invoices?limit=1&cursor="+*page.NextCursor, key); r.status != 400 {
		t.Errorf("a cursor of another service: %d", r.status)
	}
}
