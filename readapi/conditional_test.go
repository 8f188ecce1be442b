package readapi_test

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
	"github.com/ledgerfeed/ledgerfeed/readapi/access"
)

// TestConditionalRequests: an ETag matches as long as the answer would be the same, for
// the key's permissions, the URL and the encoding.
func TestConditionalRequests(t *testing.T) {
	t.Parallel()
	s := newStand(t)
	s.append(history(t, "acme", 3, s.clock.Now(), 20*24*time.Hour, 300)...)
	s.append(objects("acme")...)
	s.project("acme", 0)
	key, poor := s.key("acme", allPermissions()...), s.key("acme", without(access.PayRead, access.MarginRead)...)
	tags := map[string]string{}
	for path := range endpoints() {
		for _, k := range []string{key, poor} {
			r := s.get(path, k)
			tag := r.header.Get("Etag")
			if len(tag) < 10 || tag[0] != '"' {
				t.Errorf("%s: ETag %q", path, tag)
			}
			if other, twice := tags[tag]; twice {
				t.Errorf("%s and %s have one ETag", path, other)
			}
			tags[tag] = path + " " + k[8:16]
			for _, wanted := range []string{tag, "W/" + tag, `"a", ` + tag, `"a,b" ,W/"c",` + tag + `, "d"`, "*", `"x",*`} {
				n := s.get(path, k, "If-None-Match", wanted)
				checkHeaders(t, path, n)
				if n.status != 304 || len(n.body) > 0 || n.header.Get("Etag") != tag || n.header.Get("Vary") != varyOf(path) {
					t.Errorf("%s with If-None-Match %s: %d %v", path, wanted, n.status, n.header)
				}
				if h := s.do(http.MethodHead, path, k, "If-None-Match", wanted); h.status != 304 {
					t.Errorf("HEAD %s with If-None-Match %s: %d", path, wanted, h.status)
				}
			}
			for _, wanted := range []string{"", `"x"`, tag[:len(tag)-1], strings.Trim(tag, `"`), `"` + tag[2:], "x" + tag, `W/`, `"`} {
				if n := s.get(path, k, "If-None-Match", wanted); n.status != 200 {
					t.Errorf("%s with If-None-Match %s: %d", path, wanted, n.status)
				}
			}
			zipped := s.get(path, k, "Accept-Encoding", "gzip, zstd;q=0.5")
			if zipped.header.Get("Content-Encoding") != "" && zipped.header.Get("Etag") == tag {
				t.Errorf("%s: one ETag for two encodings", path)
			}
			if n := s.get(path, k, "Accept-Encoding", "gzip", "If-None-Match", zipped.header.Get("Etag")); n.status != 304 {
				t.Errorf("%s gzipped with its ETag: %d", path, n.status)
			}
			if n := s.get(path, k, "If-None-Match", zipped.header.Get("Etag")); zipped.header.Get("Etag") != tag && n.status != 200 {
				t.Errorf("%s without gzip in Accept-Encoding: %d", path, n.status)
			}
		}
	}
	for tag, name := range tags {
		path, _, _ := strings.Cut(name, " ")
		for other := range endpoints() {
			if other != path {
				if n := s.get(other, key, "If-None-Match", tag); n.status != 200 {
					t.Errorf("%s with the ETag of %s: %d", other, path, n.status)
				}
				break
			}
		}
	}
	if n := s.get("/v1/clients/none", key, "If-None-Match", "*"); n.status != 404 {
		t.Errorf("If-None-Match * on nothing: %d", n.status)
	}
	// A change of anything visible, and events that pass their retention, make
	// new answers.
	before := s.get("/v1/clients", key).header.Get("Etag")
	s.append(`{"workspace_id":"acme","type":"client.recorded","data":{"client_id":"cl_1","name":"Client"}}`)
	if n := s.get("/v1/clients", key, "If-None-Match", before); n.status != 304 {
		t.Errorf("an entry that is not projected yet: %d", n.status)
	}
	s.project("acme", 0)
	if n := s.get("/v1/clients", key, "If-None-Match", before); n.status != 200 {
		t.Errorf("after a change: %d", n.status)
	}
	events := s.get("/v1/events?limit=1", key)
	s.clock.Advance(26 * 24 * time.Hour)
	if n := s.get("/v1/events?limit=1", key, "If-None-Match", events.header.Get("Etag")); n.status != 200 || bytes.Equal(n.body, events.body) {
		t.Errorf("after events passed their retention: %d", n.status)
	}
	if n := s.get("/v1/events/ev_1", key, "If-None-Match", s.get("/v1/events/ev_1", key).header.Get("Etag")); n.status != 304 {
		t.Errorf("an event with its ETag: %d", n.status)
	}
}

// TestCompression: answers above 1 KiB are compressed if the caller accepts it, and
// decompress to the same bytes.
func TestCompression(t *testing.T) {
	t.Parallel()
	s := newStand(t)
	s.append(history(t, "acme", 3, s.clock.Now(), 20*24*time.Hour, 200)...)
	s.append(objects("acme")...)
	s.project("acme", 0)
	key := s.key("acme", allPermissions()...)
	plain := s.get("/v1/time-entries", key)
	for accept, want := range map[string]string{
		"gzip": "gzip", "zstd": "zstd", "gzip, zstd": "zstd", "gzip;q=1.0, zstd;q=0.9": "gzip", "deflate, br": "", "": "",
		"*": "zstd", "*;q=0": "", "gzip;q=0": "", "gzip;q=0, *": "zstd", "GZIP": "gzip", "x-gzip": "gzip", "identity;q=0.1, gzip;q=0.5": "gzip",
		"gzip;q=2": "", "gzip;q=x": "", "gzip; q=0.5 ; x=y": "gzip", ",,gzip": "gzip",
	} {
		r := s.get("/v1/time-entries", key, "Accept-Encoding", accept)
		if got := r.header.Get("Content-Encoding"); got != want || r.header.Get("Vary") != varyOf("/v1/time-entries") {
			t.Errorf("%q is answered with %q", accept, got)
			continue
		}
		if !bytes.Equal(unpack(t, r), plain.body) {
			t.Errorf("%q opens to other bytes", accept)
		}
		if small := s.get("/v1/clients/cl_1", key, "Accept-Encoding", accept); small.header.Get("Content-Encoding") != "" {
			t.Errorf("%d bytes are compressed", len(small.body))
		}
	}
	long := s.get("/v1/time-entries?"+strings.Repeat("x", 40)+"&"+strings.Repeat("y&z&w&v&u&", 3)+"limit=0&status=1", key, "Accept-Encoding", "gzip")
	if long.status != 400 || long.header.Get("Content-Encoding") != "gzip" || !bytes.Contains(unpack(t, long), []byte(`"request_id"`)) {
		t.Errorf("a long problem document: %d, %s", long.status, long.header.Get("Content-Encoding"))
	}
}

func unpack(t testing.TB, r reply) []byte {
	t.Helper()
	u := testkit.Must(newUnpacker())(t)
	defer u.close()
	return testkit.Must(u.unpack(r.header.Get("Content-Encoding"), r.body))(t)
}

// unpacker decompresses bodies, one after the other.
type unpacker struct {
	gzip *gzip.Reader
	zstd *zstd.Decoder
}

func newUnpacker() (*unpacker, error) {
	z, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1))
	return &unpacker{gzip: new(gzip.Reader), zstd: z}, err
}

func (u *unpacker) close() { u.zstd.Close() }

func (u *unpacker) unpack(encoding string, body []byte) ([]byte, error) {
	switch encoding {
	case "gzip":
		if err := u.gzip.Reset(bytes.NewReader(body)); err != nil {
			return nil, err
		}
		return io.ReadAll(u.gzip)
	case "zstd":
		return u.zstd.DecodeAll(body, nil)
	}
	return body, nil
}

// varyOf is on which headers the answers of a path depend.
func varyOf(path string) string {
	if rowLists()[path] != nil || strings.HasPrefix(path, "/v1/totals/") {
		return "Accept, Accept-Encoding"
	}
	return "Accept-Encoding"
}
