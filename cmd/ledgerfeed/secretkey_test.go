package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/ledgerfeed/ledgerfeed/internal/cli"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

// bodyOf returns the status and the text that an address answers with.
func bodyOf(t *testing.T, address string) (status int, text string) {
	t.Helper()
	req := testkit.Must(http.NewRequestWithContext(t.Context(), http.MethodGet, address, http.NoBody))(t)
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	return resp.StatusCode, string(testkit.Must(io.ReadAll(resp.Body))(t))
}

// A container whose disk was replaced has another data directory. No key is made
// beside what the old one sealed: the roles that need it are refused in words, the
// process is not ready, and the others run. With the old file all is well again.
func TestReplacedDisk(t *testing.T) {
	t.Parallel()
	url, disk, replaced := testkit.NewDatabase(t), t.TempDir(), t.TempDir()
	on := func(dir string, args ...string) result {
		t.Helper()
		c := command(t, url, args...)
		c.Env = append(c.Env, "LEDGERFEED_DATA_DIR="+dir, "LEDGERFEED_SECRET_KEY=")
		return runCommand(t, c)
	}
	serveOn := func(dir string) (p *process, admin string) {
		t.Helper()
		c := command(t, url, "serve")
		c.Env = append(c.Env, "LEDGERFEED_DATA_DIR="+dir, "LEDGERFEED_SECRET_KEY=")
		p = startProcess(t, c)
		return p, strings.TrimSpace(p.await("for=admin url="))
	}
	succeed(t, url, "workspace", "create", "--id", "acme")
	if r := on(disk, "webhook", "create", "--workspace", "acme", "--url", "https://example.com/hook"); r.code != cli.ExitDone || !strings.Contains(r.errOut, "made a key") {
		t.Fatalf("%+v", r)
	}
	serving, admin := serveOn(replaced)
	testkit.Eventually(t, func() error {
		if status, text := bodyOf(t, admin+"/readyz"); status != http.StatusServiceUnavailable || !strings.Contains(text, "LEDGERFEED_SECRET_KEY") || !strings.Contains(text, "sealed under it: 1") {
			return fmt.Errorf("ready with another disk: %d %s", status, text)
		}
		return nil
	})
	if status := statusOf(t, apiOf(serving)+"/v1/me"); status != http.StatusUnauthorized {
		t.Errorf("the API is answered %d", status)
	}
	log := serving.log.String()
	for _, want := range []string{"not starting a role", "role=deliver", "role=console", "secret.key"} {
		if !strings.Contains(log, want) {
			t.Errorf("the log does not say %q:\n%s", want, log)
		}
	}
	if strings.Contains(log, "for=console") {
		t.Errorf("the console runs:\n%s", log)
	}
	if code := serving.stop(); code != cli.ExitDone {
		t.Errorf("serve ended with %d", code)
	}
	for _, args := range [][]string{
		{"webhook", "create", "--workspace", "acme", "--url", "https://example.com/other"}, {"secret-key", "check"}, {"secret-key", "rotate"},
	} {
		if r := on(replaced, args...); r.code != cli.ExitFailed || !strings.Contains(r.errOut, "LEDGERFEED_SECRET_KEY") {
			t.Errorf("%v: %+v", args, r)
		}
	}
	if r := on(replaced, "webhook", "list", "--workspace", "acme"); r.code != cli.ExitDone {
		t.Errorf("a list needs a key: %+v", r)
	}
	if _, err := os.Stat(filepath.Join(replaced, "secret.key")); !os.IsNotExist(err) {
		t.Errorf("a key was made beside sealed secrets: %v", err)
	}
	// Settings that were forgotten lead to no advice that destroys secrets, and leave nothing behind.
	forgotten := filepath.Join(t.TempDir(), ".ledgerfeed")
	for _, args := range []string{"secret-key check", "secret-key rotate", "secret-key rotate --give-up-lost"} {
		r := on(forgotten, strings.Fields(args)...)
		if r.code != cli.ExitFailed || !strings.Contains(r.errOut, "is --config or a variable missing?") || strings.Contains(r.errOut, "rotate --give-up-lost") {
			t.Errorf("%s: %+v", args, r)
		}
		if _, err := os.Stat(forgotten); !os.IsNotExist(err) {
			t.Errorf("%s made %s: %v", args, forgotten, err)
		}
	}
	serving, admin = serveOn(disk)
	answers(t, admin+"/readyz", http.StatusOK)
	serving.await("for=console")
	if r := on(disk, "secret-key", "check", "--json"); r.code != cli.ExitDone || !strings.Contains(r.out, `"held":true,"seals":true,"lost":false,"secrets":1`) {
		t.Errorf("%+v", r)
	}
	// A key that a running process has is not lost.
	if r := on(replaced, "secret-key", "rotate", "--give-up-lost", "--yes"); r.code != cli.ExitFailed || !strings.Contains(r.errOut, "is not lost, because a running process") {
		t.Errorf("%+v", r)
	}
	if _, err := os.Stat(filepath.Join(replaced, "secret.key")); !os.IsNotExist(err) {
		t.Errorf("a refused run left a key: %v", err)
	}
	// The key in the file is replaced once what runs has both.
	oldKey := read(t, filepath.Join(disk, "secret.key"))
	if r := on(disk, "secret-key", "rotate"); r.code != cli.ExitFailed || !strings.Contains(r.errOut, "1 running process that delivers") {
		t.Errorf("rotated under a process that delivers: %+v", r)
	}
	serving.stop()
	serving, _ = serveOn(disk)
	if r := on(disk, "secret-key", "rotate", "--json"); r.code != cli.ExitDone || !strings.Contains(r.out, `"webhooks":1`) {
		t.Errorf("%+v", r)
	}
	serving.stop()
	if text := read(t, filepath.Join(disk, "secret.key")); len(text) != 64 {
		t.Errorf("the file holds %d characters, want one key", len(text))
	}
	// A backup of the database from before needs the old one.
	if former := read(t, filepath.Join(disk, "secret.key.former")); !strings.Contains(former, oldKey) {
		t.Errorf("the former keys are %q, without %q", former, oldKey)
	}
	if r := on(disk, "secret-key", "check"); r.code != cli.ExitDone {
		t.Errorf("%+v", r)
	}
}

// With LEDGERFEED_SECRET_KEY, the first key is the one to rotate to, and a key that is
// lost for good can be given up.
func TestSecretKeyRotation(t *testing.T) {
	t.Parallel()
	url := testkit.NewDatabase(t)
	const older, newer, newest = "the key before them all", "the key after that one", "the key that is found at last"
	with := func(keys string, args ...string) result {
		t.Helper()
		c := command(t, url, args...)
		c.Env = append(c.Env, "LEDGERFEED_SECRET_KEY="+keys)
		return runCommand(t, c)
	}
	succeed(t, url, "workspace", "create", "--id", "acme")
	var made struct{ ID string }
	if err := json.Unmarshal([]byte(with(older, "webhook", "create", "--workspace", "acme", "--url", "https://example.com/hook", "--json").out), &made); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		keys, args string
		code       int
		says       string
	}{
		{newer, "secret-key rotate", cli.ExitFailed, "this database needs the key with the fingerprint"},
		{newer + "," + older, "secret-key rotate", cli.ExitDone, "the secrets of 1 webhook were encrypted again"},
		{newer + "," + older, "secret-key rotate", cli.ExitDone, "encrypts already"},
		{older, "secret-key check", cli.ExitFailed, "no"},
		{newer, "secret-key check", cli.ExitDone, "yes"},
		{newest, "webhook rotate-secret " + made.ID, cli.ExitFailed, "do not fit"},
		{newest, "secret-key rotate --give-up-lost", cli.ExitFailed, "become unreadable for ever: 1. "},
		{newest, "secret-key rotate --give-up-lost", cli.ExitFailed, "nothing was changed"},
		{newer, "secret-key check", cli.ExitDone, "yes"},
		{newest, "secret-key rotate --give-up-lost --yes", cli.ExitDone, "Given up: 1 secret"},
		{newest, "webhook list --json --workspace acme", cli.ExitDone, "signing secret was lost"},
		{newest, "webhook rotate-secret " + made.ID, cli.ExitDone, "whsec_"},
		{newest, "webhook list --json --workspace acme", cli.ExitDone, `"notice":null`},
		{newest, "secret-key check", cli.ExitDone, "given up as lost"},
	} {
		r := with(c.keys, strings.Fields(c.args)...)
		if strings.Contains(r.errOut, "both secrets") {
			t.Errorf("%s with %s: messages cannot be signed with a secret whose key is lost:\n%s", c.args, c.keys, r.errOut)
		}
		if r.code != c.code || !strings.Contains(r.out+r.errOut, c.says) {
			t.Errorf("%s with %s: exit %d, want %d and %q in:\n%s%s", c.args, c.keys, r.code, c.code, c.says, r.out, r.errOut)
		}
	}
}

// TestGivingUpSecretsIsAsked: the person types yes.
func TestGivingUpSecretsIsAsked(t *testing.T) {
	t.Parallel()
	url := testkit.NewDatabase(t)
	succeed(t, url, "workspace", "create", "--id", "acme")
	succeed(t, url, "webhook", "create", "--workspace", "acme", "--url", "https://example.com/hook")
	for _, c := range []struct {
		typed string
		code  int
	}{{"", cli.ExitFailed}, {"y\n", cli.ExitFailed}, {"yes\n", cli.ExitDone}} {
		give := command(t, url, "secret-key", "rotate", "--give-up-lost")
		give.Env = append(give.Env, "LEDGERFEED_SECRET_KEY=a key that has opened nothing")
		give.Stdin = strings.NewReader(c.typed)
		if r := runCommand(t, give); r.code != c.code {
			t.Errorf("%q: %+v", c.typed, r)
		}
	}
}

// TestRotationsAtTheSameTime: of rotations of the key in the data directory that run at the same
// time, some may be refused, and the key that encrypts in the end is in the file.
func TestRotationsAtTheSameTime(t *testing.T) {
	t.Parallel()
	url, dir := testkit.NewDatabase(t), filepath.Join(t.TempDir(), "data")
	run := func(args ...string) result {
		t.Helper()
		c := command(t, url, append(args, "--data-dir", dir)...)
		return runCommand(t, c)
	}
	succeed(t, url, "workspace", "create", "--id", "acme")
	if r := run("webhook", "create", "--workspace", "acme", "--url", "https://example.com/hook"); r.code != cli.ExitDone {
		t.Fatalf("%+v", r)
	}
	for range testkit.Scale(2, 10) {
		results := make([]result, 4)
		var group sync.WaitGroup
		for i := range results {
			c := command(t, url, "secret-key", "rotate", "--data-dir", dir)
			group.Go(func() { results[i] = runCommand(t, c) })
		}
		group.Wait()
		done := 0
		for _, r := range results {
			switch {
			case r.code == cli.ExitDone:
				done++
			case !strings.Contains(r.errOut, "another rotation of the keys"):
				t.Errorf("%+v", r)
			}
		}
		if done == 0 {
			t.Errorf("no rotation was made: %+v", results)
		}
		if r := run("secret-key", "check"); r.code != cli.ExitDone {
			t.Fatalf("after rotations at the same time: %+v", r)
		}
	}
}
