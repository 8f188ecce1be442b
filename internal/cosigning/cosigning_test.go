package cosigning_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ledgerfeed/ledgerfeed/internal/cosigning"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
	"github.com/ledgerfeed/ledgerfeed/internal/witness/witnesstest"
)

// TestCheckpointsAreCosigned: two witnesses cosign both trees of each workspace, again
// whenever they have grown, and are not asked about trees that have not.
func TestCheckpointsAreCosigned(t *testing.T) {
	t.Parallel()
	b := setup(t, newKeys(t))
	one, two := newCosigner(t, "one.example.com/w", b.keys, "acme", "beta"), newCosigner(t, "two.example.com/w", b.keys, "acme", "beta")
	g, _ := b.gather(nil, one.named(), two.named())
	b.build(g)
	for _, count := range []int{1, 2, 300, 5} {
		b.append("acme", count)
		b.append("beta", 2)
		for _, id := range []string{"acme", "beta"} {
			testkit.Eventually(t, func() error { return b.cosigned(id, one, two) })
		}
	}
	asked := one.asked.Load() + two.asked.Load()
	testkit.Throughout(t, 200*time.Millisecond, func() error {
		if n := one.asked.Load() + two.asked.Load(); n != asked {
			return fmt.Errorf("%d more requests about trees that have not grown", n-asked)
		}
		return nil
	})
	if n := b.count("refused") + b.count("failed"); n != 0 {
		t.Errorf("%v trees were refused or failed:\n%s", n, b.logged)
	}
}

// TestABadWitnessHurtsOnlyItself: whatever a witness does, it hurts neither the trees nor
// the cosignatures of the other, and nothing of it is kept that is not its signature.
func TestABadWitnessHurtsOnlyItself(t *testing.T) {
	t.Parallel()
	// Each gets what is closed when its test is over.
	for name, answer := range map[string]func(over <-chan struct{}, w http.ResponseWriter){
		"signs with another key of its name": nil, // a witness of the same log
		"never answers":                      func(over <-chan struct{}, _ http.ResponseWriter) { <-over },
		"has an error":                       func(_ <-chan struct{}, w http.ResponseWriter) { w.WriteHeader(http.StatusInternalServerError) },
		"asks for patience":                  func(_ <-chan struct{}, w http.ResponseWriter) { w.WriteHeader(http.StatusTooManyRequests) },
		"says it has another size":           func(_ <-chan struct{}, w http.ResponseWriter) { sized(w, "7000000000\n") },
		"says it has no size at all":         func(_ <-chan struct{}, w http.ResponseWriter) { sized(w, "many\n") },
		"answers without an end": func(_ <-chan struct{}, w http.ResponseWriter) {
			for {
				if _, err := io.WriteString(w, strings.Repeat("— bad.example.com/w AAAA\n", 1000)); err != nil {
					return
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t, newKeys(t))
			good := newCosigner(t, "good.example.com/w", b.keys, "acme")
			bad := newCosigner(t, "bad.example.com/w", b.keys, "acme").named()
			bad.Key = witnesstest.New(t, "bad.example.com/w").Key
			if answer != nil {
				over := make(chan struct{})
				server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { answer(over, w) }))
				t.Cleanup(server.Close)
				t.Cleanup(func() { close(over) })
				bad.URL = server.URL
			}
			g, _ := b.gather(func(c *cosigning.Times) { c.Timeout = 300 * time.Millisecond }, bad, good.named())
			b.build(g)
			for range 3 {
				b.append("acme", 2)
				testkit.Eventually(t, func() error { return b.cosigned("acme", good) })
			}
			testkit.Eventually(t, func() error {
				if b.count("refused")+b.count("failed") == 0 {
					return fmt.Errorf("nothing is counted: %s", b.logged)
				}
				return nil
			})
		})
	}
}

func sized(w http.ResponseWriter, body string) {
	w.Header().Set("Content-Type", "text/x.tlog.size")
	w.WriteHeader(http.StatusConflict)
	_, _ = io.WriteString(w, body)
}

// TestAfterARestart: what another process has built, and nobody has told of, is found and
// cosigned, from where the witness was last.
func TestAfterARestart(t *testing.T) {
	t.Parallel()
	b := setup(t, newKeys(t))
	w := newCosigner(t, "one.example.com/w", b.keys, "acme")
	g, stop := b.gather(nil, w.named())
	b.build(g)
	b.append("acme", 20)
	testkit.Eventually(t, func() error { return b.cosigned("acme", w) })
	stop()
	b.append("acme", 30)
	testkit.Eventually(t, func() error { return b.cosigned("acme") }) // served without it
	asked, other := w.asked.Load(), w.other.Load()
	b.gather(nil, w.named())
	testkit.Eventually(t, func() error { return b.cosigned("acme", w) })
	// A request that a busy machine ends is made again, so their number says nothing.
	if n := w.asked.Load() - asked; n < 2 || w.other.Load() != other {
		t.Errorf("%d requests for two trees, %d of them from another size than the witness has", n, w.other.Load()-other)
	}
}

// TestRestoredBackup: the tree of an older backup that has gone on differently gets no
// cosignature from a witness that has seen the other one. It is logged once, counted, and not
// asked about again before it grows or time has passed.
func TestRestoredBackup(t *testing.T) {
	t.Parallel()
	keys := newKeys(t)
	w := newCosigner(t, "one.example.com/w", keys, "acme")
	lost := setup(t, keys)
	g, _ := lost.gather(nil, w.named())
	lost.build(g)
	lost.append("acme", 40)
	testkit.Eventually(t, func() error { return lost.cosigned("acme", w) })

	restored := setup(t, keys) // nothing of what was appended is left
	restored.appended = 1000
	g, _ = restored.gather(nil, w.named())
	restored.build(g)
	for _, count := range []int{10, 30, 30} { // fewer than before, as many, and more
		before := restored.count("refused")
		restored.append("acme", count)
		testkit.Eventually(t, func() error {
			if n := restored.count("refused"); n < before+2 {
				return fmt.Errorf("%v trees were refused, and %v before", n, before)
			}
			return nil
		})
		if err := restored.cosigned("acme"); err != nil {
			t.Error(err)
		}
	}
	asked, refused := w.asked.Load(), restored.count("refused")
	testkit.Throughout(t, 200*time.Millisecond, func() error { // ten sweeps
		if n := w.asked.Load(); n != asked || restored.count("refused") != refused {
			return fmt.Errorf("%d more requests about trees that were refused", n-asked)
		}
		return nil
	})
	restored.clock.Advance(11 * time.Minute)
	testkit.Eventually(t, func() error {
		if n := w.asked.Load(); n == asked {
			return fmt.Errorf("the witness is not asked again")
		}
		return nil
	})
	if err := restored.cosigned("acme"); err != nil {
		t.Errorf("cosigned: %v", err)
	}
	if n := strings.Count(restored.logged.String(), "a witness refuses a checkpoint"); n != 2 {
		t.Errorf("%d lines about two trees:\n%s", n, restored.logged)
	}
	if n := restored.count("cosigned"); n != 0 {
		t.Errorf("%v trees were cosigned", n)
	}
}

// TestNothingAskedIsNoAnswer: a witness that is away is not said to cosign again because a
// round had nothing to ask, where the tree that it waits for is not written yet.
func TestNothingAskedIsNoAnswer(t *testing.T) {
	t.Parallel()
	b := setup(t, newKeys(t))
	away := &switched{}
	away.away.Store(true)
	server := httptest.NewServer(away)
	t.Cleanup(server.Close)
	w := newCosigner(t, "one.example.com/w", b.keys, "acme").named()
	w.URL = server.URL
	g, _ := b.gather(nil, w)
	b.build(g)
	b.append("acme", 3)
	testkit.Eventually(t, func() error {
		if b.count("failed") == 0 {
			return errors.New("nothing has failed")
		}
		return nil
	})
	g.Grown("acme", 1000) // rounds have nothing to ask for ten seconds
	testkit.Throughout(t, 200*time.Millisecond, func() error {
		if said := b.logged.String(); strings.Contains(said, "cosigns again") {
			return errors.New(said)
		}
		return nil
	})
}

// TestAWitnessThatComesBack has everything cosigned that it missed, and is named once when
// it goes and once when it is back.
func TestAWitnessThatComesBack(t *testing.T) {
	t.Parallel()
	b := setup(t, newKeys(t))
	w := newCosigner(t, "one.example.com/w", b.keys, "acme", "beta")
	proxy := &switched{to: w.server.Config.Handler}
	proxy.away.Store(true)
	server := httptest.NewServer(proxy)
	t.Cleanup(server.Close)
	named := w.named()
	named.URL = server.URL
	g, _ := b.gather(nil, named)
	b.build(g)
	for range 5 {
		b.append("acme", 3)
		b.append("beta", 3)
	}
	testkit.Eventually(t, func() error {
		if n := b.count("failed"); n < 5 {
			return fmt.Errorf("%v trees failed", n)
		}
		return nil
	})
	proxy.away.Store(false)
	for _, id := range []string{"acme", "beta"} {
		testkit.Eventually(t, func() error { return b.cosigned(id, w) })
	}
	testkit.Eventually(t, func() error {
		said := b.logged.String()
		if gone, back := strings.Count(said, "a witness does not cosign"), strings.Count(said, "the witness cosigns again"); gone != 1 || back != 1 {
			return fmt.Errorf("%d and %d lines:\n%s", gone, back, said)
		}
		return nil
	})
}

// TestAWitnessThatFailsForOneWorkspace: the others' trees are cosigned without a pause, and an
// operator reads of it once.
func TestAWitnessThatFailsForOneWorkspace(t *testing.T) {
	t.Parallel()
	b := setup(t, newKeys(t))
	w := newCosigner(t, "one.example.com/w", b.keys, "acme", "beta")
	var fails atomic.Bool
	fails.Store(true)
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		body := testkit.Must(io.ReadAll(r.Body))(t)
		if fails.Load() && bytes.Contains(body, []byte("acme")) {
			rw.WriteHeader(http.StatusInternalServerError)
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		w.server.Config.Handler.ServeHTTP(rw, r)
	}))
	t.Cleanup(server.Close)
	named := w.named()
	named.URL = server.URL
	b.append("acme", 3)
	b.append("beta", 3)
	b.build(nil)
	for _, id := range []string{"acme", "beta"} {
		testkit.Eventually(t, func() error { return b.cosigned(id) })
	}
	// A pause would outlast the test.
	g, _ := b.gather(func(c *cosigning.Times) { c.Backoff, c.Longest, c.Gather = time.Hour, time.Hour, 50*time.Millisecond }, named)
	testkit.Eventually(t, func() error { return b.cosigned("beta", w) })
	for range 3 {
		b.append("acme", 3)
		b.append("beta", 3)
		g.Grown("acme", int64(b.appended))
		testkit.Eventually(t, func() error { return b.cosigned("beta", w) })
	}
	fails.Store(false)
	testkit.Eventually(t, func() error { return b.cosigned("acme", w) })
	if said := b.logged.String(); strings.Contains(said, "a witness does not cosign") || strings.Count(said, "fails for a checkpoint") > 2 {
		t.Error(said)
	}
}

// TestATreeThatIsNotAskedAbout because those of two workspaces failed first is not said to fail, and is
// asked about in the next round, not by the next sweep.
func TestATreeThatIsNotAskedAbout(t *testing.T) {
	t.Parallel()
	b := setup(t, newKeys(t))
	ids := []string{"acme"}
	for i := range 10 {
		ids = append(ids, fmt.Sprintf("w%d", i))
	}
	w := newCosigner(t, "one.example.com/w", b.keys, ids...)
	var (
		mu     sync.Mutex
		failed = map[string]bool{}
	)
	fails := func(body []byte) bool {
		mu.Lock()
		defer mu.Unlock()
		if len(failed) == 2 {
			return false
		}
		failed[string(regexp.MustCompile(`/(\w+)/events`).FindSubmatch(body)[1])] = true
		return true
	}
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		body := testkit.Must(io.ReadAll(r.Body))(t)
		if fails(body) {
			rw.WriteHeader(http.StatusInternalServerError)
			return
		}
		// What is in flight is answered after the failures are known. Other trees wait for a place,
		// and are then not asked about.
		for b.count("failed") < 2 && r.Context().Err() == nil {
			runtime.Gosched()
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		w.server.Config.Handler.ServeHTTP(rw, r)
	}))
	t.Cleanup(server.Close)
	named := w.named()
	named.URL = server.URL
	b.build(nil)
	for _, id := range ids {
		b.append(id, 3)
		testkit.Eventually(t, func() error { return b.cosigned(id) })
	}
	// The first sweep finds all of them; another one would come after the test.
	b.gather(func(c *cosigning.Times) { c.Sweep, c.Rest, c.Gather = time.Hour, time.Hour, 50*time.Millisecond }, named)
	testkit.Eventually(t, func() error {
		missing := 0
		for _, id := range ids {
			if b.cosigned(id, w) != nil {
				missing++
			}
		}
		if missing > 2 {
			return fmt.Errorf("%d workspaces have trees that are not cosigned", missing)
		}
		return nil
	})
	if n := strings.Count(b.logged.String(), "fails for a checkpoint"); n > 3 {
		t.Errorf("%d lines about the trees of two workspaces:\n%s", n, b.logged)
	}
}

func TestGathererNeedsItsConfig(t *testing.T) {
	t.Parallel()
	if _, err := cosigning.New(cosigning.Config{}); err == nil {
		t.Error("made of nothing")
	}
}
