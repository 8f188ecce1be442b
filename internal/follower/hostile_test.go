package follower_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ledgerfeed/ledgerfeed/internal/follower"
	"github.com/ledgerfeed/ledgerfeed/internal/follower/followertest"
	"github.com/ledgerfeed/ledgerfeed/internal/signingkey"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

// lie is something that a service does wrong with what it shows.
type lie struct {
	name string
	// tell changes the service that shows n events; the follower has accepted before of them.
	tell func(t *testing.T, random *rand.Rand, s *followertest.Service, feed *followertest.Feed, before, n int)
	// Part of the sentence; empty: whatever is found.
	want string
}

// lies are all that tests know. Each has to be found, wherever it is told.
var lies = []lie{
	{"two events change places", onPage(func(random *rand.Rand, events []string) []string {
		i := random.IntN(len(events) - 1)
		events[i], events[i+1] = events[i+1], events[i]
		return events
	}), "is not the one that the signed tree"},
	{"an event is dropped", onPage(func(random *rand.Rand, events []string) []string {
		i := random.IntN(len(events))
		return slices.Delete(events, i, i+1)
	}), ""},
	{"an event is doubled", onPage(func(random *rand.Rand, events []string) []string {
		i := random.IntN(len(events))
		return slices.Insert(events, i, events[i])
	}), ""},
	{"one bit of an event is another", onPage(func(random *rand.Rand, events []string) []string {
		i := random.IntN(len(events))
		at := strings.Index(events[i], "inv_") + random.IntN(4) // such that it stays JSON
		event := []byte(events[i])
		event[at] ^= 1
		events[i] = string(event)
		return events
	}), "is not the one that the signed tree"},
	{"white space in an event", onPage(func(random *rand.Rand, events []string) []string {
		i := random.IntN(len(events))
		events[i] = strings.Replace(events[i], ":", ": ", 1)
		return events
	}), "is not the one that the signed tree"},
	{"the index is another", func(_ *testing.T, random *rand.Rand, s *followertest.Service, _ *followertest.Feed, before, _ int) {
		s.Tamper(func(a *followertest.Answer) {
			if a.Header.Get("Event-Index") != "" {
				a.Header.Set("Event-Index", fmt.Sprint(before+1+random.IntN(5)))
			}
		})
	}, ""},
	{"the index is missing", func(_ *testing.T, _ *rand.Rand, s *followertest.Service, _ *followertest.Feed, _, _ int) {
		s.Tamper(func(a *followertest.Answer) { a.Header.Del("Event-Index") })
	}, "Event-Index"},
	{"an event that was read is another", func(_ *testing.T, random *rand.Rand, s *followertest.Service, feed *followertest.Feed, before, n int) {
		s.Show(feed.With(random.IntN(before), followertest.Event(1, "x")), n, n)
	}, "does not extend"},
	{"the tree is forked at its size", func(_ *testing.T, random *rand.Rand, s *followertest.Service, feed *followertest.Feed, before, _ int) {
		s.Show(feed.With(random.IntN(before), followertest.Event(1, "x")), before, before)
	}, "chain"},
	{"the tree has shrunk", func(_ *testing.T, random *rand.Rand, s *followertest.Service, feed *followertest.Feed, before, _ int) {
		m := random.IntN(before)
		s.Show(feed, m, m)
	}, "shrunk"},
	{"an older tree is another", func(_ *testing.T, random *rand.Rand, s *followertest.Service, feed *followertest.Feed, before, _ int) {
		m := 1 + random.IntN(before-1)
		s.Show(feed.With(random.IntN(m), followertest.Event(1, "x")), m, m)
	}, "shrunk"},
	{"the checkpoint is stale", func(_ *testing.T, _ *rand.Rand, s *followertest.Service, feed *followertest.Feed, before, n int) {
		s.Show(feed, n, before)
	}, "not signed"},
	{"signed events are not shown", func(_ *testing.T, _ *rand.Rand, s *followertest.Service, feed *followertest.Feed, before, n int) {
		s.Show(feed, before, n)
	}, "withheld"},
	{"empty pages say that there is more", func(_ *testing.T, random *rand.Rand, s *followertest.Service, _ *followertest.Feed, _, _ int) {
		shown := random.IntN(3)
		onPages(s, func(page int, events []string, more bool, next string) ([]string, bool, string) {
			if page <= shown && more {
				return events, more, next
			}
			return nil, true, next
		})
	}, "withheld"},
	{"another key signs", func(t *testing.T, _ *rand.Rand, s *followertest.Service, feed *followertest.Feed, _, n int) {
		other := followertest.New(t)
		onCheckpoint(s, func(string) string { return other.Sign(s.Origin, feed.Checkpoint(s.Origin, n)) })
	}, "none of the keys signed"},
	{"another tree", func(_ *testing.T, _ *rand.Rand, s *followertest.Service, feed *followertest.Feed, _, n int) {
		origin := s.Origin + "-with-pay"
		onCheckpoint(s, func(string) string { return s.Sign(origin, feed.Checkpoint(origin, n)) })
	}, "none of the keys signed"},
	{"one bit of a checkpoint is another", func(_ *testing.T, random *rand.Rand, s *followertest.Service, _ *followertest.Feed, _, _ int) {
		onCheckpoint(s, func(note string) string { return flipped(random, note) })
	}, ""},
	{"one bit of a tile is another", func(_ *testing.T, random *rand.Rand, s *followertest.Service, _ *followertest.Feed, _, _ int) {
		s.Tamper(func(a *followertest.Answer) {
			if strings.HasPrefix(a.Path, "/v1/events/tile/") && a.Status == http.StatusOK {
				a.Body = flipped(random, a.Body)
			}
		})
	}, "the tiles are not those"},
	{"a tile is cut short", func(_ *testing.T, random *rand.Rand, s *followertest.Service, _ *followertest.Feed, _, _ int) {
		s.Tamper(func(a *followertest.Answer) {
			if strings.HasPrefix(a.Path, "/v1/events/tile/") && a.Status == http.StatusOK {
				a.Body = a.Body[:random.IntN(len(a.Body))]
			}
		})
	}, "bytes, want"},
	{"tiles are missing", func(_ *testing.T, _ *rand.Rand, s *followertest.Service, _ *followertest.Feed, _, _ int) {
		s.Tamper(func(a *followertest.Answer) {
			if strings.HasPrefix(a.Path, "/v1/events/tile/") {
				a.Status, a.Body = http.StatusNotFound, "{}"
			}
		})
	}, "does not have the tile"},
}

// onPage changes the first page with at least two events.
func onPage(change func(*rand.Rand, []string) []string) func(*testing.T, *rand.Rand, *followertest.Service, *followertest.Feed, int, int) {
	return func(t *testing.T, random *rand.Rand, s *followertest.Service, _ *followertest.Feed, _, _ int) {
		s.Tamper(func(a *followertest.Answer) {
			if a.Path != "/v1/events" || a.Status != http.StatusOK {
				return
			}
			events, more, next, err := followertest.Events(a.Body)
			if err != nil {
				t.Error(err)
			}
			if len(events) > 1 {
				a.Body = followertest.Page(change(random, events), more, next)
			}
		})
	}
}

func onCheckpoint(s *followertest.Service, change func(string) string) {
	s.Tamper(func(a *followertest.Answer) {
		if a.Path == "/v1/events/checkpoint" && a.Status == http.StatusOK {
			a.Body = change(a.Body)
		}
	})
}

// flipped changes one bit.
func flipped(random *rand.Rand, text string) string {
	raw := []byte(text)
	raw[random.IntN(len(raw))] ^= 1 << random.IntN(8)
	return string(raw)
}

// casesOfEach is how often each lie is told, at random places of trees of random sizes.
const casesOfEach = 110

// TestEveryLieIsFound: a follower that has proven a part of a feed finds whatever is wrong
// with what comes next, hands on nothing after it, and has the notes that prove it.
func TestEveryLieIsFound(t *testing.T) {
	t.Parallel()
	told := 0
	feed := followertest.Some(1010)
	for _, l := range lies {
		told += casesOfEach
		t.Run(strings.ReplaceAll(l.name, " ", "-"), func(t *testing.T) {
			t.Parallel()
			for seed := range uint64(casesOfEach) {
				tell(t, l, feed, seed)
			}
		})
	}
	if told < 2000 {
		t.Errorf("%d cases", told)
	}
}

// tell tells a lie about a feed that has more events than are shown.
func tell(t *testing.T, l lie, feed *followertest.Feed, seed uint64) {
	t.Helper()
	random := rand.New(rand.NewPCG(seed, 19))
	before := 2 + random.IntN(700)
	n := before + 2 + random.IntN(300)
	s := followertest.New(t)
	s.HoldNothing()
	s.Show(feed, before, before)
	r := newRun(t, s)
	r.place.Name = "" // a disk that is busy would make these cases slow
	if _, err := r.follow(t.Context()); err != nil {
		t.Fatalf("seed %d: before the lie: %v", seed, err)
	}
	r.lines.Reset()
	s.Show(feed, n, n)
	l.tell(t, random, s, feed, before, n)
	_, err := r.follow(t.Context())
	var d *follower.DifferenceError
	if !errors.As(err, &d) {
		t.Fatalf("seed %d: %d of %d events: it was not found: %v", seed, before, n, err)
	}
	if !strings.Contains(d.Sentence, l.want) {
		t.Errorf("seed %d: %q, want %q", seed, d.Sentence, l.want)
	}
	// What was handed on is true.
	if all := feed.Lines(n); !strings.HasPrefix(all[len(feed.Lines(before)):], r.lines.String()) {
		t.Errorf("seed %d: lines that are not true were handed on", seed)
	}
	if len(d.Kept) == 0 || d.Seen == nil && d.Shown == nil && !strings.Contains(d.Sentence, "not signed") {
		t.Errorf("seed %d: %q comes without what proves it", seed, d.Sentence)
	}
}

// TestWrongKeyAtTheStart: nothing is believed, from the first request on, that a key of the
// caller's has not signed.
func TestWrongKeyAtTheStart(t *testing.T) {
	t.Parallel()
	s := followertest.New(t)
	s.Show(followertest.Some(5), 5, 5)
	other := followertest.New(t)
	r := newRun(t, s)
	r.keys = other.KeysFor(s.Origin)
	if _, err := r.follow(t.Context()); err == nil || r.lines.Len() > 0 {
		t.Errorf("%v, %q", err, r.lines.String())
	}
}

// TestEvidenceIsKept: both notes are in files that can be checked without the service.
func TestEvidenceIsKept(t *testing.T) {
	t.Parallel()
	s := followertest.New(t)
	feed := followertest.Some(20)
	s.Show(feed, 20, 20)
	r := newRun(t, s)
	if _, err := r.follow(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.Show(feed.With(3, followertest.Event(3, "x")), 20, 20)
	_, err := r.follow(t.Context())
	var d *follower.DifferenceError
	if !errors.As(err, &d) {
		t.Fatal(err)
	}
	folder := testkit.Must(r.place.Keep(d, "20261125T090000Z"))(t)
	keys := testkit.Must(signingkey.ParseVerifiers(s.Keys()))(t)
	texts := map[string]string{}
	for _, name := range []string{"kept.note", "seen.note"} {
		note := testkit.Must(os.ReadFile(filepath.Join(folder, name)))(t)
		texts[name] = testkit.Must(keys.Check(note))(t).Text
	}
	if texts["kept.note"] != feed.Checkpoint(s.Origin, 20) || texts["seen.note"] == texts["kept.note"] {
		t.Errorf("%q", texts)
	}
	if said := testkit.Must(os.ReadFile(filepath.Join(folder, "difference.txt")))(t); string(said) != d.Sentence+"\n" {
		t.Errorf("%q", said)
	}
	// The next run finds it again: the one that was accepted has stayed.
	if _, err := r.follow(t.Context()); !errors.As(err, &d) {
		t.Errorf("the second run: %v", err)
	}
}
