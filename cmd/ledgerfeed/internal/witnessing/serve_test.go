//go:build full

package witnessing_test

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed/internal/cli"
	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed/internal/following"
	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed/internal/witnessing"
	"github.com/ledgerfeed/ledgerfeed/internal/follower/followertest"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
	"github.com/ledgerfeed/ledgerfeed/internal/witness"
)

// serve runs a witness until stop, which returns how it ended.
func serve(t *testing.T, args ...string) (address string, stop func() error) {
	t.Helper()
	var errOut testkit.Buffer
	env := &cli.Env{In: strings.NewReader(""), Out: &errOut, ErrOut: &errOut, Clock: time.Now}
	c := witnessing.Command(env)
	c.SetArgs(append([]string{"serve", "--listen", "127.0.0.1:0"}, args...))
	c.SilenceErrors, c.SilenceUsage = true, true
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- c.ExecuteContext(ctx) }()
	listening := regexp.MustCompile(`127\.0\.0\.1:\d+`)
	testkit.Eventually(t, func() error {
		if address = listening.FindString(errOut.String()); address == "" {
			return errors.New(errOut.String())
		}
		return nil
	})
	return "http://" + address, func() error { cancel(); return <-ended }
}

// TestWitness: what follow has kept is cosigned, growth too and a fork not, across restarts
// of a witness that makes its key at its first start.
func TestWitness(t *testing.T) {
	t.Parallel()
	s := followertest.New(t)
	feed := followertest.Some(600)
	folder := t.TempDir()
	file := func(name string) string { return filepath.Join(folder, name) }
	write(t, file("key"), followertest.Key)
	write(t, file("logs"), s.Keys()+"\n")
	follow := func(state string) {
		t.Helper()
		env := &cli.Env{In: strings.NewReader(""), Out: &bytes.Buffer{}, ErrOut: &bytes.Buffer{}, Clock: time.Now}
		c := following.Command(env)
		c.SetArgs([]string{"--url", s.URL, "--key-file", file("key"), "--state", state, "--verify", "--verifier-keys", file("logs"), "--once"})
		if err := c.ExecuteContext(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	args := []string{"--state", file("witness"), "--key-file", file("witness.key"), "--logs", file("logs")}
	address, stop := serve(t, append(args, "--name", name)...)
	defer http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	verifier := strings.TrimSpace(call(t, "key", "show", "--key-file", file("witness.key")).out)
	submit := func(state string) called {
		return call(t, "submit", "--state", state, "--key-file", file("key"), "--witness", address, "--witness-key", verifier)
	}
	for _, size := range []int{100, 600} {
		s.Show(feed, size, size)
		follow(file("state"))
		got := submit(file("state"))
		if got.err != nil || !strings.HasPrefix(got.errOut, "Cosigned by "+name+" at ") {
			t.Fatalf("%v\n%s", got.err, got.errOut)
		}
		if _, err := note.Open([]byte(got.out), note.VerifierList(testkit.Must(witness.ParseVerifier(verifier))(t))); err != nil {
			t.Errorf("%v of\n%s", err, got.out)
		}
		if err := stop(); err != nil {
			t.Fatalf("the witness ended with %v", err)
		}
		address, stop = serve(t, args...)
	}
	defer func() { _ = stop() }()
	s.Show(feed.With(7, followertest.Event(7, "x")), 600, 600)
	follow(file("another"))
	if got := submit(file("another")); got.err == nil || !strings.Contains(got.err.Error(), "answered 422") || got.out != "" {
		t.Errorf("a fork: %v\n%s", got.err, got.out)
	}
	if forks := testkit.Must(filepath.Glob(file("witness/*.fork-1")))(t); len(forks) != 1 {
		t.Errorf("%v", forks)
	}
	if got := call(t, append([]string{"serve"}, args...)...); got.err == nil || !strings.Contains(got.err.Error(), "another witness runs") {
		t.Errorf("a second witness: %v", got.err)
	}
}
