package follower_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ledgerfeed/ledgerfeed/internal/follower"
	"github.com/ledgerfeed/ledgerfeed/internal/follower/followertest"
	"github.com/ledgerfeed/ledgerfeed/internal/signingkey"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

// run is a follower under test, whose pauses take no time but its clock's.
type run struct {
	t         testing.TB
	s         *followertest.Service
	clock     *testkit.Clock
	place     follower.Place
	out       string // file; empty: to lines
	keys      string
	since     string
	plain     bool // nothing is checked
	witnesses follower.Witnesses
	living    bool // go on at the end
	pauses    []time.Duration
	paused    func() // called in each pause; nil: nothing

	reached chan *follower.Report
	state   *follower.State // where place has no name
	lines   bytes.Buffer
}

func newRun(t testing.TB, s *followertest.Service) *run {
	return &run{
		t: t, s: s, clock: testkit.NewClock(time.Date(2026, 11, 25, 9, 0, 0, 0, time.UTC)), keys: s.Keys(),
		place: follower.Place{Name: filepath.Join(t.TempDir(), "state")}, reached: make(chan *follower.Report, 100),
	}
}

func (r *run) pause(ctx context.Context, d time.Duration) bool {
	r.pauses = append(r.pauses, d)
	r.clock.Advance(d)
	if r.paused != nil {
		r.paused()
	}
	return ctx.Err() == nil
}

// follow runs a follower that begins as the state says.
func (r *run) follow(ctx context.Context) (*follower.Report, error) {
	client, err := follower.NewClient(follower.ClientConfig{URL: r.s.URL, Key: followertest.Key, HTTP: r.s, Pause: r.pause, Logger: testkit.Discard(), Agent: "test"})
	if err != nil {
		return nil, err
	}
	state, err := r.place.Load()
	if err != nil {
		return nil, err
	}
	if r.place.Name == "" && r.state != nil {
		state = r.state
	}
	r.state = state
	state.Since = r.since
	cfg := follower.Config{
		Client: client, Place: r.place, State: state, Once: !r.living, ProofTimeout: time.Minute, Clock: r.clock.Now, Pause: r.pause, Logger: testkit.Discard(),
		Reached: func(report *follower.Report) { r.reached <- report }, Output: follower.Lines{To: &r.lines},
	}
	if r.out != "" {
		file, err := follower.OpenFile(r.out, state.Output)
		if err != nil {
			return nil, err
		}
		defer func() { _ = file.Close() }()
		cfg.Output = file
	}
	if !r.plain {
		verifiers, err := signingkey.ParseVerifiers(r.keys)
		if err != nil {
			return nil, err
		}
		var accepted []byte
		if state.Checkpoint != "" {
			accepted = []byte(state.Checkpoint)
		}
		if cfg.Tree, err = follower.NewTree(r.s.Origin, verifiers, r.witnesses, accepted, client.Tile); err != nil {
			return nil, err
		}
	}
	f := follower.New(cfg)
	err = f.Run(ctx)
	return f.Report(), err
}

// TestWholeFeedIsProven: all events arrive in order, each once, and the report says what was
// proven, at sizes around those of tiles.
func TestWholeFeedIsProven(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, 1, 2, 99, 100, 101, 255, 256, 257, 511, 512, 513, 1000} {
		s := followertest.New(t)
		feed := followertest.Some(n)
		s.Show(feed, n, n)
		r := newRun(t, s)
		report, err := r.follow(t.Context())
		if err != nil {
			t.Fatalf("%d events: %v", n, err)
		}
		if r.lines.String() != feed.Lines(n) {
			t.Errorf("%d events: other lines arrived", n)
		}
		if report.Size != int64(n) || report.Root != feed.Root(n).String() || report.Events != int64(n) || n > 0 && *report.Proven != (follower.Range{First: 0, Next: int64(n)}) {
			t.Errorf("%d events: %+v", n, report)
		}
		want := "Proven: events 0 to "
		switch n {
		case 0:
			want = "no event was shown"
		case 1:
			want = "Proven: event 0 is, "
		}
		if !strings.Contains(report.String(), want) || !strings.Contains(report.String(), s.Origin+"+") {
			t.Errorf("%d events: %s", n, report)
		}
	}
}

// TestFollowingGrowth: a follower that goes on, in the same run and in later ones, proves
// each step, and at the end of the feed it needs no tiles.
func TestFollowingGrowth(t *testing.T) {
	t.Parallel()
	s := followertest.New(t)
	feed := followertest.Some(5000)
	at := 600
	s.Show(feed, at, at)
	r := newRun(t, s)
	r.living = true
	r.out = filepath.Join(t.TempDir(), "events")
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := r.follow(ctx)
		done <- err
	}()
	<-r.reached
	tiles := s.Asked("/v1/events/tile/")
	for _, step := range []int{1, 1, 50, 3, 100, 99, 1, 100, 77, 2} {
		at += step
		s.Show(feed, at, at)
		testkit.Eventually(t, func() error { return holds(r.out, feed.Lines(at)) })
	}
	if n := s.Asked("/v1/events/tile/"); n != tiles {
		t.Errorf("%d tiles were fetched at the end of the feed", n-tiles)
	}
	stop()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	r.living = false
	for _, to := range []int{at, at + 1, 3000, 5000} {
		s.Show(feed, to, to)
		report, err := r.follow(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := holds(r.out, feed.Lines(to)); err != nil || report.Earliest != 600 || report.Proven.Next != int64(to) {
			t.Errorf("%d: %v, %+v", to, err, report)
		}
	}
}

func holds(file, want string) error {
	got, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if string(got) != want {
		return errors.New("other lines")
	}
	return nil
}

// TestBeginningInTheMiddle: a follower that begins later checks what it gets by its index.
func TestBeginningInTheMiddle(t *testing.T) {
	t.Parallel()
	s := followertest.New(t)
	s.Show(followertest.Some(1500), 1500, 1500)
	r := newRun(t, s)
	r.since = "2026-11-02T00:00:00.000Z"
	report, err := r.follow(t.Context())
	if err != nil || *report.Proven != (follower.Range{First: 1000, Next: 1500}) {
		t.Fatalf("%+v: %v", report, err)
	}
}

// TestCheckpointThatComesLater: events are handed on when they are signed, and not before.
func TestCheckpointThatComesLater(t *testing.T) {
	t.Parallel()
	s := followertest.New(t)
	feed := followertest.Some(30)
	s.Show(feed, 30, 10)
	s.HoldNothing()
	r := newRun(t, s)
	r.paused = func() {
		if r.lines.Len() > 0 {
			t.Error("events were handed on before they were signed")
		}
		if len(r.pauses) == 3 {
			s.Show(feed, 30, 30)
		}
	}
	if report, err := r.follow(t.Context()); err != nil || report.Proven.Next != 30 || report.Earliest != 10 || r.lines.String() != feed.Lines(30) {
		t.Fatalf("%+v: %v", report, err)
	}
}

// TestPlainFollower: without proofs no checkpoint is asked for.
func TestPlainFollower(t *testing.T) {
	t.Parallel()
	s := followertest.New(t)
	feed := followertest.Some(250)
	s.Show(feed, 250, 0)
	r := newRun(t, s)
	r.plain = true
	report, err := r.follow(t.Context())
	if err != nil || r.lines.String() != feed.Lines(250) || s.Asked("/v1/events/") != 0 || !strings.Contains(report.String(), "nothing was proven") {
		t.Errorf("%v, %s", err, report)
	}
}
