//go:build outside

package readapi_test

import (
	"net/http"
	"testing"
)

// TestTheProxySeesFaults: prism, too, finds what TestTheJudgeSeesFaults spoils.
func TestTheProxySeesFaults(t *testing.T) {
	t.Parallel()
	p := startProxy(t)
	s := leakWorld(t, leakTime(), 0)
	key := s.key("acme", allPermissions()...)
	tried, money := 0, 0
	for target := range endpoints() {
		good, head := s.get(target, key), s.do(http.MethodHead, target, key)
		if p.finds(t, http.MethodGet, target, good) || p.finds(t, http.MethodHead, target, head) {
			t.Fatalf("prism finds fault with a good answer of %s", target)
		}
		for _, b := range spoiltHead(head) {
			tried++
			if !p.finds(t, http.MethodHead, target, b.reply) {
				t.Errorf("HEAD %s: %s is not noticed", target, b.name)
			}
		}
		bad := spoiltAround(good)
		if target != "/v1/openapi.json" { // not every member of it is described
			bad = append(bad, spoiltWithin(t, good)...)
		}
		for _, b := range bad {
			tried++
			if b.money {
				money++
			}
			if !p.finds(t, http.MethodGet, target, b.reply) {
				t.Errorf("%s: %s is not noticed", target, b.name)
			}
		}
	}
	if tried < 2000 || money < 50 {
		t.Errorf("%d faults were tried, %d of them money", tried, money)
	}
}

// finds reports whether prism finds a fault in an answer.
func (p *proxy) finds(t *testing.T, method, target string, r reply) bool {
	t.Helper()
	answer := func() (reply, error) { return r, nil }
	_, found, err := p.carry(t.Context(), answer, method, target, "")
	if err != nil {
		t.Fatalf("%s: %v", target, err)
	}
	return len(found) > 0
}
