package ingestapi

import (
	"fmt"
	"io"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestARepeatAppendsOnce: however requests are written, compressed, repeated and mixed, each entry is in
// the log once, and every answer says the same id and position.
func TestARepeatAppendsOnce(t *testing.T) {
	t.Parallel()
	s := newStand(t)
	key := s.key("acme,globex")
	run := 0
	rapid.Check(t, func(r *rapid.T) {
		run++
		type request struct {
			lines    []string
			header   []string
			workedAs [][2]any // id and position by line, as first answered
		}
		var requests []*request
		for n := range rapid.IntRange(1, 3).Draw(r, "requests") {
			q := &request{}
			made := rapid.Bool().Draw(r, "made")
			if made {
				q.header = []string{"Idempotency-Key", fmt.Sprintf("k-%d-%d", run, n)}
			}
			for i := range rapid.IntRange(1, 6).Draw(r, "lines") {
				id := ""
				if !made {
					id = fmt.Sprintf("e-%d-%d-%d", run, n, i)
				}
				q.lines = append(q.lines, sent(rapid.SampledFrom([]string{"acme", "globex"}).Draw(r, "workspace"), id))
			}
			requests = append(requests, q)
		}
		for range rapid.IntRange(1, 8).Draw(r, "posts") {
			q := rapid.SampledFrom(requests).Draw(r, "request")
			whole := strings.Join(q.lines, "")
			if rapid.Bool().Draw(r, "array") {
				whole = "[" + strings.Join(q.lines, ",") + "]"
			}
			header := q.header
			body := io.Reader(strings.NewReader(whole))
			switch rapid.IntRange(0, 2).Draw(r, "encoding") {
			case 1:
				body, header = gzipped(t, whole), append(append([]string{}, header...), "Content-Encoding", "gzip")
			case 2:
				body, header = zstandard(t, whole), append(append([]string{}, header...), "Content-Encoding", "zstd")
			}
			g := s.post(key, "", body, header...)
			if g.status != http.StatusOK || len(g.Data) != len(q.lines) {
				r.Fatalf("%d %s", g.status, g.text)
			}
			want := appended
			if q.workedAs != nil {
				want = skipped
			}
			var as [][2]any
			for _, row := range g.Data {
				as = append(as, [2]any{row.ID, *row.Position})
				if row.Result != want {
					r.Errorf("%+v, want %s", row, want)
				}
			}
			if q.workedAs != nil && !reflect.DeepEqual(as, q.workedAs) {
				r.Errorf("%v, first %v", as, q.workedAs)
			}
			q.workedAs = as
		}
		for _, w := range []string{"acme", "globex"} {
			s.positions(w) // fails where an id is in the log twice
		}
	})
}

// FuzzDecode: no body breaks the decoder, and what it takes are entries of the key's workspace with
// ids, no more than a request may have.
func FuzzDecode(f *testing.F) {
	for _, body := range []string{sent("acme", "a"), "[" + sent("acme", "") + "," + sent("globex", "b") + "]", "[{}, 7, \"x\"", "\ufeff\n\r\n{", "[[[", "\xff\xfe{\x00", "{\"a\":\"\xff\"}", "[]7"} {
		f.Add([]byte(body), "k")
		f.Add([]byte(body), "")
	}
	key := &Key{ID: "producer_1", Workspaces: []string{"acme"}, Types: []string{"invoice.sent"}}
	f.Fuzz(func(t *testing.T, body []byte, idempotencyKey string) {
		e, err := decode(key, body, idempotencyKey)
		if err != nil {
			p, is := err.(*problem) //nolint:errorlint // the only type of errors here
			if !is || p.Status < 400 || p.Status > 499 || len(p.Errors) > maxFaults {
				t.Errorf("%v", err)
			}
			return
		}
		if len(e.drafts) == 0 || len(e.drafts) > MaxEntries || len(e.drafts) != len(e.lines) {
			t.Errorf("%d entries", len(e.drafts))
		}
		ids := map[string]bool{}
		for i := range e.drafts {
			d := &e.drafts[i]
			if !d.Checked() || d.WorkspaceID != "acme" || d.Type != "invoice.sent" || d.ID == "" {
				t.Errorf("%+v", d)
			}
			ids[d.ID] = true
		}
		again, err := decode(key, body, idempotencyKey)
		if err != nil {
			t.Fatal(err)
		}
		for i := range again.drafts {
			if !ids[again.drafts[i].ID] {
				t.Errorf("the id %s is another one the second time", again.drafts[i].ID)
			}
		}
	})
}
