//go:build full

package witness_test

import (
	"testing"

	"github.com/ledgerfeed/ledgerfeed/internal/follower/followertest"
)

// FuzzRequest: whatever is sent is answered with a status, and nothing is cosigned that the
// log did not sign.
func FuzzRequest(f *testing.F) {
	w := newFixture(f)
	feed := followertest.Some(8)
	f.Add(request(0, "", sign(f, newKeys(f), feed, 8)))
	f.Add(request(3, proof(f, feed, 3, 8), sign(f, newKeys(f), feed, 8)))
	f.Fuzz(func(t *testing.T, body []byte) {
		if line, err := w.AddCheckpoint(t.Context(), body); status(err) == 0 {
			t.Errorf("%q, %v", line, err)
		}
	})
}
