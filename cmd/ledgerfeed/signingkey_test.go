package main

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/ledgerfeed/ledgerfeed/internal/cli"
	"github.com/ledgerfeed/ledgerfeed/internal/signingkey"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

// newSigningKey makes a key with the program, and returns it with its verifier key.
func newSigningKey(t *testing.T) (key, verifier string) {
	t.Helper()
	c := command(t, "", "signing-key", "new", "--json")
	c.Env = append(c.Env, "LEDGERFEED_BASE_URL=https://api.example.com")
	var made struct {
		Key          string            `json:"key"`
		VerifierKeys map[string]string `json:"verifier_keys"`
	}
	if err := json.Unmarshal([]byte(runCommand(t, c).out), &made); err != nil {
		t.Fatal(err)
	}
	return made.Key, made.VerifierKeys["api.example.com"]
}

// TestSigningKeys: keys are made, shown without their secret, and check what both of
// them signed during a rotation; no command needs a database for it, or makes one.
func TestSigningKeys(t *testing.T) {
	t.Parallel()
	older, olderVerifier := newSigningKey(t)
	newer, newerVerifier := newSigningKey(t)
	const name = "api.example.com"
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	keys := testkit.Must(signingkey.Parse(newer + "," + older))(t)
	note := testkit.Must(keys.Sign(name, name+"\nday 2026-11-22\n"))(t)
	signed, changed := file("signed", string(note)), file("changed", strings.Replace(string(note), "22", "23", 1))
	_, stranger := newSigningKey(t)
	ofTree := file("tree", string(testkit.Must(keys.Sign(name+"/acme/events", name+"/acme/events\n7\n"))(t)))
	for _, c := range []struct {
		keys, args string
		code       int
		says       string
	}{
		{newer + "," + older, "signing-key show", cli.ExitDone, newerVerifier + "\n" + olderVerifier},
		{older, "signing-key show --name api.example.com/acme/events", cli.ExitDone, "api.example.com/acme/events+"},
		{older, "signing-key show --json", cli.ExitDone, `"source":"LEDGERFEED_SIGNING_KEY"`},
		{older, "signing-key show --name a+b", cli.ExitUsage, `"a+b" is no name of a key`},
		{"", "signing-key show", cli.ExitFailed, "signing.key yet, which ledgerfeed serve or demo makes"},
		{"hunter2", "signing-key show", cli.ExitUsage, "LEDGERFEED_SIGNING_KEY has a wrong value, which is not shown"},
		{"", "signing-key check " + signed, cli.ExitFailed, "want --key or --keys: there is no file"},
		{older, "signing-key check " + signed, cli.ExitDone, "day 2026-11-22"},
		{older, "signing-key check " + file("windows", "\ufeff"+strings.ReplaceAll(string(note), "\n", "\r\n")), cli.ExitDone, "day 2026-11-22"},
		{older, "signing-key check " + file("utf16", "\xff\xfea\x00"), cli.ExitFailed, "utf16: cannot read the note: it is UTF-16: want UTF-8"},
		{newer, "signing-key check --json " + signed, cli.ExitDone, `"name":"` + name + `"`},
		{"", "signing-key check --key " + olderVerifier + " " + signed, cli.ExitDone, "Signed by " + strings.Join(strings.SplitN(olderVerifier, "+", 3)[:2], "+") + "."},
		{"", "signing-key check --keys " + file("keys", "# a comment\n"+olderVerifier+"\n"+newerVerifier+"\n") + " " + signed, cli.ExitDone, " and " + name},
		{"", "signing-key check --key " + olderVerifier + " " + ofTree, cli.ExitDone, name + "/acme/events"},
		{"", "signing-key check --key " + stranger + " " + ofTree, cli.ExitFailed, "none of the keys signed the note"},
		{"", "signing-key check --key " + olderVerifier + " " + changed, cli.ExitFailed, "the note is not what was signed"},
		{newer, "signing-key check " + changed, cli.ExitFailed, "the note is not what was signed"},
		{"", "signing-key check --key " + stranger + " " + signed, cli.ExitFailed, "none of the keys signed the note"},
		{"", "signing-key check --key nonsense " + signed, cli.ExitUsage, "--key: want a verifier key, NAME+HASH+KEY"},
		{"", "signing-key check --keys " + file("secret", older) + " " + signed, cli.ExitFailed, "line 1 is a signing key, which is secret"},
		{"", "signing-key check --key " + stranger + " /absent", cli.ExitFailed, "/absent: no such file"},
		{"", "signing-key check --key " + stranger + " " + file("empty", ""), cli.ExitFailed, "it is no signed note"},
		{older, "signing-key check " + file("text", "two words\n"), cli.ExitFailed, "it is no signed note"},
		{"", "signing-key nwe", cli.ExitUsage, "did you mean new?"},
	} {
		cmd := command(t, "", strings.Fields(c.args)...)
		cmd.Env = append(cmd.Env, "LEDGERFEED_SIGNING_KEY="+c.keys, "LEDGERFEED_BASE_URL=https://api.example.com")
		r := runCommand(t, cmd)
		if r.code != c.code || !strings.Contains(r.out+r.errOut, c.says) || c.code != cli.ExitDone && r.out != "" {
			t.Errorf("%s: exit %d, want %d and %q in:\n%s%s", c.args, r.code, c.code, c.says, r.out, r.errOut)
		}
		for _, secret := range []string{newer, older} {
			if strings.Contains(r.out+r.errOut, strings.SplitN(secret, "+", 5)[4]) {
				t.Errorf("%s shows a secret", c.args)
			}
		}
	}
	// With a DATABASE_URL no file is looked at: it may be that of a demo.
	noDatabase := command(t, "postgres://127.0.0.1:1/x", "signing-key", "show")
	if r := runCommand(t, noDatabase); r.code != cli.ExitFailed || !strings.Contains(r.errOut, "there is no key to sign with: ledgerfeed signing-key new makes one") {
		t.Errorf("%+v", r)
	}
}

// TestSigningKeyFileOfWindows: a key that a person put back with an editor there is the same key.
func TestSigningKeyFileOfWindows(t *testing.T) {
	t.Parallel()
	key, verifier := newSigningKey(t)
	dir, n := t.TempDir(), 0
	for text, want := range map[string]string{
		"\ufeff" + key + "\r\n": verifier, "\xff\xfeP\x00": "signing.key: it is UTF-16: want UTF-8", "\ufeff\n": "signing.key is empty: put the key back",
	} {
		n++
		show := func() result {
			c := command(t, "", "signing-key", "show", "--data-dir", filepath.Join(dir, strconv.Itoa(n)))
			c.Env = append(c.Env, "LEDGERFEED_BASE_URL=https://api.example.com")
			return runCommand(t, c)
		}
		r := show()
		_, name, _ := strings.Cut(r.errOut, "there is no file ") // under root it is elsewhere
		name, _, found := strings.Cut(name, " yet")
		// PostgreSQL's account has to pass through what is above, also for the tests beside.
		if !found || errors.Join(os.MkdirAll(filepath.Dir(filepath.Dir(name)), 0o711), os.MkdirAll(filepath.Dir(name), 0o700)) != nil {
			t.Fatalf("%+v", r)
		}
		t.Cleanup(func() { _ = os.RemoveAll(filepath.Dir(name)) })
		write(t, name, text)
		if r := show(); !strings.Contains(r.out+r.errOut, want) {
			t.Errorf("%.10q: %+v, want %q", text, r, want)
		}
	}
}

// TestSigningKeyOfTheOwnDatabase: with the program's own PostgreSQL, serve makes the key,
// shows its public part, and commands sign with the same one.
func TestSigningKeyOfTheOwnDatabase(t *testing.T) {
	t.Parallel()
	dir := localDir(t)
	serving := startProcess(t, localCommand(t, dir, "serve"))
	_, keys := bodyOf(t, apiOf(serving)+"/docs/keys.txt")
	shown := succeedLocally(t, dir, "signing-key", "show")
	if !strings.HasSuffix(keys, "\n"+shown) || !strings.HasPrefix(shown, "127.0.0.1:0+") {
		t.Errorf("the service shows\n%s\nand the command\n%s", keys, shown)
	}
	info := testkit.Must(os.Stat(filepath.Join(dir, "signing.key")))(t)
	if info.Mode().Perm() != 0o600 {
		t.Errorf("the key's file has the mode %v", info.Mode())
	}
	older := read(t, filepath.Join(dir, "signing.key"))
	signed := filepath.Join(t.TempDir(), "signed")
	note := testkit.Must(testkit.Must(signingkey.Parse(strings.TrimSpace(older)))(t).Sign("127.0.0.1:0/acme/events", "127.0.0.1:0/acme/events\n0\n"))(t)
	if err := os.WriteFile(signed, note, 0o600); err != nil {
		t.Fatal(err)
	}
	succeedLocally(t, dir, "signing-key", "check", signed)

	// The file takes two keys, as the setting does.
	newer, _ := newSigningKey(t)
	serving.stop()
	if err := os.WriteFile(filepath.Join(dir, "signing.key"), []byte(newer+","+older), 0o600); err != nil {
		t.Fatal(err)
	}
	if both := succeedLocally(t, dir, "signing-key", "show"); strings.Count(both, "\n") != 2 || !strings.HasSuffix(both, "\n"+shown) {
		t.Errorf("both keys: %s", both)
	}
	succeedLocally(t, dir, "signing-key", "check", signed)
}
