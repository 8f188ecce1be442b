package follower_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/ledgerfeed/ledgerfeed/internal/follower"
	"github.com/ledgerfeed/ledgerfeed/internal/follower/followertest"
)

// onPages changes every page of the feed.
func onPages(s *followertest.Service, change func(page int, events []string, more bool, next string) ([]string, bool, string)) {
	page := 0
	s.Tamper(func(a *followertest.Answer) {
		if a.Path != "/v1/events" || a.Status != http.StatusOK {
			return
		}
		page++
		events, more, next, err := followertest.Events(a.Body)
		if err != nil {
			panic(err)
		}
		a.Body = followertest.Page(change(page, events, more, next))
	})
}

// emptyFrom empties pages from one on, and says that there is more.
func emptyFrom(first int, cursor func(page int, next string) string) func(*followertest.Service) {
	return func(s *followertest.Service) {
		onPages(s, func(page int, events []string, more bool, next string) ([]string, bool, string) {
			if page < first {
				return events, more, next
			}
			return nil, true, cursor(page, next)
		})
	}
}

const noSuchBundle = "{}"

func hideBundles(s *followertest.Service) {
	s.Tamper(func(a *followertest.Answer) {
		if strings.HasPrefix(a.Path, "/v1/events/tile/entries/") {
			a.Status, a.Body = http.StatusNotFound, noSuchBundle
		}
	})
}

// TestOmissionsAreFound: a service that does not show what it has signed, in whatever way it does
// so, is found by a follower that is new, within the time of a proof and without haste.
func TestOmissionsAreFound(t *testing.T) {
	t.Parallel()
	const n = 2000
	same := func(_ int, next string) string { return next }
	for name, c := range map[string]struct {
		since string
		tell  func(s *followertest.Service, feed *followertest.Feed)
		want  string
		shown int
	}{
		"nothing is shown":   {tell: func(s *followertest.Service, feed *followertest.Feed) { s.Show(feed, 0, n) }, want: "the feed has shown no event"},
		"nothing, and more":  {tell: func(s *followertest.Service, _ *followertest.Feed) { emptyFrom(1, same)(s) }, want: "the feed has shown no event"},
		"one page, and more": {tell: func(s *followertest.Service, _ *followertest.Feed) { emptyFrom(2, same)(s) }, want: "has ended with the event at index 99", shown: 100},
		"more, and other cursor": {tell: func(s *followertest.Service, _ *followertest.Feed) {
			emptyFrom(4, func(page int, _ string) string { return fmt.Sprint(page) })(s)
		}, want: "has ended with the event at index 299", shown: 300},
		"all, and more": {tell: func(s *followertest.Service, feed *followertest.Feed) {
			s.Show(feed, 200, 200)
			onPages(s, func(_ int, events []string, _ bool, next string) ([]string, bool, string) { return events, true, next })
		}, want: "said that there is more, and had no event", shown: 200},
		"all but the last one": {tell: func(s *followertest.Service, feed *followertest.Feed) { s.Show(feed, n-1, n) }, want: "has ended with the event at index 1998", shown: n - 1},
		"one event at a time": {tell: func(s *followertest.Service, _ *followertest.Feed) {
			onPages(s, func(page int, events []string, _ bool, _ string) ([]string, bool, string) {
				return events[:1], false, fmt.Sprint(page)
			})
		}, want: "has ended with the event at index 60", shown: 61},
		"the first events": {tell: func(s *followertest.Service, _ *followertest.Feed) { s.ShowFrom(1500) }, want: "has begun with the event at index 1500"},
		"the first since":  {since: "2026-11-02T00:00:00.000Z", tell: func(s *followertest.Service, _ *followertest.Feed) { s.ShowFrom(1001) }, want: "has begun with the event at index 1001"},
		"everything since": {since: "2026-11-02T00:00:00.000Z", tell: func(s *followertest.Service, feed *followertest.Feed) { s.Show(feed, 0, n) }, want: "the feed has shown no event"},
		"another bundle":   {tell: func(s *followertest.Service, feed *followertest.Feed) { s.Show(feed, 0, n); s.Tamper(changeBundles) }, want: "is not the one that the signed tree"},
		"a bundle cut off": {tell: func(s *followertest.Service, feed *followertest.Feed) { s.Show(feed, 0, n); s.Tamper(cutBundles) }, want: "does not have the event at index 1999"},
		"a second too late": {tell: func(s *followertest.Service, _ *followertest.Feed) {
			onPages(s, func(page int, events []string, more bool, next string) ([]string, bool, string) {
				if page < 63 {
					return nil, page%2 == 0, "0"
				}
				return events, more, next
			})
		}, want: "the feed has shown no event"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := followertest.New(t)
			feed := followertest.Some(n)
			s.Show(feed, n, n)
			c.tell(s, feed)
			r := newRun(t, s)
			r.since = c.since
			began := r.clock.Now()
			_, err := r.follow(t.Context())
			var d *follower.DifferenceError
			if !errors.As(err, &d) || !strings.Contains(d.Sentence, c.want) || d.Seen == nil && d.Shown == nil {
				t.Fatalf("%v, want %q", err, c.want)
			}
			if r.lines.String() != feed.Lines(c.shown) {
				t.Errorf("%d lines were handed on, want %d", strings.Count(r.lines.String(), "\n"), c.shown)
			}
			if took := r.clock.Now().Sub(began); took > 65*time.Second || s.Asked("/v1/events") > 250 {
				t.Errorf("it took %v and %d requests", took, s.Asked("/v1/events"))
			}
		})
	}
}

func changeBundles(a *followertest.Answer) {
	if strings.HasPrefix(a.Path, "/v1/events/tile/entries/") {
		a.Body = strings.ReplaceAll(a.Body, "evt_", "evx_")
	}
}

func cutBundles(a *followertest.Answer) {
	if strings.HasPrefix(a.Path, "/v1/events/tile/entries/") {
		a.Body = a.Body[:len(a.Body)-1]
	}
}

// TestNothingToShow: what a follower says of a feed that has nothing for it, and for what reasons.
func TestNothingToShow(t *testing.T) {
	t.Parallel()
	const n = 300
	for name, c := range map[string]struct {
		since string
		make  func(s *followertest.Service, feed *followertest.Feed)
		want  string
	}{
		"an empty tree":             {make: func(s *followertest.Service, feed *followertest.Feed) { s.Show(feed, 0, 0) }, want: "Proven: the tree "},
		"nothing since":             {since: "2026-12-01T00:00:00.000Z", make: func(*followertest.Service, *followertest.Feed) {}, want: "Proven: the newest event of the tree "},
		"everything is too old":     {make: func(s *followertest.Service, _ *followertest.Feed) { s.Keep(n) }, want: "Nothing is proven: "},
		"nothing, and no bundles":   {make: func(s *followertest.Service, feed *followertest.Feed) { s.Show(feed, 0, n); hideBundles(s) }, want: "Nothing is proven: "},
		"no checkpoint in any form": {make: func(s *followertest.Service, feed *followertest.Feed) { s.Show(feed, 0, n); onlyNotModified(s) }, want: "If-None-Match"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := followertest.New(t)
			feed := followertest.Some(n)
			s.Show(feed, n, n)
			c.make(s, feed)
			r := newRun(t, s)
			r.since = c.since
			report, err := r.follow(t.Context())
			said := report.String()
			if err != nil {
				said = err.Error()
			}
			if !strings.Contains(said, c.want) || r.lines.Len() > 0 {
				t.Errorf("%s, want %q", said, c.want)
			}
		})
	}
}

func onlyNotModified(s *followertest.Service) {
	s.Tamper(func(a *followertest.Answer) {
		if a.Path == "/v1/events/checkpoint" {
			a.Status, a.Body = http.StatusNotModified, ""
		}
	})
}

// TestTheFirstEventThatIsKept: events that are too old are not missed, also where the bundle of the
// one before is still given for a moment.
func TestTheFirstEventThatIsKept(t *testing.T) {
	t.Parallel()
	for _, kept := range []int{256, 300, 511, 512} {
		s := followertest.New(t)
		feed := followertest.Some(600)
		s.Show(feed, 600, 600)
		s.Keep(kept)
		r := newRun(t, s)
		if report, err := r.follow(t.Context()); err != nil || *report.Proven != (follower.Range{First: int64(kept), Next: 600}) || len(r.pauses) > 0 {
			t.Errorf("%d: %+v, %v, %v", kept, report, err, r.pauses)
		}
	}
	s := followertest.New(t)
	feed := followertest.Some(600)
	s.Show(feed, 600, 600)
	s.ShowFrom(512) // the page's server has a clock that is ahead of the bundle's
	r := newRun(t, s)
	r.paused = func() {
		if len(r.pauses) == 5 {
			s.ShowFrom(0)
			s.Keep(512)
		}
	}
	if report, err := r.follow(t.Context()); err != nil || *report.Proven != (follower.Range{First: 512, Next: 600}) || len(r.pauses) != 5 {
		t.Errorf("%+v, %v, %v", report, err, r.pauses)
	}
}

// TestAnInstanceThatIsBehindAllTheTime: pages that never reach the newest checkpoint are no
// difference as long as they reach in time what was signed before.
func TestAnInstanceThatIsBehindAllTheTime(t *testing.T) {
	t.Parallel()
	s := followertest.New(t)
	feed := followertest.Some(1000)
	s.Show(feed, 5, 25)
	r := newRun(t, s)
	r.paused = func() {
		n := len(r.pauses)
		if signed := 25 + 5*n; signed <= 1000 { // every second page is empty
			s.Show(feed, 5+10*(n/2), signed)
			return
		}
		s.Show(feed, 1000, 1000)
	}
	if report, err := r.follow(t.Context()); err != nil || report.Proven.Next != 1000 || len(r.pauses) < 150 {
		t.Fatalf("%+v, %v, %d pauses", report, err, len(r.pauses))
	}
}

// TestPagesWithoutEndOfAPlainFollower: one that checks nothing asks with pauses, too, and ends.
func TestPagesWithoutEndOfAPlainFollower(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(page int, events []string, more bool, next string) ([]string, bool, string)
		want   string
		most   int // requests
	}{
		"empty pages, and more": {func(page int, _ []string, _ bool, _ string) ([]string, bool, string) {
			return nil, true, fmt.Sprint(page)
		}, "had no event", 70},
		"the same cursor": {func(_ int, events []string, _ bool, _ string) ([]string, bool, string) { return events, true, "0" }, "gives the cursor with which it was asked for", 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := followertest.New(t)
			s.Show(followertest.Some(300), 300, 0)
			onPages(s, c.change)
			r := newRun(t, s)
			r.plain = true
			_, err := r.follow(t.Context())
			var refused *follower.RefusedError
			if !errors.As(err, &refused) || !strings.Contains(err.Error(), c.want) || s.Asked("/v1/events") > c.most {
				t.Errorf("%v after %d requests, want %q", err, s.Asked("/v1/events"), c.want)
			}
		})
	}
}

// TestAServiceThatHoldsNothingIsAskedWithPauses: also where it is idle for long.
func TestAServiceThatHoldsNothingIsAskedWithPauses(t *testing.T) {
	t.Parallel()
	for _, plain := range []bool{true, false} {
		s := followertest.New(t)
		s.Show(followertest.Some(30), 30, 30)
		s.HoldNothing()
		r := newRun(t, s)
		r.plain, r.living = plain, true
		ctx, stop := context.WithCancel(t.Context())
		began := r.clock.Now()
		r.paused = func() {
			if r.clock.Now().Sub(began) > 5*time.Minute {
				stop()
			}
		}
		if _, err := r.follow(ctx); err != nil || s.Asked("/v1/events") > 150 {
			t.Errorf("plain %v: %d requests in 5 minutes: %v", plain, s.Asked("/v1/events"), err)
		}
		stop()
	}
}
