package witnessing_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed/internal/cli"
	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed/internal/witnessing"
	"github.com/ledgerfeed/ledgerfeed/internal/follower/followertest"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

const name = "witness.example.com/w1"

// called is what a call of a command left.
type called struct {
	err         error
	out, errOut string
}

// call runs ledgerfeed witness with arguments.
func call(t *testing.T, args ...string) called {
	t.Helper()
	var out, errOut bytes.Buffer
	env := &cli.Env{In: strings.NewReader(""), Out: &out, ErrOut: &errOut, Clock: time.Now}
	c := witnessing.Command(env)
	c.SetArgs(args)
	c.SetOut(&out)
	c.SetErr(&errOut)
	c.SilenceErrors, c.SilenceUsage = true, true
	err := c.ExecuteContext(t.Context())
	return called{err, out.String(), errOut.String()}
}

// write writes a file that only this account can read.
func write(t *testing.T, path, text string) string {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestWrongUsage: what cannot be meant is refused with what is wanted.
func TestWrongUsage(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	file := func(name string) string { return filepath.Join(folder, name) }
	key := file("key")
	made := call(t, "key", "new", "--key-file", key, "--name", name)
	if info, err := os.Stat(key); made.err != nil || err != nil || info.Mode().Perm() != 0o600 || made.out != call(t, "key", "show", "--key-file", key).out || !strings.HasPrefix(made.out, name+"+") {
		t.Fatalf("%+v, %v", made, err)
	}
	if got := call(t, "key", "new", "--key-file", key, "--name", name); got.err == nil || !strings.Contains(got.err.Error(), "exists, and is left as it is") {
		t.Errorf("%v", got.err)
	}
	open := file("open")
	write(t, open, string(testkit.Must(os.ReadFile(key))(t)))
	if err := os.Chmod(open, 0o644); err != nil {
		t.Fatal(err)
	}
	s := followertest.New(t)
	logs := write(t, file("logs"), s.Keys())
	verifier := strings.TrimSpace(made.out)
	write(t, file("empty"), "")
	write(t, file("fresh"), `{"form":1,"url":"https://a.example"}`)
	for _, c := range []struct {
		args, want string
		usage      bool
	}{
		{"key new --key-file x", "want --key-file and --name", true},
		{"key new --name a+b --key-file " + file("new"), "no name of a key", true},
		{"key show", "want --key-file", true},
		{"key show --key-file " + file("absent"), "witness key new makes one", false},
		{"key show --key-file " + open, "can be read by other accounts", false},
		{"key show --key-file " + file("empty"), "no witness's key", false},
		{"serve", "want --state, --key-file and --logs", true},
		{"serve --state x --key-file x --logs " + file("absent"), "no such file", false},
		{"serve --state x --key-file x --logs " + file("empty"), "there is no verifier key", false},
		{"serve --state x --key-file " + file("absent") + " --logs " + logs, "want --name", true},
		{"serve --state x --key-file " + key + " --name other --logs " + logs, "is called " + name, true},
		{"serve --listen nonsense --state " + file("state") + " --key-file " + key + " --logs " + logs, "--listen", false},
		{"submit", "want --state, --witness and --witness-key", true},
		{"submit --state x --witness w.example --witness-key " + verifier, "want the witness's address", true},
		{"submit --state x --witness https://w.example --witness-key nonsense", "no verifier key of a witness", true},
		{"submit --state " + file("absent") + " --witness https://w.example --witness-key " + verifier, "no such file", false},
		{"submit --state " + file("fresh") + " --witness https://w.example --witness-key " + verifier, "has no checkpoint", false},
	} {
		got := call(t, strings.Fields(c.args)...)
		var usage *cli.UsageError
		if got.err == nil || !strings.Contains(got.err.Error(), c.want) || errors.As(got.err, &usage) != c.usage {
			t.Errorf("%q: %v, want %q, usage %v", c.args, got.err, c.want, c.usage)
		}
	}
}
