package readapi_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
	"github.com/ledgerfeed/ledgerfeed/readapi"
)

// benchStand is a stand whose keys are cached, as in a running service.
func benchStand(b *testing.B, cached bool) (*stand, string) {
	b.Helper()
	s := newStand(b, func(c *readapi.Config) {
		if !cached {
			c.CacheBytes = -1
		}
		c.Logger = testkit.Discard()
		c.Requests = nil
	})
	s.append(history(b, "acme", 3, s.clock.Now(), 60*24*time.Hour, 2000)...)
	s.append(objects("acme")...)
	s.project("acme", 0)
	s.keepKeys(b)
	s.contract = nil
	key := s.key("acme", allPermissions()...)
	return s, key
}

func benchRequest(b *testing.B, path string, headers ...string) {
	b.Helper()
	s, key := benchStand(b, len(headers) > 1 || headers == nil)
	if len(headers) == 1 {
		headers = append(headers, s.get(path, key).header.Get("Etag"))
	}
	b.ReportAllocs()
	b.SetParallelism(8)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			r := httptest.NewRequestWithContext(b.Context(), http.MethodGet, path, http.NoBody)
			r.Header.Set("Authorization", "Bearer "+key)
			for i := 0; i < len(headers); i += 2 {
				r.Header.Set(headers[i], headers[i+1])
			}
			w := httptest.NewRecorder()
			s.api.ServeHTTP(w, r)
			if w.Code >= 400 {
				b.Fatalf("%d %s", w.Code, w.Body)
			}
		}
	})
}

func BenchmarkMe(b *testing.B)   { benchRequest(b, "/v1/me") }
func BenchmarkPage(b *testing.B) { benchRequest(b, "/v1/time-entries?limit=50") }
func BenchmarkPageGzip(b *testing.B) {
	benchRequest(b, "/v1/time-entries?limit=50", "Accept-Encoding", "gzip")
}
func BenchmarkPageZstd(b *testing.B) {
	benchRequest(b, "/v1/time-entries?limit=50", "Accept-Encoding", "zstd")
}
func BenchmarkPageUncached(b *testing.B) {
	benchRequest(b, "/v1/time-entries?limit=50", "X-Uncached")
}

func BenchmarkOne(b *testing.B) { benchRequest(b, "/v1/invoices/in_1") }
func BenchmarkUnchanged(b *testing.B) {
	benchRequest(b, "/v1/time-entries?limit=50", "If-None-Match")
}
