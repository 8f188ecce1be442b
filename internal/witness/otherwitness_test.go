package witness_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	formats "github.com/transparency-dev/formats/note"
	other "github.com/transparency-dev/witness/witness"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/ledgerfeed/ledgerfeed/internal/follower/followertest"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
	"github.com/ledgerfeed/ledgerfeed/internal/witness"
)

// kept is what the other witness keeps of logs.
type kept struct {
	mu     sync.Mutex
	newest map[string][]byte
}

func (k *kept) Init(context.Context) error { return nil }

func (k *kept) Latest(_ context.Context, origin string) ([]byte, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.newest[origin], nil
}

func (k *kept) Update(_ context.Context, origin string, change func([]byte) ([]byte, error)) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	changed, err := change(k.newest[origin])
	if err == nil {
		k.newest[origin] = changed
	}
	return err
}

// TestAnotherWitnessCosigns: the witness of transparency-dev, which nobody here wrote, cosigns
// checkpoints of a log of ours as it grows, and refuses another tree of it.
func TestAnotherWitnessCosigns(t *testing.T) {
	t.Parallel()
	keys := newKeys(t)
	ofLog := testkit.Must(note.NewVerifier(testkit.Must(keys.Verifiers(origin))(t)[0]))(t)
	own := testkit.Must(witness.NewKey(strings.NewReader(strings.Repeat("0123456789abcdef", 16)), name))(t)
	signer := testkit.Must(formats.NewSignerForCosignatureV1(own.Text()))(t)
	theirs := testkit.Must(other.New(t.Context(), other.Opts{
		Persistence: &kept{newest: map[string][]byte{}}, Signers: []note.Signer{signer},
		VerifierForLog: func(_ context.Context, of string) (note.Verifier, bool, error) { return ofLog, of == origin, nil },
	}))(t)
	mux := http.NewServeMux()
	mux.HandleFunc("POST /add-checkpoint", other.NewHTTPHandler(theirs).AddCheckpoint)
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	feed := followertest.Some(700)
	submit := func(feed *followertest.Feed, known, n int) (string, error) {
		cosigned, _, err := witness.Submit(t.Context(), &witness.Submission{
			URL: server.URL, Key: own.Verifier(), HTTP: http.DefaultTransport, Agent: "test", Note: []byte(sign(t, keys, feed, n)), Old: int64(known),
			Prove: func(_ context.Context, old int64) (tlog.TreeProof, error) { return tlog.ProveTree(int64(n), old, feed) },
		})
		return string(cosigned), err
	}
	known := 0
	for _, n := range []int{1, 2, 255, 256, 257, 700} {
		cosigned, err := submit(feed, known, n)
		if err != nil || !strings.HasPrefix(cosigned, sign(t, keys, feed, n)+"— "+name+" ") {
			t.Fatalf("size %d: %v\n%s", n, err, cosigned)
		}
		known = n
	}
	if cosigned, err := submit(feed, 3, 700); err != nil || cosigned == "" { // it says what it has seen, and is asked again
		t.Errorf("from an older size: %v", err)
	}
	if cosigned, err := submit(feed.With(4, followertest.Event(4, "x")), 256, 700); err == nil {
		t.Errorf("another tree is cosigned:\n%s", cosigned)
	}
}
