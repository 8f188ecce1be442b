package readers

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/ledgerfeed/ledgerfeed/internal/cli"
	"github.com/ledgerfeed/ledgerfeed/internal/follower/followertest"
)

// called is what a call of the command left.
type called struct {
	err         error
	out, errOut string
}

// call runs ledgerfeed-reader follow with arguments.
func call(t *testing.T, args ...string) called {
	t.Helper()
	return run(t, followCommand, args...)
}

// run runs a command with arguments.
func run(t *testing.T, command func(*cli.Env) *cobra.Command, args ...string) called {
	t.Helper()
	var out, errOut bytes.Buffer
	c := command(&cli.Env{In: strings.NewReader(""), Out: &out, ErrOut: &errOut, Clock: time.Now})
	c.SetArgs(args)
	c.SetOut(&out)
	c.SetErr(&errOut)
	c.SilenceErrors, c.SilenceUsage = true, true
	err := c.ExecuteContext(t.Context())
	return called{err, out.String(), errOut.String()}
}

// TestFollow: the events are in the file, the line says what was proven, and a fork ends with
// the notes that prove it.
func TestFollow(t *testing.T) {
	t.Parallel()
	s := followertest.New(t)
	feed := followertest.Some(150)
	s.Show(feed, 120, 120)
	folder := t.TempDir()
	file := func(name string) string { return filepath.Join(folder, name) }
	for name, text := range map[string]string{"key": followertest.Key + "\n", "keys": "# of the operator\n" + s.Keys() + "\n"} {
		if err := os.WriteFile(file(name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	args := []string{"--url", s.URL, "--key-file", file("key"), "--state", file("state"), "--out", file("events"), "--verify", "--verifier-keys", file("keys"), "--once"}
	for _, size := range []int{120, 150} {
		s.Show(feed, size, size)
		got := call(t, args...)
		if got.err != nil || got.out != "" || strings.Count(got.errOut, "\n") != 1 || !strings.HasPrefix(got.errOut, "Proven: events 0 to ") {
			t.Fatalf("%v\n%s\n%s", got.err, got.out, got.errOut)
		}
		if have, err := os.ReadFile(file("events")); err != nil || string(have) != feed.Lines(size) {
			t.Fatalf("other lines, %v", err)
		}
	}
	s.Show(feed.With(7, followertest.Event(7, "x")), 150, 150)
	got := call(t, args...)
	notes, err := filepath.Glob(file("state.evidence-*/*.note"))
	if err != nil || len(notes) != 2 || got.err == nil || !strings.Contains(got.err.Error(), filepath.Dir(notes[0])) {
		t.Errorf("%v, %v, %v", got.err, notes, err)
	}
	var usage *cli.UsageError
	if errors.As(got.err, &usage) {
		t.Error("a fork is called wrong usage")
	}
	state, err := os.ReadFile(file("state"))
	if err != nil || bytes.Contains(state, []byte(followertest.Key)) {
		t.Errorf("the state has the key, %v", err)
	}
}

// TestKeysOfTheService: without a file the keys are those that the service names, and shown.
func TestKeysOfTheService(t *testing.T) {
	t.Parallel()
	s := followertest.New(t)
	s.Show(followertest.Some(3), 3, 3)
	folder := t.TempDir()
	key := filepath.Join(folder, "key")
	if err := os.WriteFile(key, []byte(followertest.Key), 0o600); err != nil {
		t.Fatal(err)
	}
	got := call(t, "--url", s.URL, "--key-file", key, "--state", filepath.Join(folder, "state"), "--verify", "--once", "--exec", `cat; test -z "$LEDGERFEED_KEY"`)
	if got.err != nil || got.out != followertest.Some(3).Lines(3) || !strings.Contains(got.errOut, s.Keys()) {
		t.Errorf("%v\n%s\n%s", got.err, got.out, got.errOut)
	}
	// A command that fails has not taken the events: they come again.
	again := []string{"--url", s.URL, "--key-file", key, "--state", filepath.Join(folder, "again"), "--once", "--exec"}
	if got := call(t, append(again, "exit 3")...); got.err == nil {
		t.Error("a command that fails is no error")
	}
	if got := call(t, append(again, "cat")...); got.err != nil || got.out != followertest.Some(3).Lines(3) {
		t.Errorf("%v\n%s", got.err, got.out)
	}
}

// TestFollowWrongUsage: what cannot be meant is refused before anything is asked.
func TestFollowWrongUsage(t *testing.T) {
	t.Parallel()
	key := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(key, []byte(followertest.Key), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ args, want string }{
		{"", "want --url"},
		{"--url https://a.example --out x", "--out needs --state"},
		{"--url https://a.example --verify", "--verify needs --state"},
		{"--url https://a.example --out x --exec y --state z", "want --out or --exec"},
		{"--url https://a.example --verifier-keys x", "need --verify"},
		{"--url http://a.example --key-file " + key, "in plain text"},
		{"--url https://a.example?x=1 --key-file " + key, "want the API's address"},
		{"--url https://user:secret@a.example --key-file " + key, "want the API's address"},
		{"--url https://a.example --verify --state x --proof-timeout 0s", "--proof-timeout"},
		{"--url https://a.example --witness w", "--witness needs --verify"},
		{"--url https://a.example --verify --state x --witness w --witnesses-needed 2", "--witnesses-needed is 2: want 1 to 1"},
		{"--url https://a.example --verify --state x --witnesses-needed 1", "--witnesses-needed needs --witness"},
	} {
		got := call(t, strings.Fields(c.args)...)
		var usage *cli.UsageError
		if !errors.As(got.err, &usage) || !strings.Contains(got.err.Error(), c.want) || strings.Contains(got.err.Error(), "secret") {
			t.Errorf("%q: %v, want %q", c.args, got.err, c.want)
		}
	}
}
