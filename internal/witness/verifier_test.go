package witness_test

import (
	"strings"
	"testing"

	"golang.org/x/mod/sumdb/note"

	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
	"github.com/ledgerfeed/ledgerfeed/internal/witness"
	"github.com/ledgerfeed/ledgerfeed/internal/witness/witnesstest"
)

// TestVerifierKeys: a key has one text, and a changed or secret one is refused without
// repeating the secret.
func TestVerifierKeys(t *testing.T) {
	t.Parallel()
	key := witnesstest.New(t, name).VerifierKey
	if v := testkit.Must(witness.ParseVerifier(key))(t); v.Name() != name || !strings.HasPrefix(key, name+"+") {
		t.Errorf("%s is read as the key %s", key, v.Name())
	}
	secret, ofLog, err := note.GenerateKey(nil, name)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ text, want string }{
		{secret, "secret"}, {"nonsense", "no verifier key of a witness"}, {ofLog, "of another kind (1)"}, {key[:len(key)-4], "no verifier key of a witness"},
		{strings.Replace(key, name, "other", 1), "no verifier key of a witness"}, {strings.Replace(key, name, "a b", 1), "no verifier key"}, {"", "no verifier key"},
	} {
		if _, err := witness.ParseVerifier(c.text); err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), secret[len(secret)-20:]) {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
}
