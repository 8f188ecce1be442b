package follower_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/ledgerfeed/ledgerfeed/internal/flow"
	"github.com/ledgerfeed/ledgerfeed/internal/follower"
	"github.com/ledgerfeed/ledgerfeed/internal/follower/followertest"
	"github.com/ledgerfeed/ledgerfeed/internal/signingkey"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

// Variables for a process that follows, and is killed.
const (
	urlVariable    = "FOLLOWER_TEST_URL"
	originVariable = "FOLLOWER_TEST_ORIGIN"
	keysVariable   = "FOLLOWER_TEST_KEYS"
	folderVariable = "FOLLOWER_TEST_FOLDER"
)

func TestMain(m *testing.M) {
	if os.Getenv(urlVariable) == "" {
		os.Exit(m.Run())
	}
	if err := followUntilKilled(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// followUntilKilled follows to a file, as the command does.
func followUntilKilled(ctx context.Context) error {
	folder := os.Getenv(folderVariable)
	client, err := follower.NewClient(follower.ClientConfig{URL: os.Getenv(urlVariable), Key: followertest.Key, HTTP: http.DefaultTransport, Pause: flow.Sleep, Logger: testkit.Discard()})
	if err != nil {
		return err
	}
	place := follower.Place{Name: filepath.Join(folder, "state")}
	unlock, err := place.Lock()
	if err != nil {
		return err
	}
	defer unlock()
	state, err := place.Load()
	if err != nil {
		return err
	}
	file, err := follower.OpenFile(filepath.Join(folder, "events"), state.Output)
	if err != nil {
		return err
	}
	keys, err := signingkey.ParseVerifiers(os.Getenv(keysVariable))
	if err != nil {
		return err
	}
	var accepted []byte
	if state.Checkpoint != "" {
		accepted = []byte(state.Checkpoint)
	}
	tree, err := follower.NewTree(os.Getenv(originVariable), keys, follower.Witnesses{}, accepted, client.Tile)
	if err != nil {
		return err
	}
	return follower.New(follower.Config{
		Client: client, Place: place, State: state, Output: file, Tree: tree, Once: true,
		ProofTimeout: time.Minute, Clock: time.Now, Pause: flow.Sleep, Logger: testkit.Discard(),
	}).Run(ctx)
}

// TestKilledAtAnyMoment: a follower that is killed again and again, wherever it is, leaves a
// file with each event once, and what it finishes is proven.
func TestKilledAtAnyMoment(t *testing.T) {
	t.Parallel()
	s := followertest.New(t)
	const events = 1000
	feed := followertest.Some(events)
	s.Show(feed, events, events)
	folder := t.TempDir()
	out := filepath.Join(folder, "events")
	kills, asked := 0, 0
	for {
		c := testkit.Child(urlVariable+"="+s.URL, originVariable+"="+s.Origin, keysVariable+"="+s.Keys(), folderVariable+"="+folder)
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		// Killed when it has made one to three requests, at whatever it does then.
		asked += 1 + kills%3
		testkit.Eventually(t, func() error {
			if s.Asked("/v1/") < asked && holds(out, feed.Lines(events)) != nil {
				return errors.New("no request yet")
			}
			return nil
		})
		_ = c.Process.Kill()
		err := c.Wait()
		var exit *exec.ExitError
		if err != nil && !errors.As(err, &exit) || exit != nil && exit.Exited() {
			t.Fatalf("a follower ended by itself: %v", err)
		}
		asked = s.Asked("/v1/")
		kills++
		got, rerr := os.ReadFile(out)
		if all := feed.Lines(events); rerr == nil && (len(got) > len(all) || string(got) != all[:len(got)]) {
			t.Fatalf("after %d kills there are other lines", kills)
		}
		if holds(out, feed.Lines(events)) == nil {
			break
		}
		if kills == 10 {
			asked = 1 << 30 // this one may finish
		}
	}
	if kills < 5 {
		t.Errorf("it was killed %d times", kills)
	}
	// What was written after the place was kept is cut off and written again.
	if err := os.WriteFile(out, []byte(feed.Lines(events)+`{"id":"half`), 0o600); err != nil {
		t.Fatal(err)
	}
	c := testkit.Child(urlVariable+"="+s.URL, originVariable+"="+s.Origin, keysVariable+"="+s.Keys(), folderVariable+"="+folder)
	if err := c.Run(); err != nil {
		t.Fatal(err)
	}
	if err := holds(out, feed.Lines(events)); err != nil {
		t.Error(err)
	}
	// A file that is not the one that the state is of is left alone.
	if err := os.WriteFile(out, []byte(feed.Lines(3)), 0o600); err != nil {
		t.Fatal(err)
	}
	state, err := follower.Place{Name: filepath.Join(folder, "state")}.Load()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := follower.OpenFile(out, state.Output); err == nil || holds(out, feed.Lines(3)) != nil {
		t.Errorf("another file is written: %v", err)
	}
}
