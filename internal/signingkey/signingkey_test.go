package signingkey_test

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/mod/sumdb/note"

	"github.com/ledgerfeed/ledgerfeed/internal/signingkey"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

const name = "api.example.com/acme/events"

// made makes keys; each text is one of them.
func made(t *testing.T, n int) (keys *signingkey.Keys, texts []string) {
	t.Helper()
	for range n {
		texts = append(texts, testkit.Must(signingkey.New(rand.Reader))(t))
	}
	return testkit.Must(signingkey.Parse(strings.Join(texts, ", ")))(t), texts
}

func verifiers(t *testing.T, list ...string) *signingkey.Verifiers {
	t.Helper()
	return testkit.Must(signingkey.ParseVerifiers(strings.Join(list, "\n")))(t)
}

// TestNotesAreThoseOfTheGoTeam: what is signed is opened with the package of the checksum
// database, under any name, and the other way round.
func TestNotesAreThoseOfTheGoTeam(t *testing.T) {
	t.Parallel()
	keys, _ := made(t, 1)
	for _, name := range []string{name, "127.0.0.1:8080/acme/events", "[::1]:80/x"} {
		text := name + "\nand a text\n"
		signed := testkit.Must(keys.Sign(name, text))(t)
		key := testkit.Must(note.NewVerifier(testkit.Must(keys.Verifiers(name))(t)[0]))(t)
		opened := testkit.Must(note.Open(signed, note.VerifierList(key)))(t)
		if opened.Text != text || len(opened.Sigs) != 1 || opened.Sigs[0].Name != name {
			t.Errorf("%+v", opened)
		}
	}
	private, public, err := note.GenerateKey(rand.Reader, "made.elsewhere")
	if err != nil {
		t.Fatal(err)
	}
	if got := testkit.Must(testkit.Must(signingkey.Parse(private))(t).Verifiers("made.elsewhere"))(t); got[0] != public {
		t.Errorf("a key that was made elsewhere has the verifier key %s, want %s", got[0], public)
	}
}

// TestEveryChangeIsRefused: a note of which any one byte is another, is missing, or stands
// there twice is refused.
func TestEveryChangeIsRefused(t *testing.T) {
	t.Parallel()
	keys, _ := made(t, 1)
	signed := testkit.Must(keys.Sign(name, name+"\nsequence 1-20\n\na paragraph\n"))(t)
	check := verifiers(t, testkit.Must(keys.Verifiers(name))(t)...)
	if _, err := check.Check(signed); err != nil {
		t.Fatal(err)
	}
	refused := 0
	for i := range signed {
		for b := range 256 {
			if byte(b) == signed[i] {
				continue
			}
			changed := bytes.Clone(signed)
			changed[i] = byte(b)
			if _, err := check.Check(changed); err == nil {
				t.Fatalf("byte %d (%q) may be %q", i, signed[i], byte(b))
			}
			refused++
		}
		for _, changed := range [][]byte{append(bytes.Clone(signed[:i]), signed[i+1:]...), append(append(bytes.Clone(signed[:i+1]), signed[i]), signed[i+1:]...)} {
			if _, err := check.Check(changed); err == nil {
				t.Fatalf("byte %d (%q) may be left out or doubled: %q", i, signed[i], changed)
			}
		}
	}
	if refused != 255*len(signed) {
		t.Errorf("%d changes were tried", refused)
	}
}

// TestBothKeysSign: during a rotation each of the two keys is enough to check with; a
// third one is not.
func TestBothKeysSign(t *testing.T) {
	t.Parallel()
	keys, texts := made(t, 2)
	signed := testkit.Must(keys.Sign(name, name+"\n"))(t)
	if n := bytes.Count(signed, []byte("\n— "+name+" ")); n != 2 {
		t.Fatalf("%d signatures:\n%s", n, signed)
	}
	for i, key := range testkit.Must(keys.Verifiers(name))(t) {
		alone := testkit.Must(testkit.Must(signingkey.Parse(texts[i]))(t).Verifiers(name))(t)
		checked, err := verifiers(t, key).Check(signed)
		if err != nil || alone[0] != key || len(checked.By) != 1 || !strings.HasPrefix(key, checked.By[0]+"+") {
			t.Errorf("key %d: %+v, %v", i, checked, err)
		}
	}
	if checked, err := verifiers(t, testkit.Must(keys.Verifiers(name))(t)...).Check(signed); err != nil || len(checked.By) != 2 {
		t.Errorf("%+v, %v", checked, err)
	}
	third, _ := made(t, 1)
	if _, err := verifiers(t, testkit.Must(third.Verifiers(name))(t)...).Check(signed); err == nil || !strings.Contains(err.Error(), "it says that these did: "+name) {
		t.Error(err)
	}
}

// TestNamesAreKeptApart: the first line of what is signed is the name of its key, so that a
// note is not taken for one of another kind, whose keys have the same public part.
func TestNamesAreKeptApart(t *testing.T) {
	t.Parallel()
	keys, _ := made(t, 1)
	if signed, err := keys.Sign(name, "api.example.com/other/events\n"); err == nil {
		t.Errorf("signed: %s", signed)
	}
	// A signature does not cover the name of its key.
	signed := string(testkit.Must(keys.Sign(name, name+"\n"))(t))
	const other = "api.example.com/other/events"
	key := testkit.Must(keys.Verifiers(other))(t)[0]
	_, signature, _ := strings.Cut(strings.TrimSuffix(signed, "\n"), "— "+name+" ")
	raw := testkit.Must(base64.StdEncoding.DecodeString(signature))(t)
	hash := strings.Split(key, "+")[1]
	forged := name + "\n\n— " + other + " " + base64.StdEncoding.EncodeToString(append(fromHex(t, hash), raw[4:]...)) + "\n"
	if _, err := note.Open([]byte(forged), note.VerifierList(testkit.Must(note.NewVerifier(key))(t))); err != nil {
		t.Fatalf("the forged note is not one: %v", err)
	}
	if _, err := verifiers(t, key).Check([]byte(forged)); err == nil || !strings.Contains(err.Error(), "its first line is not that name") {
		t.Error(err)
	}
}

func fromHex(t *testing.T, text string) []byte {
	t.Helper()
	var b []byte
	for i := 0; i < len(text); i += 2 {
		b = append(b, byte(strings.IndexByte("0123456789abcdef", text[i])<<4|strings.IndexByte("0123456789abcdef", text[i+1])))
	}
	return b
}

// TestWrongKeys: what is no key is refused in words, without the secret.
func TestWrongKeys(t *testing.T) {
	t.Parallel()
	_, texts := made(t, 2)
	texts = append(texts, testkit.Must(signingkey.New(rand.Reader))(t))
	secret := strings.SplitN(texts[0], "+", 5)[4]
	changed := "A"
	if secret[8:9] == changed {
		changed = "B"
	}
	for text, want := range map[string]string{
		"":                         "begins with PRIVATE+KEY+",
		"a text":                   "begins with PRIVATE+KEY+",
		texts[0][:len(texts[0])-5]: "changed or cut short",
		strings.Replace(texts[0], secret, secret[:8]+changed+secret[9:], 1): "changed or cut short",
		texts[0] + "," + texts[0]: "twice",
		strings.Join(texts, ","):  "3 signing keys",
		texts[0] + ",":            "begins with PRIVATE+KEY+",
		testkit.Must(testkit.Must(signingkey.Parse(texts[0]))(t).Verifiers("x"))(t)[0]: "begins with PRIVATE+KEY+",
	} {
		if k, err := signingkey.Parse(text); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), secret[:12]) {
			t.Errorf("%q: %v, %v; want %q", text, k, err, want)
		}
	}
	for text, want := range map[string]string{
		"":                   "there is no verifier key",
		"# only a comment\n": "there is no verifier key",
		"\n\nx":              "line 3 is no verifier key",
		"# a\n" + texts[0]:   "line 2 is a signing key, which is secret",
	} {
		if _, err := signingkey.ParseVerifiers(text); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), secret[:12]) {
			t.Errorf("%q: %v; want %q", text, err, want)
		}
	}
	keys := testkit.Must(signingkey.Parse(texts[0]))(t)
	for _, name := range []string{"", "a name", "a+b", "a\n"} {
		if _, err := keys.Verifiers(name); err == nil {
			t.Errorf("%q is a name", name)
		}
		if signed, err := keys.Sign(name, name+"\n"); err == nil {
			t.Errorf("%q is a name: %s", name, signed)
		}
	}
}

// TestHost: the names of notes begin with the host of the API's address.
func TestHost(t *testing.T) {
	t.Parallel()
	for base, want := range map[string]string{
		"https://API.example.com": "api.example.com", "http://127.0.0.1:8080": "127.0.0.1:8080", "https://example.com/api": "example.com", "http://[::1]:80": "[::1]:80",
	} {
		if got := testkit.Must(signingkey.Host(base))(t); got != want {
			t.Errorf("%s: %s", base, got)
		}
	}
	if _, err := signingkey.Host("nonsense"); err == nil {
		t.Error("nonsense has a host")
	}
}

// TestOpenSSLChecksANote: the way by hand that the documentation tells.
func TestOpenSSLChecksANote(t *testing.T) {
	t.Parallel()
	keys, _ := made(t, 1)
	text := name + "\nday 2026-11-22\n"
	signed := string(testkit.Must(keys.Sign(name, text))(t))
	_, last, _ := strings.Cut(signed, "\n\n— "+name+" ")
	raw := testkit.Must(base64.StdEncoding.DecodeString(strings.TrimSpace(last)))(t)
	dir := t.TempDir()
	verify := func(text string) error {
		for file, content := range map[string]string{"key.pem": keys.Public()[0].PEM(), "text": text, "signature": string(raw[4:])} {
			if err := os.WriteFile(filepath.Join(dir, file), []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		cmd := exec.CommandContext(t.Context(), "openssl", "pkeyutl", "-verify", "-pubin", "-inkey", "key.pem", "-rawin", "-in", "text", "-sigfile", "signature")
		cmd.Dir = dir
		return cmd.Run()
	}
	if err := verify(text); err != nil {
		t.Errorf("openssl refuses it: %v", err)
	}
	if err := verify(strings.Replace(text, "22", "23", 1)); err == nil {
		t.Error("openssl takes another text")
	}
}
