package operate

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ledgerfeed/ledgerfeed/delivery/keyring"
	"github.com/ledgerfeed/ledgerfeed/internal/settings"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

// TestOneRotationAtATime: while a rotation works with the file of the keys, another one is refused.
// It would write what it had made of the file before, and a key that encrypts could be lost.
func TestOneRotationAtATime(t *testing.T) {
	t.Parallel()
	e, db := &Env{Settings: settings.Settings{DataDir: filepath.Join(t.TempDir(), "data")}}, &Database{URL: "postgres://db.example.com/ledgerfeed"}
	if err := e.writeKeyFile(db, secretKeyName, strings.Repeat("s", 16)); err != nil {
		t.Fatal(err)
	}
	unlock := testkit.Must(e.LockSecretKeys(db))(t)
	if _, err := e.LockSecretKeys(db); err == nil || !strings.Contains(err.Error(), "another rotation of the keys in") {
		t.Errorf("a second one: %v", err)
	}
	unlock()
	testkit.Must(e.LockSecretKeys(db))(t)()
}

// TestSecretKeyFilesOfWindows: a key that a person put back with an editor there is the same key.
func TestSecretKeyFilesOfWindows(t *testing.T) {
	t.Parallel()
	key := strings.Repeat("s", 16)
	want := testkit.Must(keyring.New(key))(t).Fingerprints()[0]
	for text, fault := range map[string]string{
		key: "", "\ufeff" + key: "", "\ufeff" + key + "\r\n": "", key + "\n": "",
		"\xff\xfes\x00": "secret.key: it is UTF-16: want UTF-8",
		"":              "secret.key is empty: put the key back", "\ufeff\r\n": "secret.key is empty: put the key back",
	} {
		e, db := &Env{Settings: settings.Settings{DataDir: filepath.Join(t.TempDir(), "data")}}, &Database{URL: "postgres://db.example.com/ledgerfeed"}
		if err := e.writeKeyFile(db, secretKeyName, text); err != nil {
			t.Fatal(err)
		}
		k, err := e.ReadKeyring(db)
		switch {
		case fault != "" && (err == nil || !strings.Contains(err.Error(), fault)):
			t.Errorf("%q: %v, want %q", text, err, fault)
		case fault == "" && (err != nil || k.Fingerprints()[0] != want):
			t.Errorf("%q: %v", text, err)
		}
	}
}

// TestKeepSecretKey: the keys behind the one that encrypts go to the file of the former ones.
// A key before it stays: another rotation has just put it there. A file without the key stays
// as it is.
func TestKeepSecretKey(t *testing.T) {
	t.Parallel()
	newest, seals, old, older := strings.Repeat("n", 16), strings.Repeat("s", 16), strings.Repeat("o", 16), strings.Repeat("p", 16)
	for _, c := range []struct{ name, file, former, wantFile, wantFormer, fault string }{
		{"one rotation", seals + "," + old, "", seals, old, ""},
		{"former keys stay", seals + "," + old, older, seals, old + "," + older, ""},
		{"nothing is former", seals, "", seals, "", ""},
		{"another rotation has begun", newest + "," + seals + "," + old, "", newest + "," + seals, old, ""},
		{"another rotation took the key away", newest + "," + old, "", newest + "," + old, "", "another rotation"},
	} {
		dir := filepath.Join(t.TempDir(), "data")
		e, db := &Env{Settings: settings.Settings{DataDir: dir}}, &Database{URL: "postgres://db.example.com/ledgerfeed"}
		path := func(name string) string { return filepath.Join(db.DataDir(dir), name) }
		if err := e.writeKeyFile(db, secretKeyName, c.file); err != nil {
			t.Fatal(err)
		}
		if c.former != "" {
			if err := e.writeKeyFile(db, formerKeysName, c.former); err != nil {
				t.Fatal(err)
			}
		}
		_, _, err := e.KeepSecretKey(db, testkit.Must(keyring.New(seals))(t).Fingerprints()[0])
		if (err == nil) != (c.fault == "") || err != nil && !strings.Contains(err.Error(), c.fault) {
			t.Errorf("%s: %v", c.name, err)
		}
		file := testkit.Must(os.ReadFile(path(secretKeyName)))(t)
		former, err := os.ReadFile(path(formerKeysName))
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		if string(file) != c.wantFile || string(former) != c.wantFormer {
			t.Errorf("%s: the files hold %q and %q, want %q and %q", c.name, file, former, c.wantFile, c.wantFormer)
		}
	}
}
