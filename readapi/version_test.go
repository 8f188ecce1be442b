package readapi_test

import (
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/ledgerfeed/ledgerfeed/readapi/access"
)

// TestVersionsAreTheirOwn: many workspaces that are asked for at the same time get their own
// versions.
func TestVersionsAreTheirOwn(t *testing.T) {
	t.Parallel()
	s := newStand(t)
	const workspaces = 12
	keys := map[string]string{}
	for i := range workspaces {
		id := fmt.Sprintf("w%d", i)
		s.manyEvents(id, 0, i+1)
		keys[id] = s.key(id, access.EventsRead)
	}
	var wg sync.WaitGroup
	for id, key := range keys {
		wg.Go(func() {
			for range 20 {
				r := s.get("/v1/events", key)
				want, err := strconv.Atoi(r.header.Get("Log-Position"))
				if r.status != http.StatusOK || err != nil {
					t.Errorf("%s: status %d, position %q", id, r.status, r.header.Get("Log-Position"))
					return
				}
				if fmt.Sprintf("w%d", want-1) != id {
					t.Errorf("%s has the position %d", id, want)
				}
			}
		})
	}
	wg.Wait()
	s.clock.Advance(time.Second)
	s.manyEvents("w3", 4, 1)
	if got := s.get("/v1/events", keys["w3"]).header.Get("Log-Position"); got != "5" {
		t.Errorf("the position is %s after a new event, want 5", got)
	}
}
