package signingkey_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/ledgerfeed/ledgerfeed/internal/signingkey"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

// TestKeysUnderAnotherName: a service's keys are those of its other names, and keys of other
// hosts are not taken.
func TestKeysUnderAnotherName(t *testing.T) {
	t.Parallel()
	keys, _ := made(t, 2)
	foreign, _ := made(t, 1)
	const events = "api.example.com/acme/events"
	text := "# keys\n\n" + strings.Join(testkit.Must(keys.Verifiers(name))(t), "\n") + "\n" + testkit.Must(foreign.Verifiers("other.example.com/x"))(t)[0]
	got := testkit.Must(signingkey.ForName(text, events))(t)
	if want := testkit.Must(keys.Verifiers(events))(t); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	for _, c := range []struct{ text, name, want string }{
		{text, "third.example.com/acme/events", "none of the verifier keys is of third.example.com"},
		{text, "api.example.com/a b", "no name of a key"},
		{"nonsense", events, "is no verifier key"},
		{"", events, "there is no verifier key"},
	} {
		if _, err := signingkey.ForName(c.text, c.name); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q for %s: %v, want %q", c.text, c.name, err, c.want)
		}
	}
}
