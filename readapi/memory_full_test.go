//go:build full

// These tests measure the process, so no other test may run beside them.

package readapi_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
	"github.com/ledgerfeed/ledgerfeed/readapi"
)

// TestCachedAnswersAreBounded: however many different answers are asked for again,
// the memory for them stays within its bound, including what they keep of requests.
func TestCachedAnswersAreBounded(t *testing.T) { // alone, because it measures the process
	const bound = 1 << 20
	s := newStand(t, func(c *readapi.Config) { c.CacheBytes = bound })
	s.contract = nil
	s.append(history(t, "acme", 6, s.clock.Now(), 25*24*time.Hour, 300)...)
	s.project("acme", 0)
	key := s.key("acme", allPermissions()...)
	ask := func(from, to int) {
		for i := from; i < to; i++ {
			q := url.Values{"updated_since": {fmt.Sprintf("2020-01-01T00:00:00.%03dZ", i%1000)}, "limit": {fmt.Sprint(20 + i/1000)}}
			for range 3 {
				s.page("/v1/time-entries?"+q.Encode(), key)
			}
		}
	}
	heap := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	ask(0, 100) // connections and pools have what they need now
	before := heap()
	ask(100, 700) // some 12 MB of answers
	if grown := heap() - before; grown > 4*bound {
		t.Errorf("the process has grown by %d bytes", grown)
	}
	// Short answers to requests whose first line is long: some 12 MB of it.
	for i := range 1000 {
		for range 2 {
			r := testkit.Must(http.NewRequestWithContext(t.Context(), http.MethodGet, "http://api/v1/time-entries", http.NoBody))(t)
			line := strings.Repeat("x", 12<<10) + fmt.Sprintf("?updated_since=9000-01-01T00:00:00.%03dZ", i)
			r.URL.RawQuery = line[12<<10+1:]
			r.Header.Set("Authorization", "Bearer "+key)
			w := httptest.NewRecorder()
			if s.api.ServeHTTP(w, r); w.Code != http.StatusOK {
				t.Fatalf("%d %s", w.Code, w.Body)
			}
		}
	}
	if grown := heap() - before; grown > 4*bound {
		t.Errorf("the process has grown by %d bytes", grown)
	}
}

// TestAWholeListTakesLittleMemory: what one takes does not grow with its size. The test is
// not parallel, because it measures the process.
func TestAWholeListTakesLittleMemory(t *testing.T) {
	s := newStand(t)
	s.fat("acme", 12_000) // 96 MB
	key := s.key("acme", allPermissions()...)
	s.keepKeys(t)
	for _, accept := range []string{ndjson, csvForm} {
		for _, encoding := range []string{"identity", "gzip", "zstd"} {
			var before, after runtime.MemStats
			read := counting{}
			r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/v1/contractors", http.NoBody)
			for name, value := range map[string]string{"Authorization": "Bearer " + key, "Accept": accept, "Accept-Encoding": encoding} {
				r.Header.Set(name, value)
			}
			runtime.ReadMemStats(&before)
			s.api.ServeHTTP(&read, r)
			runtime.ReadMemStats(&after)
			// All that was ever allocated, so that what was freed meanwhile counts, too.
			took := after.TotalAlloc - before.TotalAlloc
			t.Logf("%s in %s: %d bytes took %d KiB", accept, encoding, read.n, took>>10)
			if took > 16<<20 || read.status != http.StatusOK || encoding == "identity" && read.n < 96_000_000 {
				t.Errorf("%s in %s: %d, %d bytes took %d KiB", accept, encoding, read.status, read.n, took>>10)
			}
		}
	}
}

// counting is a ResponseWriter that counts what is written.
type counting struct {
	header http.Header
	status int
	n      int
}

func (c *counting) Header() http.Header {
	if c.header == nil {
		c.header = http.Header{}
	}
	return c.header
}
func (c *counting) WriteHeader(status int)      { c.status = status }
func (c *counting) Write(p []byte) (int, error) { c.n += len(p); return len(p), nil }
