package readapi_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

// follower follows a list by its cursor and records what it shows.
type follower struct {
	path, query string

	cursor  string
	rows    map[string]string // by id, as last shown
	inOrder []string
}

func newFollower(path, query string) *follower {
	return &follower{path: path, query: query, rows: map[string]string{}}
}

// poll reads the next page and returns whether there are more rows.
func (f *follower) poll(ctx context.Context, server *httptest.Server, key string) (more bool, err error) {
	target := f.path + "?" + f.query
	if f.cursor != "" {
		target += "&cursor=" + f.cursor
	}
	r, err := ask(ctx, server, http.MethodGet, target, key)
	if err != nil {
		return false, err
	}
	if r.status != http.StatusOK {
		return false, fmt.Errorf("GET %s: %d %s", target, r.status, r.body)
	}
	p, err := decodePage(r.body)
	if err != nil {
		return false, err
	}
	for _, row := range p.Data {
		id, err := decodeID(row)
		if err != nil {
			return false, err
		}
		f.rows[id] = string(row)
		f.inOrder = append(f.inOrder, string(row))
	}
	f.cursor = *p.NextCursor
	return *p.HasMore, nil
}

// finish polls to the end and compares with the fold: every row was shown in its newest
// state, each event once and in order.
func (f *follower) finish(s *stand, workspaceID, key string) {
	s.t.Helper()
	for more := true; more; {
		more = testkit.Must(f.poll(s.t.Context(), s.server, key))(s.t)
	}
	q := testkit.Must(url.ParseQuery(f.query))(s.t)
	q.Del("limit")
	want := s.expected(workspaceID, f.path, q, view{true, true})
	if f.path == "/v1/events" {
		if !slices.Equal(f.inOrder, texts(want)) {
			s.t.Errorf("events with %s: %d seen, want %d, each once and in order", f.query, len(f.inOrder), len(want))
		}
		return
	}
	for _, row := range want {
		if f.rows[row.id] != row.json {
			s.t.Errorf("%s?%s: the follower's newest state of %s is\n%s\nwant\n%s", f.path, f.query, row.id, f.rows[row.id], row.json)
		}
	}
}

// TestFollowersWhileRowsChange follows every list, at several page sizes, while
// entries are appended between any two requests. At the end each follower must
// have seen every row in its newest state, and events exactly once in order.
func TestFollowersWhileRowsChange(t *testing.T) {
	t.Parallel()
	s := newStand(t)
	lines := history(t, "acme", 6, s.clock.Now(), 25*24*time.Hour, 600)
	s.append(lines[:200]...)
	s.project("acme", 0)
	key := s.key("acme", allPermissions()...)
	var followers []*follower
	for path := range lists() {
		for _, q := range []string{"limit=1", "limit=2", "limit=9", "limit=100", ""} {
			followers = append(followers, newFollower(path, q))
		}
		if path == "/v1/invoices" || path == "/v1/time-entries" {
			followers = append(followers, newFollower(path, "status=sent&limit=5"))
		}
		if path != "/v1/events" {
			followers = append(followers, newFollower(path, "limit=3&include=removed"))
		}
	}
	next := 200
	for round := 0; next < len(lines); round++ {
		for i, f := range followers {
			if (round+i)%3 != 0 {
				testkit.Must(f.poll(t.Context(), s.server, key))(t)
			}
		}
		step := min(11, len(lines)-next)
		s.append(lines[next : next+step]...)
		next += step
		s.project("acme", int64(next-round%4)) // sometimes the read models are behind
	}
	s.project("acme", 0)
	for _, f := range followers {
		f.finish(s, "acme", key)
	}
}

// twentyFollowers follow every list, each with its own page size, some of them
// with filters.
func twentyFollowers() []*follower {
	return []*follower{
		newFollower("/v1/events", "limit=1"), newFollower("/v1/events", "limit=7"), newFollower("/v1/events", "limit=50"),
		newFollower("/v1/events", "limit=100"), newFollower("/v1/events", "limit=13&type=time_entry.approved"),
		newFollower("/v1/time-entries", "limit=2"), newFollower("/v1/time-entries", ""), newFollower("/v1/time-entries", "limit=99"),
		newFollower("/v1/time-entries", "limit=11&status=sent"),
		newFollower("/v1/invoices", "limit=3"), newFollower("/v1/invoices", "limit=40"), newFollower("/v1/invoices", "limit=9&status=paid"),
		newFollower("/v1/charges", "limit=4"), newFollower("/v1/charges", "limit=77"),
		newFollower("/v1/payments", "limit=5"), newFollower("/v1/payments", "limit=60&direction=paid_to_contractor"),
		newFollower("/v1/clients", "limit=1"), newFollower("/v1/clients", "limit=10"),
		newFollower("/v1/contractors", "limit=6"), newFollower("/v1/contractors", "limit=20"),
	}
}

// TestTwentyFollowersDuringTenThousandAppends runs a writer, the read models and twenty
// followers at the same time, each as fast as it can. What the followers see is judged
// as in TestFollowersWhileRowsChange.
func TestTwentyFollowersDuringTenThousandAppends(t *testing.T) {
	t.Parallel()
	const appends = 10_000
	s := newStand(t)
	drafts := s.drafts(history(t, "acme", 7, s.clock.Now(), 25*24*time.Hour, appends)...)
	if len(drafts) != appends {
		t.Fatalf("%d entries", len(drafts))
	}
	s.workspace("acme")
	key := s.key("acme", allPermissions()...)
	followers := twentyFollowers()
	projected := make(chan struct{})
	group, ctx := errgroup.WithContext(t.Context())
	for _, f := range followers {
		group.Go(func() error { return f.pollUntil(ctx, projected, s.server, key) })
	}
	group.Go(func() error { return appendInTurns(ctx, s.log, drafts) })
	for position := int64(0); position < appends && ctx.Err() == nil; position = s.states["acme"].Position {
		s.project("acme", 0)
	}
	close(projected)
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	during := 0
	for _, f := range followers {
		during += len(f.inOrder)
		f.finish(s, "acme", key)
	}
	// Otherwise they read only what was there before.
	if during < appends/2 {
		t.Errorf("the followers have seen %d rows while entries were appended", during)
	}
}

// pollUntil polls until over is closed.
func (f *follower) pollUntil(ctx context.Context, over <-chan struct{}, server *httptest.Server, key string) error {
	for {
		select {
		case <-over:
			return nil
		default:
		}
		if _, err := f.poll(ctx, server, key); err != nil {
			return err
		}
	}
}

// appendInTurns appends entries in batches of 1 to 40, in order.
func appendInTurns(ctx context.Context, log *eventlog.Log, drafts []domain.Draft) error {
	for size := 1; len(drafts) > 0; size = size%40 + 1 {
		n := min(size, len(drafts))
		if _, err := log.Append(ctx, drafts[:n]...); err != nil {
			return err
		}
		drafts = drafts[n:]
	}
	return nil
}
