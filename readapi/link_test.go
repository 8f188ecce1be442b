package readapi_test

import (
	"bytes"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ledgerfeed/ledgerfeed/readapi/access"
)

// linkForm is the Link of a page that has more.
var linkForm = regexp.MustCompile(`^<https://api\.example\.com(/v1/[^>]*)>; rel="next"$`)

// TestAPaginatorFollowsLinks: a program that follows Link and nothing else reads every list to its end
// and stops, whatever parameters it began with, and whether the pages are cached or not.
func TestAPaginatorFollowsLinks(t *testing.T) {
	t.Parallel()
	s := newStand(t)
	s.append(history(t, "acme", 5, s.clock.Now(), 20*24*time.Hour, 200)...)
	s.project("acme", 0)
	key := s.key("acme", allPermissions()...)
	client, _ := s.someParties("acme")
	for _, path := range followed(client) {
		for _, query := range []string{"?limit=2", "?l%69mit=2", "?limit=2&" + map[bool]string{true: "include=removed", false: ""}[takes(path, "include")]} {
			values, err := url.ParseQuery(query[1:])
			if err != nil {
				t.Fatal(err)
			}
			want := s.pagesOf(path, key, values)
			for range 3 { // cached the second time
				var got []string
				for target := path + query; target != ""; {
					r := s.get(target, key)
					if r.status != http.StatusOK {
						t.Fatalf("%s: %d %s", target, r.status, r.body)
					}
					got = append(got, string(r.body))
					link := r.header.Get("Link")
					more := strings.Contains(string(r.body), `"has_more":true`)
					found := linkForm.FindStringSubmatch(link)
					if more != (found != nil) || !more && link != "" {
						t.Fatalf("%s has more: %v, and the Link %q", target, more, link)
					}
					if head := s.do(http.MethodHead, target, key); head.header.Get("Link") != link {
						t.Errorf("HEAD %s has the Link %q, not %q", target, head.header.Get("Link"), link)
					}
					target = ""
					if more {
						target = found[1]
					}
				}
				if !slices.Equal(got, want) {
					t.Errorf("%s%s: %d pages by links, %d by cursors", path, query, len(got), len(want))
				}
			}
		}
	}
}

// pagesOf reads the pages of a list by their cursors.
func (s *stand) pagesOf(path, key string, query url.Values) (pages []string) {
	s.t.Helper()
	for {
		r := s.get(path+"?"+query.Encode(), key)
		pages = append(pages, string(r.body))
		_, rest, more := strings.Cut(string(r.body), `"has_more":true,"next_cursor":"`)
		if !more {
			return pages
		}
		cursor, _, _ := strings.Cut(rest, `"`)
		query.Set("cursor", cursor)
	}
}

// TestAWholeListAtItsPath: a list's path with .ndjson or .csv is the list with that Accept, whatever
// is accepted, and nothing else has such a path.
func TestAWholeListAtItsPath(t *testing.T) {
	t.Parallel()
	s := newStand(t)
	s.append(history(t, "acme", 5, s.clock.Now(), 20*24*time.Hour, 200)...)
	s.project("acme", 0)
	key, poor := s.key("acme", allPermissions()...), s.key("acme", access.EventsRead)
	for path := range rowLists() {
		for extension, accept := range map[string]string{".ndjson": ndjson, ".csv": csvForm} {
			want := s.get(path+"?"+everything(path), key, "Accept", accept)
			for _, other := range []string{"", "application/json", "*/*"} {
				got := s.get(path+extension+"?"+everything(path), key, "Accept", other)
				if got.status != http.StatusOK || !bytes.Equal(got.body, want.body) || got.header.Get("Content-Type") != want.header.Get("Content-Type") {
					t.Errorf("%s%s with Accept %q: %d %v", path, extension, other, got.status, got.header)
				}
			}
			if r := s.get(path+extension+"?limit=5", key); r.status != http.StatusBadRequest {
				t.Errorf("%s%s with a limit: %d", path, extension, r.status)
			}
			if r := s.get(path+extension, poor); r.status != http.StatusForbidden {
				t.Errorf("%s%s without permission: %d", path, extension, r.status)
			}
			if r := s.do(http.MethodOptions, path+extension, key); r.status != http.StatusNoContent {
				t.Errorf("OPTIONS %s%s: %d", path, extension, r.status)
			}
			cursor := *s.page(path+"?limit=1", key).NextCursor
			if r := s.get(path+extension+"?limit=1&cursor="+cursor, key); r.status != http.StatusBadRequest {
				t.Errorf("%s%s with the cursor of a page with a limit: %d", path, extension, r.status)
			}
		}
	}
	for _, path := range []string{"/v1/events.ndjson", "/v1/me.csv", "/v1/totals/invoices.csv", "/v1/clients/cl_1/credit.csv"} {
		if r := s.get(path, key); r.status != http.StatusNotFound {
			t.Errorf("%s: %d", path, r.status)
		}
	}
}
