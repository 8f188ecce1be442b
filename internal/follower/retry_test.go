package follower_test

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ledgerfeed/ledgerfeed/internal/follower"
	"github.com/ledgerfeed/ledgerfeed/internal/follower/followertest"
)

// problem makes an answer a problem document.
func problem(a *followertest.Answer, status int, body string, headers ...string) {
	a.Status, a.Body = status, body
	a.Header = http.Header{"Content-Type": {"application/problem+json"}}
	for i := 0; i < len(headers); i += 2 {
		a.Header.Set(headers[i], headers[i+1])
	}
}

// TestRetries: what the service says is worth it is asked again, after the time that it names
// or growing ones, and every event still arrives once.
func TestRetries(t *testing.T) {
	t.Parallel()
	second := time.Second
	for name, c := range map[string]struct {
		fail func(a *followertest.Answer)
		want []time.Duration // pauses after 7 failures
	}{
		"429 with a time": {
			func(a *followertest.Answer) { problem(a, 429, `{"detail":"slower"}`, "Retry-After", "17") },
			[]time.Duration{17 * second, 17 * second, 17 * second, 17 * second, 17 * second, 32 * second, 60 * second},
		},
		"503 without one": {
			func(a *followertest.Answer) { problem(a, 503, `{}`) },
			[]time.Duration{second, 2 * second, 4 * second, 8 * second, 16 * second, 32 * second, 60 * second},
		},
		"a proxy's 502": {
			func(a *followertest.Answer) { problem(a, 502, `<html>`, "Retry-After", "soon") },
			[]time.Duration{second, 2 * second, 4 * second, 8 * second, 16 * second, 32 * second, 60 * second},
		},
		"500 with a time of a week": {
			func(a *followertest.Answer) { problem(a, 500, `{}`, "Retry-After", "604800") },
			slices.Repeat([]time.Duration{time.Hour}, 7),
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := followertest.New(t)
			feed := followertest.Some(220)
			s.Show(feed, 220, 220)
			failures, page := 0, 0
			s.Tamper(func(a *followertest.Answer) {
				if a.Path != "/v1/events" {
					return
				}
				if page++; page > 1 && failures < 7 { // in the middle
					failures++
					c.fail(a)
				}
			})
			r := newRun(t, s)
			if report, err := r.follow(t.Context()); err != nil || r.lines.String() != feed.Lines(220) || report.Events != 220 {
				t.Fatalf("%+v: %v", report, err)
			}
			if !slices.Equal(r.pauses, c.want) {
				t.Errorf("pauses of %v, want %v", r.pauses, c.want)
			}
		})
	}
}

// TestRefusalsEnd: what another request does not change ends the run, with what the service
// said and the place kept.
func TestRefusalsEnd(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		fail func(a *followertest.Answer)
		want []string
	}{
		"a key that was revoked": {
			func(a *followertest.Answer) { problem(a, 401, `{"detail":"The key is revoked.","request_id":"req_1"}`) },
			[]string{"answered 401: The key is revoked. (request req_1)"},
		},
		"a key without the permission": {
			func(a *followertest.Answer) { problem(a, 403, `{"detail":"The key has no events:read."}`) },
			[]string{"answered 403: The key has no events:read."},
		},
		"a log that went back": {
			func(a *followertest.Answer) {
				problem(a, 400, `{"detail":"A parameter is wrong.","errors":[{"field":"cursor","message":"is of a log that went back"}]}`)
			},
			[]string{"the place in the feed is lost after 100 events", "cursor is of a log that went back", "begin with another --state"},
		},
		"events that are no longer kept": {
			func(a *followertest.Answer) {
				problem(a, 400, `{"errors":[{"field":"cursor","message":"is too old"}]}`)
			},
			[]string{"the place in the feed is lost after 100 events", "cursor is too old"},
		},
		"a redirect": {
			func(a *followertest.Answer) { problem(a, 308, ``, "Location", "https://elsewhere.example/v1/events") },
			[]string{"answered 308", "a redirect, which is not followed"},
		},
		"an answer without end": {
			func(a *followertest.Answer) { a.Body = strings.Repeat(" ", 17<<20) },
			[]string{"the answer is too long"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := followertest.New(t)
			feed := followertest.Some(220)
			s.Show(feed, 220, 220)
			page := 0
			s.Tamper(func(a *followertest.Answer) {
				if a.Path == "/v1/events" {
					if page++; page > 1 {
						c.fail(a)
					}
				}
			})
			r := newRun(t, s)
			_, err := r.follow(t.Context())
			var refused *follower.RefusedError
			if !errors.As(err, &refused) {
				t.Fatalf("%v is no refusal", err)
			}
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%v, want %q", err, want)
				}
			}
			if len(r.pauses) > 0 || page != 2 {
				t.Errorf("%d requests and pauses of %v", page, r.pauses)
			}
			s.Tamper(nil)
			if report, err := r.follow(t.Context()); err != nil || r.lines.String() != feed.Lines(220) || report.Events != 220 {
				t.Errorf("the next run does not go on: %+v: %v", report, err)
			}
		})
	}
}
