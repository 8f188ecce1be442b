package witness_test

import (
	"crypto/rand"
	"strings"
	"testing"

	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
	"github.com/ledgerfeed/ledgerfeed/internal/witness"
)

// TestKeys: each key has one text, and what was changed is refused without repeating it.
func TestKeys(t *testing.T) {
	t.Parallel()
	key := testkit.Must(witness.NewKey(rand.Reader, name))(t)
	if again := testkit.Must(witness.ParseKey(key.Text() + "\n"))(t); again.Text() != key.Text() || again.VerifierKey() != key.VerifierKey() {
		t.Error("it is read as another key")
	}
	if v := testkit.Must(witness.ParseVerifier(key.VerifierKey()))(t); v.Name() != name || v.KeyHash() != key.KeyHash() {
		t.Errorf("%s %x", v.Name(), v.KeyHash())
	}
	text := key.Text()
	secret := strings.SplitN(text, "+", 5)[4] // which may have a plus in it
	for _, wrong := range []string{
		"", "PRIVATE+KEY+", text[:len(text)-4], strings.Replace(text, name, "other", 1), key.VerifierKey(),
		strings.Replace(text, "PRIVATE", "SECRET", 1), strings.Replace(text, name, "a b", 1),
	} {
		if _, err := witness.ParseKey(wrong); err == nil || strings.Contains(err.Error(), secret) {
			t.Errorf("%v", err)
		}
	}
	ofLog := testkit.Must(newKeys(t).Verifiers(name))(t)[0]
	for _, c := range []struct{ text, want string }{
		{text, "secret"}, {"nonsense", "no verifier key of a witness"}, {ofLog, "of another kind (1)"},
		{strings.Replace(key.VerifierKey(), name, "other", 1), "no verifier key of a witness"}, {"", "no verifier key"},
	} {
		if _, err := witness.ParseVerifier(c.text); err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), secret) {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
	for _, wrong := range []string{"", "a b", "a+b", "a\nb", "a\x00b", "\xff", strings.Repeat("x", 256)} {
		if _, err := witness.NewKey(rand.Reader, wrong); err == nil {
			t.Errorf("%q is a name", wrong)
		}
	}
}
