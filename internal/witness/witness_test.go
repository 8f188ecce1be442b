//go:build full

package witness_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	formatslog "github.com/transparency-dev/formats/log"
	formatsnote "github.com/transparency-dev/formats/note"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
	"pgregory.net/rapid"

	"github.com/ledgerfeed/ledgerfeed/internal/follower/followertest"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
	"github.com/ledgerfeed/ledgerfeed/internal/witness"
)

// TestEveryRefusal: each fault has its status, in the order of the form, and changes nothing.
func TestEveryRefusal(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	feed := followertest.Some(40)
	fork := feed.With(3, followertest.Event(3, "x"))
	f.mustAdd(feed, 0, 10)
	kept := string(testkit.Must(f.Checkpoint(witness.OriginHash(origin)))(t))
	signed, stranger := sign(t, f.keys, feed, 20), sign(t, newKeys(t), feed, 20)
	lines := proof(t, feed, 10, 20)
	another := string(testkit.Must(f.keys.Sign("other.example.com/log", feed.Checkpoint("other.example.com/log", 20)))(t))
	hash := feed.Root(1).String()
	unsigned, _, _ := strings.Cut(signed, "\n\n")
	empty := strings.Replace(feed.Checkpoint(origin, 0), feed.Root(0).String(), hash, 1)
	for _, c := range []struct {
		what, body string
		status     int
		says       string
	}{
		{"nothing", "", 400, "cut short"},
		{"no empty line", "old 10\n" + lines, 400, "cut short"},
		{"no old", "new 10\n" + lines + "\n" + signed, 400, `line 1 is "new 10"`},
		{"leading zero", "old 010\n" + lines + "\n" + signed, 400, "line 1"},
		{"negative", "old -1\n\n" + signed, 400, "line 1"},
		{"a carriage return", "old 10\r\n" + lines + "\n" + signed, 400, "line 1"},
		{"no hash", "old 10\nabc\n\n" + signed, 400, "line 2"},
		{"a long proof", "old 10\n" + strings.Repeat(hash+"\n", 64) + "\n" + signed, 400, "64 lines: want at most 63"},
		{"no note", "old 10\n" + lines + "\n" + unsigned + "\n", 400, "no signed note"},
		{"no checkpoint", "old 10\n" + lines + "\n" + string(testkit.Must(f.keys.Sign(origin, origin+"\n"))(t)), 400, "cut short"},
		{"old above the size", string(request(21, "", signed)), 400, "old size is 21"},
		{"unknown log", string(request(10, lines, another)), 404, "other.example.com/log"},
		{"another's signature", string(request(10, lines, stranger)), 403, "no key of " + origin},
		{"changed text", string(request(10, lines, strings.Replace(signed, "position 40", "position 41", 1))), 403, "no key of"},
		{"unknown log before old", string(request(21, "", another)), 404, ""},
		{"another size", string(request(9, proof(t, feed, 9, 20), signed)), 409, "of size 10"},
		{"size 0", string(request(0, "", signed)), 409, "of size 10"},
		{"no proof", string(request(10, "", signed)), 422, "does not show"},
		{"the proof of another size", string(request(10, proof(t, feed, 11, 20), signed)), 422, "does not show"},
		{"a longer proof", string(request(10, lines+hash+"\n", signed)), 422, "does not show"},
		{"a proof of no growth", string(request(10, hash+"\n", sign(t, f.keys, feed, 10))), 422, "does not show"},
		{"a fork", string(request(10, proof(t, fork, 10, 20), sign(t, f.keys, fork, 20))), 422, "does not show"},
		{"a fork of one size", string(request(10, "", sign(t, f.keys, fork, 10))), 422, "does not show"},
	} {
		_, err := f.AddCheckpoint(t.Context(), []byte(c.body))
		if status(err) != c.status || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %d and %q", c.what, err, c.status, c.says)
		}
		if now := testkit.Must(f.Checkpoint(witness.OriginHash(origin)))(t); string(now) != kept {
			t.Fatalf("%s changed what was cosigned", c.what)
		}
	}
	if got := f.mustAdd(feed, 10, 20); got == "" {
		t.Error("the right request is refused")
	}
	fresh := newFixture(t)
	for _, c := range []struct{ body, says string }{
		{string(request(0, hash+"\n", sign(t, fresh.keys, feed, 20))), "want none from size 0"},
		{string(request(0, "", string(testkit.Must(fresh.keys.Sign(origin, empty))(t)))), "the tree is empty"},
	} {
		if _, err := fresh.AddCheckpoint(t.Context(), []byte(c.body)); status(err) != http.StatusUnprocessableEntity || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%v, want 422 and %q", err, c.says)
		}
	}
	if _, err := fresh.add(feed, 3, 20); status(err) != http.StatusConflict {
		t.Errorf("an old size where nothing was cosigned: %v", err)
	}
}

// TestAnswersOverHTTP: statuses and types are those of the form, and bodies are bounded.
func TestAnswersOverHTTP(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	feed := followertest.Some(20)
	ask := func(method, path, body string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		f.Handler().ServeHTTP(w, httptest.NewRequest(method, path, strings.NewReader(body)))
		return w
	}
	last := "/" + witness.OriginHash(origin) + "/checkpoint"
	first := string(request(0, "", sign(t, f.keys, feed, 5)))
	for _, c := range []struct {
		method, path, body string
		status             int
		contentType, says  string
	}{
		{"GET", last, "", 404, "text/plain; charset=utf-8", "no checkpoint"},
		{"POST", "/add-checkpoint", first, 200, "text/plain; charset=utf-8", "— " + name + " "},
		{"POST", "/add-checkpoint", first, 409, "text/x.tlog.size", "5\n"},
		{"POST", "/add-checkpoint", "old", 400, "text/plain; charset=utf-8", "cut short"},
		{"POST", "/add-checkpoint", strings.Repeat("x", 200<<10), 413, "text/plain; charset=utf-8", "longer than 131072 bytes"},
		{"GET", "/add-checkpoint", "", 405, "", ""},
		{"GET", last, "", 200, "text/plain; charset=utf-8", "— " + origin + " "},
		{"GET", "/" + strings.Repeat("0", 64) + "/checkpoint", "", 404, "", ""},
	} {
		w := ask(c.method, c.path, c.body)
		if got := w.Header().Get("Content-Type"); w.Code != c.status || c.contentType != "" && got != c.contentType || !strings.Contains(w.Body.String(), c.says) {
			t.Errorf("%s %s: %d %s %q, want %d %s %q", c.method, c.path, w.Code, got, w.Body, c.status, c.contentType, c.says)
		}
	}
	f.files.fail = func(string) (bool, error) { return false, errors.New("disk full") }
	w := ask("POST", "/add-checkpoint", string(request(5, proof(t, feed, 5, 9), sign(t, f.keys, feed, 9))))
	if w.Code != http.StatusInternalServerError || strings.Contains(w.Body.String(), "disk") || !strings.Contains(f.log.String(), "disk full") {
		t.Errorf("%d %s, log %s", w.Code, w.Body, f.log.String())
	}
}

// TestPublicFormsReadIt: a library that nobody here wrote checks the cosignature, its time
// and the checkpoint that is served.
func TestPublicFormsReadIt(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	feed := followertest.Some(30)
	f.mustAdd(feed, 0, 7)
	f.clock.Advance(90 * time.Second)
	line := f.mustAdd(feed, 7, 30)
	own := testkit.Must(formatsnote.NewVerifierForCosignatureV1(f.cfg.Key.VerifierKey()))(t)
	ofLog := testkit.Must(note.NewVerifier(testkit.Must(f.keys.Verifiers(origin))(t)[0]))(t)
	for what, signed := range map[string]string{
		"the answer after the note": sign(t, f.keys, feed, 30) + line,
		"what is served":            string(testkit.Must(f.Checkpoint(witness.OriginHash(origin)))(t)),
	} {
		c, _, n, err := formatslog.ParseCheckpoint([]byte(signed), origin, ofLog, own)
		if err != nil || len(n.Sigs) != 2 || c.Size != 30 || tlog.Hash(c.Hash) != feed.Root(30) {
			t.Fatalf("%s: %+v, %v\n%s", what, c, err, signed)
		}
		for _, s := range n.Sigs {
			if s.Name != name {
				continue
			}
			if at, err := formatsnote.CoSigV1Timestamp(s); err != nil || !at.Equal(f.clock.Now()) {
				t.Errorf("%s: the time is %v, %v", what, at, err)
			}
		}
		changed := strings.Replace(signed, "position 60", "position 61", 1)
		if _, err := note.Open([]byte(changed), note.VerifierList(own)); err == nil {
			t.Errorf("%s: a changed text passes", what)
		}
	}
	// The other way around: what that library signs with the same key is checked here.
	theirs := testkit.Must(formatsnote.NewSignerForCosignatureV1(f.cfg.Key.Text()))(t)
	signed := testkit.Must(note.Sign(&note.Note{Text: feed.Checkpoint(origin, 3)}, theirs))(t)
	if _, err := note.Open(signed, note.VerifierList(testkit.Must(witness.ParseVerifier(f.cfg.Key.VerifierKey()))(t))); err != nil {
		t.Error(err)
	}
}

// TestForksAreKept: two trees of one size are in a file and in the log once each, whatever old
// size they came with; a wrong proof alone proves nothing.
func TestForksAreKept(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	feed := followertest.Some(20)
	fork, another := feed.With(3, followertest.Event(3, "x")), feed.With(3, followertest.Event(3, "y"))
	f.mustAdd(feed, 0, 20)
	if _, err := f.AddCheckpoint(t.Context(), request(20, feed.Root(1).String()+"\n", sign(t, f.keys, feed, 20))); status(err) != http.StatusUnprocessableEntity || len(f.files.files) != 1 {
		t.Fatalf("%v, %d files", err, len(f.files.files))
	}
	for _, old := range []int{20, 20, 0, 7} {
		if _, err := f.add(fork, old, 20); status(err) == 0 {
			t.Fatalf("a fork is cosigned: %v", err)
		}
	}
	if _, err := f.add(another, 20, 20); status(err) != http.StatusUnprocessableEntity {
		t.Fatal(err)
	}
	if n := strings.Count(f.log.String(), "two trees of one size"); n != 2 || len(f.files.files) != 3 {
		t.Errorf("%d lines, %d files:\n%s", n, len(f.files.files), f.log.String())
	}
	text := string(f.files.files[witness.OriginHash(origin)+".fork-1"])
	_, notes, _ := strings.Cut(text, "prove it:\n\n")
	ofLog := testkit.Must(note.NewVerifier(testkit.Must(f.keys.Verifiers(origin))(t)[0]))(t)
	for _, root := range []tlog.Hash{feed.Root(20), fork.Root(20)} {
		at := strings.Index(notes, origin+"\n20\n"+root.String())
		if at < 0 {
			t.Fatalf("the root %s is not in\n%s", root, text)
		}
		one := notes[at:]
		if end := strings.Index(one[1:], "\n"+origin+"\n"); end >= 0 {
			one = one[:end+1]
		}
		if _, err := note.Open([]byte(one), note.VerifierList(ofLog)); err != nil {
			t.Errorf("%v of\n%s", err, one)
		}
	}
}

// TestGrowthAndForks: over random submissions, restarts and failures of the disk, all trees
// that were cosigned are parts of one, and the model says which are.
func TestGrowthAndForks(t *testing.T) {
	t.Parallel()
	const most = 70
	feeds := []*followertest.Feed{followertest.Some(most)}
	for _, at := range []int{0, 13, 40} {
		feeds = append(feeds, feeds[0].With(at, followertest.Event(at, "x")))
	}
	rapid.Check(t, func(r *rapid.T) {
		f := newFixture(t)
		var cosigned []tlog.Tree
		known := tlog.Tree{Hash: feeds[0].Root(0)}
		for range rapid.IntRange(1, 30).Draw(r, "steps") {
			feed := feeds[rapid.IntRange(0, len(feeds)-1).Draw(r, "feed")]
			n := rapid.IntRange(0, most).Draw(r, "size")
			old := int(known.N)
			if rapid.IntRange(0, 4).Draw(r, "right old size") == 0 {
				old = rapid.IntRange(0, most).Draw(r, "old")
			}
			if rapid.IntRange(0, 4).Draw(r, "restart") == 0 {
				f.restart()
			}
			f.clock.Advance(time.Duration(rapid.IntRange(-20, 100).Draw(r, "seconds")) * time.Second)
			var wrote bool
			f.files.fail = nil
			if kind := rapid.IntRange(0, 6).Draw(r, "disk"); kind < 2 {
				f.files.fail = func(string) (bool, error) { wrote = wrote || kind == 1; return kind == 1, errors.New("disk full") }
			}
			_, err := f.add(feed, old, n)
			extends := n >= int(known.N) && old == int(known.N) && feed.Root(int(known.N)) == known.Hash
			tree := tlog.Tree{N: int64(n), Hash: feed.Root(n)}
			switch {
			case err == nil && (!extends || f.files.fail != nil):
				r.Fatalf("size %d from %d is cosigned after %d", n, old, known.N)
			case err != nil && extends && f.files.fail == nil && !strings.Contains(err.Error(), "the clock says"):
				r.Fatalf("size %d from %d is refused: %v", n, old, err)
			case err == nil:
				cosigned, known = append(cosigned, tree), tree
			case wrote && status(err) == 0 && strings.Contains(err.Error(), "keep the checkpoint of"):
				known = tree // it is in the file, though nobody was told
			}
		}
		for i := 1; i < len(cosigned); i++ {
			part := false
			for _, feed := range feeds {
				part = part || feed.Root(int(cosigned[i].N)) == cosigned[i].Hash && feed.Root(int(cosigned[i-1].N)) == cosigned[i-1].Hash
			}
			if !part || cosigned[i].N < cosigned[i-1].N {
				r.Fatalf("both were cosigned: %v and %v", cosigned[i-1], cosigned[i])
			}
		}
	})
}

// TestAtOnce: of requests at the same time for different trees, one is cosigned.
func TestAtOnce(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	const forks = 16
	feed := followertest.Some(20)
	f.mustAdd(feed, 0, 10)
	// While one is written, the others come as far as they can.
	f.files.fail = func(string) (bool, error) {
		for range 10_000 {
			runtime.Gosched()
		}
		return true, nil
	}
	bodies := make([][]byte, forks)
	for i := range bodies {
		one := feed.With(15, followertest.Event(15, fmt.Sprint("x", i)))
		bodies[i] = request(10, proof(t, one, 10, 20), sign(t, f.keys, one, 20))
	}
	answers, begin := make(chan error, forks), make(chan struct{})
	for _, body := range bodies {
		go func() {
			<-begin
			_, err := f.AddCheckpoint(context.Background(), body)
			answers <- err
		}()
	}
	close(begin)
	cosigned, conflicts := 0, 0
	for range forks {
		switch err := <-answers; {
		case err == nil:
			cosigned++
		case status(err) == http.StatusConflict:
			conflicts++
		default:
			t.Error(err)
		}
	}
	if cosigned != 1 || conflicts != forks-1 {
		t.Errorf("%d were cosigned, %d were not", cosigned, conflicts)
	}
}

// TestClock: a cosignature is never of a time before the one before it.
func TestClock(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	feed := followertest.Some(20)
	at := func(line string) int64 {
		t.Helper()
		own := testkit.Must(formatsnote.NewVerifierForCosignatureV1(f.cfg.Key.VerifierKey()))(t)
		n := testkit.Must(note.Open(testkit.Must(f.Checkpoint(witness.OriginHash(origin)))(t), note.VerifierList(own)))(t)
		if !strings.Contains(line, n.Sigs[0].Base64) {
			t.Error("what is served has another signature")
		}
		return testkit.Must(formatsnote.CoSigV1Timestamp(n.Sigs[0]))(t).Unix()
	}
	start := f.clock.Now().Unix()
	for _, c := range []struct {
		move time.Duration
		want int64 // seconds after the start; -1: refused
	}{{0, 0}, {5 * time.Second, 5}, {-3 * time.Second, 5}, {-57 * time.Second, 5}, {-time.Second, -1}, {2 * time.Minute, 64}} {
		f.clock.Advance(c.move)
		f.restart() // it knows the time from its file
		old := 0
		if c.move != 0 {
			old = 20
		}
		line, err := f.add(feed, old, 20)
		switch {
		case c.want < 0 && (err == nil || status(err) != 0 || !strings.Contains(err.Error(), "1m1s before the last cosignature")):
			t.Errorf("%v: %v", c.move, err)
		case c.want >= 0 && err != nil:
			t.Errorf("%v: %v", c.move, err)
		case c.want >= 0 && at(line) != start+c.want:
			t.Errorf("%v: %d seconds after the start, want %d", c.move, at(line)-start, c.want)
		}
	}
	early := newFixture(t)
	early.clock.Set(time.Unix(0, 0))
	if _, err := early.add(feed, 0, 20); err == nil || !strings.Contains(err.Error(), "after 1970") {
		t.Error(err)
	}
}

// TestKeysOfOneLog: while a log changes its key, either signs for it, and a wrong signature of
// one is refused though the other's is right.
func TestKeysOfOneLog(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	feed := followertest.Some(20)
	newer := newKeys(t)
	list := append(testkit.Must(f.keys.Verifiers(origin))(t), testkit.Must(newer.Verifiers(origin))(t)...)
	f.cfg.Logs = testkit.Must(witness.ParseLogs(strings.Join(list, "\n")))(t)
	f.restart()
	f.mustAdd(feed, 0, 5)
	signed := sign(t, newer, feed, 9)
	if _, err := f.AddCheckpoint(t.Context(), request(5, proof(t, feed, 5, 9), signed)); err != nil {
		t.Errorf("the newer key: %v", err)
	}
	_, wrong, _ := strings.Cut(sign(t, f.keys, feed, 10), "\n\n")
	if _, err := f.AddCheckpoint(t.Context(), request(9, "", signed+wrong)); status(err) != http.StatusForbidden {
		t.Errorf("a wrong signature beside a right one: %v", err)
	}
}

// TestFilesThatWereChanged: a witness does not start with a file that nobody signed, and does
// with one of its log after its own key was replaced.
func TestFilesThatWereChanged(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	feed := followertest.Some(20)
	f.mustAdd(feed, 0, 20)
	kept := f.files.files[witness.FileOf(origin)]
	for what, text := range map[string]string{
		"empty": "", "cut": string(kept[:len(kept)-9]), "changed": strings.Replace(string(kept), "\n20\n", "\n10\n", 1),
		"another's": sign(t, newKeys(t), feed, 20),
		"no tree":   string(testkit.Must(f.keys.Sign(origin, origin+"\n"))(t)),
	} {
		f.files.files[witness.FileOf(origin)] = []byte(text)
		if _, err := witness.NewOn(f.cfg, f.files); err == nil || !strings.Contains(err.Error(), witness.FileOf(origin)) {
			t.Errorf("%s: %v", what, err)
		}
	}
	f.files.files[witness.FileOf(origin)] = kept
	other := newFixture(t)
	f.cfg.Key = other.cfg.Key
	f.restart()
	if _, err := f.add(feed.With(1, "x"), 0, 20); status(err) != http.StatusConflict {
		t.Errorf("after another key, what was seen is forgotten: %v", err)
	}
}
