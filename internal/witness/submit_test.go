package witness_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/ledgerfeed/ledgerfeed/internal/follower/followertest"
	"github.com/ledgerfeed/ledgerfeed/internal/witness"
)

// TestSubmit: a checkpoint is cosigned from whatever size the witness knows, and an answer
// that is no signature of the witness is not taken for one.
func TestSubmit(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	feed := followertest.Some(50)
	server := httptest.NewServer(f.Handler())
	t.Cleanup(server.Close)
	submit := func(url string, feed *followertest.Feed, n int) (string, error) {
		s := &witness.Submission{
			URL: url, Key: f.cfg.Key.Verifier(), HTTP: http.DefaultTransport, Agent: "test", Note: []byte(sign(t, f.keys, feed, n)),
			Prove: func(_ context.Context, old int64) (tlog.TreeProof, error) { return tlog.ProveTree(int64(n), old, feed) },
		}
		cosigned, at, err := witness.Submit(t.Context(), s)
		if err == nil && !at.Equal(f.clock.Now()) {
			t.Errorf("cosigned at %v", at)
		}
		return string(cosigned), err
	}
	for _, n := range []int{0, 3, 3, 8, 50} {
		cosigned, err := submit(server.URL+"/", feed, n)
		if err != nil || !strings.HasPrefix(cosigned, sign(t, f.keys, feed, n)+"— "+name+" ") {
			t.Errorf("size %d: %v\n%s", n, err, cosigned)
		}
	}
	fork := feed.With(4, followertest.Event(4, "x"))
	answering := func(status int, body string) string {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			_, _ = w.Write([]byte(body))
		}))
		t.Cleanup(s.Close)
		return s.URL
	}
	other := newFixture(t)
	for _, c := range []struct {
		url  string
		feed *followertest.Feed
		n    int
		want string
	}{
		{server.URL, fork, 50, "answered 422"},
		{server.URL, feed, 49, "want a newer one"},
		{answering(200, other.mustAdd(feed, 0, 50)), feed, 50, "no signature of " + name},
		{answering(200, ""), feed, 50, "no signature of " + name},
		{answering(200, strings.Repeat("x", 100<<10)), feed, 50, "longer than"},
		{answering(409, "many\n"), feed, 50, "no size"},
		{answering(409, "7\n"), feed, 50, "try again"},
		{answering(302, ""), feed, 50, "answered 302"},
		{"http://127.0.0.1:1", feed, 50, "ask the witness"},
	} {
		if _, err := submit(c.url, c.feed, c.n); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
	for address, good := range map[string]bool{"https://w.example/x": true, "http://localhost:1": true, "w.example": false, "https://u:p@w.example": false, "https://w.example?x": false, "ftp://w.example": false} {
		if err := witness.CheckURL(address); (err == nil) != good {
			t.Errorf("%s: %v", address, err)
		}
	}
}
