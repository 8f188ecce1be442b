package readapi_test

import (
	"crypto/rand"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
	"github.com/ledgerfeed/ledgerfeed/readapi/access"
)

// TestASlowedAddressCostsLittle: what an address sends that is over its refused keys costs
// one look-up in eight requests at most and one line of log a minute, while a valid key
// from it passes, also one that no instance has seen yet.
func TestASlowedAddressCostsLittle(t *testing.T) {
	t.Parallel()
	const bad = "203.0.113.7"
	s := newStand(t)
	s.workspace("acme")
	s.keepKeys(t)
	for range access.RefusedKeysPerMinute + 1 {
		s.get("/v1/me", "x", "X-Forwarded-For", bad)
	}
	invented := func() string { return testkit.Must(s.format.Generate(rand.Reader))(t).Reveal() }
	lines := func() int { return strings.Count(s.output.String(), "\n") }
	linesBefore, lookUpsBefore := lines(), s.directory.Stats().LookUps
	const callers, each = 32, 8
	group, ctx := errgroup.WithContext(t.Context())
	for range callers {
		keys := make([]string, each)
		for i := range keys {
			keys[i] = invented()
		}
		group.Go(func() error {
			for _, key := range keys {
				r, err := ask(ctx, s.server, http.MethodGet, "/v1/me", key, "X-Forwarded-For", bad)
				if err != nil {
					return err
				}
				if r.status != http.StatusTooManyRequests {
					return fmt.Errorf("an invented key from a slowed address: %d %s", r.status, r.body)
				}
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	if n := s.directory.Stats().LookUps - lookUpsBefore; n > callers*each/8 {
		t.Errorf("%d look-ups for %d requests", n, callers*each)
	}
	if n := lines() - linesBefore; n != 1 || !strings.Contains(s.output.String(), bad) {
		t.Errorf("%d lines of log", n)
	}
	if r := s.get("/v1/me", s.key("acme", access.PayRead), "X-Forwarded-For", bad); r.status != http.StatusOK {
		t.Errorf("a valid key from a slowed address: %d %s", r.status, r.body)
	}
	if r := s.get("/v1/me", invented(), "X-Forwarded-For", "203.0.113.8"); r.status != http.StatusUnauthorized {
		t.Errorf("an invented key from another address: %d", r.status)
	}
	s.clock.Advance(time.Minute)
	linesBefore = lines()
	for range access.RefusedKeysPerMinute + 3 {
		s.get("/v1/me", "x", "X-Forwarded-For", bad)
	}
	if n := lines() - linesBefore; n != access.RefusedKeysPerMinute+2 {
		t.Errorf("%d lines of log in the next minute", n)
	}
}
