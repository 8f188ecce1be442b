package readapi_test

import (
	"bytes"
	"slices"
	"testing"
	"time"

	"github.com/ledgerfeed/ledgerfeed/readapi/access"
)

// TestCachedAnswersAreNeverOld asks for the same again and again while entries are
// appended: each answer is what the fold says at that moment, for each key and
// encoding.
func TestCachedAnswersAreNeverOld(t *testing.T) {
	t.Parallel()
	s := newStand(t)
	s.contract = nil // the other suites judge these answers
	lines := history(t, "acme", 6, s.clock.Now(), 25*24*time.Hour, 260)
	s.append(lines[:200]...)
	s.project("acme", 0)
	keys := map[view]string{}
	for v, permissions := range views() {
		keys[v] = s.key("acme", permissions...)
	}
	for next := 200; next < len(lines); next += 20 {
		for path := range lists() {
			for v, key := range keys {
				want := texts(s.expected("acme", path, nil, v))
				want = want[:min(len(want), 20)]
				for range 3 {
					for _, accept := range []string{"identity", "gzip", "zstd"} {
						r := s.get(path+"?limit=20", key, "Accept-Encoding", accept)
						r.body = unpack(t, r)
						var got []string
						for _, row := range parsePage(t, r.body).Data {
							got = append(got, string(row))
						}
						if !slices.Equal(got, want) {
							t.Fatalf("%s in %s for %+v is not what the fold says", path, accept, v)
						}
						if again := s.get(path+"?limit=20", key, "Accept-Encoding", accept, "If-None-Match", r.header.Get("Etag")); again.status != 304 {
							t.Fatalf("%s in %s with its ETag: %d", path, accept, again.status)
						}
						head := s.do("HEAD", path+"?limit=20", key, "Accept-Encoding", accept)
						if head.header.Get("Etag") != r.header.Get("Etag") || head.header.Get("Content-Length") != r.header.Get("Content-Length") {
							t.Fatalf("HEAD %s in %s differs", path, accept)
						}
						if rows := s.requests.last().Rows; rows != len(want) {
							t.Fatalf("%s: the log says %d rows", path, rows)
						}
					}
				}
			}
		}
		s.append(lines[next : next+20]...)
		s.project("acme", 0)
	}
}

// TestRepairsShow: rows that were repaired at the same position are not hidden
// by what was cached or tagged before.
func TestRepairsShow(t *testing.T) {
	t.Parallel()
	s := newStand(t)
	s.append(objects("acme")...)
	s.project("acme", 0)
	key := s.key("acme", access.ClientsRead)
	var tag string
	for range 3 {
		tag = s.get("/v1/clients", key).header.Get("Etag")
	}
	for _, sql := range []string{
		`UPDATE client SET base = replace(base, '"Client"', '"Repaired"')`,
		`UPDATE log_checkpoint SET moved_at = '` + s.clock.Now().Add(time.Microsecond).UTC().Format(time.RFC3339Nano) + `'`,
	} {
		if _, err := s.pool.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	if r := s.get("/v1/clients", key, "If-None-Match", tag); r.status != 200 || !bytes.Contains(r.body, []byte("Repaired")) {
		t.Errorf("%d %s", r.status, r.body)
	}
}
