//go:build outside

package readapi_test

import (
	"net/http"
	"testing"
)

// TestTheProxySeesFaults: what TestTheJudgeSeesFaults spoils, prism finds, too.
func TestTheProxySeesFaults(t *testing.T) {
	t.Parallel()
	p := startProxy(t)
	s := leakWorld(t, leakTime(), 0)
	key := s.key("acme", allPermissions()...)
	tried, money := 0, 0
	for target := range endpoints() {
		good := s.get(target, key)
		if p.finds(t, target, good) {
			t.Fatalf("prism finds fault with a good answer of %s", target)
		}
		bad := append(spoiltAround(good), spoilt{name: "status 418", reply: reply{http.StatusTeapot, good.header, good.body}})
		if target != "/v1/openapi.json" { // of which not every member is described
			bad = append(bad, spoiltWithin(t, good)...)
		}
		for _, b := range bad {
			tried++
			if b.money {
				money++
			}
			if !p.finds(t, target, b.reply) {
				t.Errorf("%s: %s is not noticed", target, b.name)
			}
		}
	}
	if tried < 2000 || money < 50 {
		t.Errorf("%d faults were tried, %d of them money", tried, money)
	}
}

// finds says whether prism finds fault with an answer.
func (p *proxy) finds(t *testing.T, target string, r reply) bool {
	t.Helper()
	answer := func() (reply, error) { return r, nil }
	_, found, err := p.carry(t.Context(), answer, http.MethodGet, target, "")
	if err != nil {
		t.Fatalf("%s: %v", target, err)
	}
	return len(found) > 0
}
