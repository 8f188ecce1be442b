package witness_test

import (
	"context"
	"crypto/rand"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/ledgerfeed/ledgerfeed/internal/follower/followertest"
	"github.com/ledgerfeed/ledgerfeed/internal/signingkey"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
	"github.com/ledgerfeed/ledgerfeed/internal/witness"
	"github.com/ledgerfeed/ledgerfeed/internal/witness/witnesstest"
)

const (
	origin = "api.example.com/acme/events"
	name   = "witness.example.com/w1"
)

// submitter is a log whose checkpoints a witness cosigns.
type submitter struct {
	t    *testing.T
	keys *signingkey.Keys
	to   *witnesstest.Witness
	url  string
}

func newSubmitter(t *testing.T) *submitter {
	t.Helper()
	s := &submitter{t: t, keys: testkit.Must(signingkey.Parse(testkit.Must(signingkey.New(rand.Reader))(t)))(t), to: witnesstest.New(t, name)}
	s.to.Know(t, testkit.Must(s.keys.Verifiers(origin))(t)[0])
	server := httptest.NewServer(s.to)
	t.Cleanup(server.Close)
	s.url = server.URL
	return s
}

// sign signs the checkpoint of a feed's first n events.
func (s *submitter) sign(feed *followertest.Feed, n int) string {
	s.t.Helper()
	return string(testkit.Must(s.keys.Sign(origin, feed.Checkpoint(origin, n)))(s.t))
}

// submit has a feed's first n events cosigned at an address.
func (s *submitter) submit(url string, feed *followertest.Feed, known, n int) (string, error) {
	s.t.Helper()
	cosigned, at, err := witness.Submit(s.t.Context(), &witness.Submission{
		URL: url, Key: s.to.Key, HTTP: http.DefaultTransport, Agent: "test", Note: []byte(s.sign(feed, n)), Old: int64(known),
		Prove: func(_ context.Context, old int64) (tlog.TreeProof, error) { return tlog.ProveTree(int64(n), old, feed) },
	})
	if err == nil && at.Year() < 2026 {
		s.t.Errorf("cosigned at %v", at)
	}
	return string(cosigned), err
}

// TestSubmit: a checkpoint is cosigned from whatever size the witness knows, and an answer
// that is no signature of the witness is not taken for one.
func TestSubmit(t *testing.T) {
	t.Parallel()
	s := newSubmitter(t)
	feed := followertest.Some(700)
	known := 0
	for _, n := range []int{1, 2, 2, 255, 256, 257, 700} {
		cosigned, err := s.submit(s.url+"/", feed, known, n)
		if err != nil || !strings.HasPrefix(cosigned, s.sign(feed, n)+"— "+name+" ") {
			t.Fatalf("size %d: %v\n%s", n, err, cosigned)
		}
		known = n
	}
	if _, err := s.submit(s.url, feed, 3, 700); err != nil { // the witness says its size, and is asked again
		t.Errorf("from an older size: %v", err)
	}
	answering := func(status int, body string) string {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			_, _ = w.Write([]byte(body))
		}))
		t.Cleanup(s.Close)
		return s.URL
	}
	other := newSubmitter(t)
	foreign := strings.TrimPrefix(testkit.Must(other.submit(other.url, feed, 0, 700))(t), other.sign(feed, 700))
	for _, c := range []struct {
		url  string
		feed *followertest.Feed
		n    int
		want string
	}{
		{s.url, feed.With(4, followertest.Event(4, "x")), 700, "answered 422"},
		{s.url, feed, 699, "want a newer one"},
		{answering(200, foreign), feed, 700, "no signature of " + name},
		{answering(200, ""), feed, 700, "no signature of " + name},
		{answering(200, strings.Repeat("x", 100<<10)), feed, 700, "longer than"},
		{answering(409, "many\n"), feed, 700, "no size"},
		{answering(409, "7\n"), feed, 700, "try again"},
		{answering(302, ""), feed, 700, "answered 302"},
		{"http://127.0.0.1:1", feed, 700, "ask the witness"},
	} {
		if _, err := s.submit(c.url, c.feed, 0, c.n); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
}

func TestCheckURL(t *testing.T) {
	t.Parallel()
	for address, good := range map[string]bool{"https://w.example/x": true, "http://localhost:1": true, "w.example": false, "https://u:p@w.example": false, "https://w.example?x": false, "ftp://w.example": false} {
		if err := witness.CheckURL(address); (err == nil) != good {
			t.Errorf("%s: %v", address, err)
		}
	}
}
