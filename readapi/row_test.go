package readapi_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
	"github.com/ledgerfeed/ledgerfeed/readapi"
	"github.com/ledgerfeed/ledgerfeed/readapi/access"
)

// single is a request for one row, with the answer that it must have.
type single struct {
	path, key string
	pay       bool // the key may see it
	status    int
	body      string // looked at for 200 alone, as the tag is
	tag       string // of the answer to a request that comes alone
}

// singles are requests for the rows of two workspaces as each view shows them, for those
// that it does not show, and for rows of the other workspace or of none.
func (s *stand) singles(workspaces ...string) []single {
	s.t.Helper()
	var list []single
	all := view{pay: true, margin: true}
	for v, permissions := range views() {
		for i, workspaceID := range workspaces {
			key := s.key(workspaceID, permissions...)
			for path := range lists() {
				if strings.HasPrefix(path, "/v1/credit") {
					continue // whose rows have no address of their own
				}
				shown, own := s.expected(workspaceID, path, url.Values{}, v), s.expected(workspaceID, path, url.Values{}, all)
				for _, row := range shown {
					list = append(list, single{path + "/" + row.id, key, v.pay, http.StatusOK, row.json, s.get(path+"/"+row.id, key).header.Get("Etag")})
				}
				for _, row := range own {
					if !slices.ContainsFunc(shown, func(w wanted) bool { return w.id == row.id }) {
						list = append(list, single{path: path + "/" + row.id, key: key, pay: v.pay, status: http.StatusNotFound})
					}
				}
				for _, row := range s.expected(workspaces[1-i], path, url.Values{}, all) {
					if !slices.ContainsFunc(own, func(w wanted) bool { return w.id == row.id }) {
						list = append(list, single{path: path + "/" + row.id, key: key, pay: v.pay, status: http.StatusNotFound})
					}
				}
				list = append(list, single{path: path + "/nobody", key: key, pay: v.pay, status: http.StatusNotFound})
			}
		}
	}
	return list
}

// together asks side by side, so that queries share batches, and counts the exempt
// ones, which cannot be answered. At first the invoices are locked, so that batches of
// them fill.
func (s *stand) together(list []single, exempt func(single) bool) (exempted int) {
	s.t.Helper()
	tx := testkit.Must(s.pool.Begin(s.t.Context()))(s.t)
	defer func() { _ = tx.Rollback(context.WithoutCancel(s.t.Context())) }()
	testkit.Must(tx.Exec(s.t.Context(), `LOCK TABLE invoice IN ACCESS EXCLUSIVE MODE`))(s.t)
	const callers = 24
	counts := make([]int, callers)
	group, ctx := errgroup.WithContext(s.t.Context())
	for caller := range callers {
		group.Go(func() error {
			random := rand.New(rand.NewPCG(1, uint64(caller)))
			for range 150 {
				q := list[random.IntN(len(list))]
				broken := exempt(q)
				if broken {
					counts[caller]++
				}
				if err := s.askFor(ctx, q, broken); err != nil {
					return err
				}
			}
			return nil
		})
	}
	s.locksWaitedFor(2)
	if err := tx.Commit(s.t.Context()); err != nil {
		s.t.Fatal(err)
	}
	if err := group.Wait(); err != nil {
		s.t.Error(err)
	}
	for _, n := range counts {
		exempted += n
	}
	return exempted
}

// locksWaitedFor waits until so many statements wait for locks.
func (s *stand) locksWaitedFor(n int64) {
	s.t.Helper()
	s.until(func() bool { return s.locksWaited() >= n })
}

// locksWaited is how many statements wait for locks.
func (s *stand) locksWaited() int64 {
	s.t.Helper()
	return int64(testkit.Must(testkit.LocksAwaited(s.t, s.pool))(s.t))
}

func (s *stand) askFor(ctx context.Context, q single, broken bool) error {
	r, err := ask(ctx, s.server, http.MethodGet, q.path, q.key)
	switch {
	case err != nil:
		return err
	case broken && r.status != http.StatusInternalServerError:
		return fmt.Errorf("%s, whose column is away: %d %s", q.path, r.status, r.body)
	case !broken && r.status != q.status:
		return fmt.Errorf("%s: %d %s, want %d", q.path, r.status, r.body, q.status)
	case !broken && r.status == http.StatusOK && (string(r.body) != q.body || r.header.Get("Etag") != q.tag):
		return fmt.Errorf("%s, %s:\n%s\nwant %s:\n%s", q.path, r.header.Get("Etag"), r.body, q.tag, q.body)
	}
	return nil
}

// TestRowsThatAreReadTogether: single rows of several workspaces, resources and keys,
// asked for at once, are each what the fold says; and where some cannot be read, the
// others of the same batch are.
func TestRowsThatAreReadTogether(t *testing.T) {
	t.Parallel()
	var asked statements
	s := newStand(t, func(c *readapi.Config) { asked.counted(t, c) })
	for _, workspaceID := range []string{"acme", "zenith"} {
		s.append(history(t, workspaceID, 8, s.clock.Now(), 20*24*time.Hour, 150)...)
		s.append(objects(workspaceID)...)
		s.project(workspaceID, 0)
	}
	list := s.singles("acme", "zenith")
	s.together(list, func(single) bool { return false })
	if asked.batches.Load() == 0 || asked.failed.Load() > 0 {
		t.Errorf("%d batches, of which %d failed", asked.batches.Load(), asked.failed.Load())
	}
	// Requests with keys that may not see pay do not read that column.
	testkit.AsOwner(t, s.pool, `ALTER TABLE invoice RENAME COLUMN pay TO away`)
	broken := func(q single) bool { return q.pay && strings.HasPrefix(q.path, "/v1/invoices/") }
	for range 100 { // which requests share a batch is a matter of timing
		if s.together(list, broken) == 0 {
			t.Fatal("no invoice with pay was asked for")
		}
		if asked.failed.Load() > 0 {
			return
		}
	}
	t.Error("no batch failed")
}

// TestATableThatHasToBeWaitedFor: a locked table delays only requests for its rows.
func TestATableThatHasToBeWaitedFor(t *testing.T) {
	t.Parallel()
	s := newStand(t)
	s.append(objects("acme")...)
	s.project("acme", 0)
	key := s.key("acme", allPermissions()...)
	tx := testkit.Must(s.pool.Begin(t.Context()))(t)
	defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
	if _, err := tx.Exec(t.Context(), `LOCK TABLE charge IN ACCESS EXCLUSIVE MODE`); err != nil {
		t.Fatal(err)
	}
	group, ctx := errgroup.WithContext(t.Context())
	expect := func(path string) error {
		r, err := ask(ctx, s.server, http.MethodGet, path, key)
		if err == nil && r.status != http.StatusOK {
			err = fmt.Errorf("%s: %d %s", path, r.status, r.body)
		}
		return err
	}
	for waiting := range int64(2) { // one after the other, so that they wait in batches of their own
		group.Go(func() error { return expect("/v1/charges/ch_1") })
		s.locksWaitedFor(waiting + 1)
	}
	for range 20 {
		for _, path := range []string{"/v1/clients/cl_1", "/v1/invoices/in_1", "/v1/payments/pm_1"} {
			if err := expect(path); err != nil {
				t.Error(err)
			}
		}
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := group.Wait(); err != nil {
		t.Error(err)
	}
}

// TestRowsAreNeverOld changes a row again and again while others ask for it: a request
// that is made after a change is visible gets it, whichever requests share its batch.
func TestRowsAreNeverOld(t *testing.T) {
	t.Parallel()
	s := newStand(t)
	s.append(objects("acme")...)
	s.project("acme", 0)
	key := s.key("acme", access.ClientsRead)
	ctx, stop := context.WithCancel(t.Context())
	var others errgroup.Group
	for range 8 {
		others.Go(func() error {
			for ctx.Err() == nil {
				if r, err := ask(ctx, s.server, http.MethodGet, "/v1/clients/cl_1", key); ctx.Err() == nil && (err != nil || r.status != http.StatusOK) {
					return fmt.Errorf("%d, %w", r.status, err)
				}
			}
			return nil
		})
	}
	for i := range 40 {
		name := fmt.Sprintf("Client %d", i)
		s.append(fmt.Sprintf(`{"workspace_id":"acme","type":"client.recorded","data":{"client_id":"cl_1","name":%q}}`, name))
		s.project("acme", 0)
		var askers errgroup.Group
		for range 4 {
			askers.Go(func() error {
				r, err := ask(ctx, s.server, http.MethodGet, "/v1/clients/cl_1", key)
				if err == nil && !bytes.Contains(r.body, []byte(`"`+name+`"`)) {
					err = fmt.Errorf("%s, want %s", r.body, name)
				}
				return err
			})
		}
		if err := askers.Wait(); err != nil {
			t.Error(err)
		}
	}
	stop()
	if err := others.Wait(); err != nil {
		t.Error(err)
	}
}
