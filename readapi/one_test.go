package readapi_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/ledgerfeed/ledgerfeed/readapi"
)

// single is a request for one row, with the answer that it must have.
type single struct {
	path, key string
	status    int
	body      string // looked at for 200 alone
}

// singles are requests for the rows of two workspaces as each view shows them, for
// those that it does not show, and for some that are of the other workspace or of
// nobody.
func (s *stand) singles(workspaces ...string) []single {
	s.t.Helper()
	var list []single
	all := view{pay: true, margin: true}
	for v, permissions := range views() {
		for i, workspaceID := range workspaces {
			key := s.key(workspaceID, permissions...)
			for path := range lists() {
				shown := s.expected(workspaceID, path, url.Values{}, v)
				for _, row := range shown {
					list = append(list, single{path + "/" + row.id, key, http.StatusOK, row.json})
				}
				for _, row := range s.expected(workspaceID, path, url.Values{}, all) {
					if !slices.ContainsFunc(shown, func(w wanted) bool { return w.id == row.id }) {
						list = append(list, single{path + "/" + row.id, key, http.StatusNotFound, ""})
					}
				}
				for _, row := range s.expected(workspaces[1-i], path, url.Values{}, all) {
					if !slices.ContainsFunc(s.expected(workspaceID, path, url.Values{}, all), func(w wanted) bool { return w.id == row.id }) {
						list = append(list, single{path + "/" + row.id, key, http.StatusNotFound, ""})
					}
				}
				list = append(list, single{path + "/nobody", key, http.StatusNotFound, ""})
			}
		}
	}
	return list
}

// together asks side by side, so that questions share the way to the database, and
// counts the answers by what they are.
func (s *stand) together(list []single, exempt func(single) bool) (exempted int) {
	s.t.Helper()
	const callers = 24
	counts := make([]int, callers)
	group, ctx := errgroup.WithContext(s.t.Context())
	for caller := range callers {
		group.Go(func() (err error) {
			random := rand.New(rand.NewPCG(1, uint64(caller)))
			for range 150 {
				q := list[random.IntN(len(list))]
				if exempt(q) {
					counts[caller]++
				}
				if err := s.askFor(ctx, q, exempt(q)); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		s.t.Error(err)
	}
	for _, n := range counts {
		exempted += n
	}
	return exempted
}

func (s *stand) askFor(ctx context.Context, q single, broken bool) error {
	r, err := ask(ctx, s.server, http.MethodGet, q.path, q.key)
	switch {
	case err != nil:
		return err
	case broken && r.status != http.StatusInternalServerError:
		return fmt.Errorf("%s, whose table is away: %d %s", q.path, r.status, r.body)
	case !broken && r.status != q.status:
		return fmt.Errorf("%s: %d %s, want %d", q.path, r.status, r.body, q.status)
	case !broken && r.status == http.StatusOK && string(r.body) != q.body:
		return fmt.Errorf("%s:\n%s\nwant\n%s", q.path, r.body, q.body)
	}
	return nil
}

// TestRowsThatAreReadTogether: single rows of several workspaces, resources and keys,
// asked for at once, are each what the fold says; and a table that cannot be read
// takes nothing with it but its own rows.
func TestRowsThatAreReadTogether(t *testing.T) {
	t.Parallel()
	var asked statements
	s := newStand(t, func(c *readapi.Config) { asked.counted(t, c) })
	for _, workspaceID := range []string{"acme", "zenith"} {
		s.append(history(t, workspaceID, 8, s.clock.now(), 20*24*time.Hour, 150)...)
		s.append(objects(workspaceID)...)
		s.project(workspaceID, 0)
	}
	list := s.singles("acme", "zenith")
	s.together(list, func(single) bool { return false })
	if asked.batches.Load() == 0 {
		t.Error("no rows were read together")
	}
	if _, err := s.pool.Exec(t.Context(), `ALTER TABLE charge RENAME TO away`); err != nil {
		t.Fatal(err)
	}
	if n := s.together(list, func(q single) bool { return q.path[:len("/v1/charges")] == "/v1/charges" }); n == 0 {
		t.Error("nobody asked for a charge")
	}
}
