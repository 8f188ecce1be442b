package readapi_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"sync/atomic"
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
		if followedRow(f.path, f.rows[row.id]) != followedRow(f.path, row.json) {
			s.t.Errorf("%s?%s: the follower's newest state of %s is\n%s\nwant\n%s", f.path, f.query, row.id, f.rows[row.id], row.json)
		}
	}
}

// TestFollowersWhileRowsChange follows every list, at several page sizes and with filters,
// first step by step, with entries appended between any two requests, and then with a
// writer, the read models and all followers at the same time, each as fast as it can. After
// each part every follower must have seen every row in its newest state, and events exactly
// once in order.
func TestFollowersWhileRowsChange(t *testing.T) {
	t.Parallel()
	const first, steps = 200, 600
	appends := testkit.Scale(1_600, 10_600)
	s := newStand(t)
	lines := history(t, "acme", 6, s.clock.Now(), 25*24*time.Hour, appends)
	if len(lines) != appends {
		t.Fatalf("%d entries", len(lines))
	}
	s.append(lines[:first]...)
	s.project("acme", 0)
	key := s.key("acme", allPermissions()...)
	followers := allFollowers()
	next := first
	for round := 0; next < steps; round++ {
		for i, f := range followers {
			if (round+i)%3 != 0 {
				testkit.Must(f.poll(t.Context(), s.server, key))(t)
			}
		}
		step := min(11, steps-next)
		s.append(lines[next : next+step]...)
		next += step
		s.project("acme", int64(next-round%4)) // sometimes the read models are behind
	}
	s.project("acme", 0)
	for _, f := range followers {
		f.finish(s, "acme", key)
	}
	s.followAtOnce(followers, key, s.drafts(lines[steps:]...))
	for _, f := range followers {
		f.finish(s, "acme", key)
	}
}

// allFollowers follow every list.
func allFollowers() []*follower {
	var followers []*follower
	for path := range lists() {
		for _, q := range []string{"limit=1", "limit=2", "limit=9", "limit=100", ""} {
			followers = append(followers, newFollower(path, q))
		}
		if takes(path, "include") {
			followers = append(followers, newFollower(path, "limit=3&include=removed"))
		}
	}
	return append(followers,
		newFollower("/v1/invoices", "limit=5&status=sent"), newFollower("/v1/invoices", "limit=9&status=paid"),
		newFollower("/v1/time-entries", "limit=11&status=sent"), newFollower("/v1/payments", "limit=60&direction=paid_to_contractor"),
		newFollower("/v1/events", "limit=13&type=time_entry.approved"),
	)
}

// followAtOnce appends and projects entries while followers poll. The second half of the
// entries comes when some follower has seen something of the first, so that none of this
// happens before or after the rest.
func (s *stand) followAtOnce(followers []*follower, key string, drafts []domain.Draft) {
	s.t.Helper()
	var seen atomic.Int64
	over := make(chan struct{})
	group, ctx := errgroup.WithContext(s.t.Context())
	for _, f := range followers {
		group.Go(func() error { return f.pollUntil(ctx, over, s.server, key, &seen) })
	}
	half := len(drafts) / 2
	for _, part := range [][]domain.Draft{drafts[:half], drafts[half:]} {
		end := s.states["acme"].Position + int64(len(part))
		group.Go(func() error { return appendInTurns(ctx, s.log, part) })
		for s.states["acme"].Position < end && ctx.Err() == nil {
			s.project("acme", 0)
		}
		s.until(func() bool { return seen.Load() > 0 || ctx.Err() != nil })
	}
	close(over)
	if err := group.Wait(); err != nil {
		s.t.Fatal(err)
	}
}

// pollUntil polls until over is closed, and adds up the rows that it has seen.
func (f *follower) pollUntil(ctx context.Context, over <-chan struct{}, server *httptest.Server, key string, seen *atomic.Int64) error {
	for {
		select {
		case <-over:
			return nil
		default:
		}
		before := len(f.inOrder)
		if _, err := f.poll(ctx, server, key); err != nil {
			return err
		}
		seen.Add(int64(len(f.inOrder) - before))
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
