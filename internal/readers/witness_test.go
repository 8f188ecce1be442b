package readers

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"

	"github.com/ledgerfeed/ledgerfeed/internal/cli"
	"github.com/ledgerfeed/ledgerfeed/internal/follower/followertest"
	"github.com/ledgerfeed/ledgerfeed/internal/witness/witnesstest"
)

const name = "witness.example.com/w1"

// submit runs ledgerfeed-reader witness submit with arguments.
func submit(t *testing.T, args ...string) called {
	t.Helper()
	return run(t, witnessCommand, append([]string{"submit"}, args...)...)
}

// write writes a file that only this account can read.
func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestSubmit: a witness cosigns the checkpoint that follow has kept, and the next one, but no
// other tree.
func TestSubmit(t *testing.T) {
	t.Parallel()
	s := followertest.New(t)
	feed := followertest.Some(600)
	folder := t.TempDir()
	file := func(name string) string { return filepath.Join(folder, name) }
	write(t, file("key"), followertest.Key)
	write(t, file("logs"), s.Keys()+"\n")
	witness := witnesstest.New(t, name)
	witness.Know(t, strings.Fields(s.Keys())...)
	address, _ := witness.Listen(t, "127.0.0.1:0")
	followAndSubmit := func(state string) called {
		t.Helper()
		env := &cli.Env{In: strings.NewReader(""), Out: &bytes.Buffer{}, ErrOut: &bytes.Buffer{}, Clock: time.Now}
		c := followCommand(env)
		c.SetArgs([]string{"--url", s.URL, "--key-file", file("key"), "--state", file(state), "--verify", "--verifier-keys", file("logs"), "--once"})
		if err := c.ExecuteContext(t.Context()); err != nil {
			t.Fatal(err)
		}
		return submit(t, "--state", file(state), "--key-file", file("key"), "--witness", "http://"+address, "--witness-key", witness.VerifierKey)
	}
	for _, size := range []int{100, 600} {
		s.Show(feed, size, size)
		got := followAndSubmit("state")
		if got.err != nil || !strings.HasPrefix(got.errOut, "Cosigned by "+name+" at ") {
			t.Fatalf("%v\n%s", got.err, got.errOut)
		}
		if _, err := note.Open([]byte(got.out), note.VerifierList(witness.Key)); err != nil {
			t.Errorf("%v of\n%s", err, got.out)
		}
	}
	s.Show(feed.With(7, followertest.Event(7, "x")), 600, 600)
	if got := followAndSubmit("another"); got.err == nil || !strings.Contains(got.err.Error(), "answered 422") || got.out != "" {
		t.Errorf("another tree: %v\n%s", got.err, got.out)
	}
}

// TestWitnessWrongUsage: what cannot be meant is refused with what is wanted.
func TestWitnessWrongUsage(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	fresh := filepath.Join(folder, "fresh")
	write(t, fresh, `{"form":1,"url":"https://a.example"}`)
	verifier := witnesstest.New(t, name).VerifierKey
	for _, c := range []struct {
		args, want string
		usage      bool
	}{
		{"", "want --state, --witness and --witness-key", true},
		{"--state x --witness w.example --witness-key " + verifier, "want the witness's address", true},
		{"--state x --witness https://w.example --witness-key nonsense", "no verifier key of a witness", true},
		{"--state " + filepath.Join(folder, "absent") + " --witness https://w.example --witness-key " + verifier, "no such file", false},
		{"--state " + fresh + " --witness https://w.example --witness-key " + verifier, "has no checkpoint", false},
	} {
		got := submit(t, strings.Fields(c.args)...)
		var usage *cli.UsageError
		if got.err == nil || !strings.Contains(got.err.Error(), c.want) || errors.As(got.err, &usage) != c.usage {
			t.Errorf("%q: %v, want %q, usage %v", c.args, got.err, c.want, c.usage)
		}
	}
}
