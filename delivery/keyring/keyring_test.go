package keyring

import (
	"errors"
	"testing"

	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

// TestSealedSecretsAreBound: a sealed secret opens for its own row and key only.
func TestSealedSecretsAreBound(t *testing.T) {
	t.Parallel()
	k := testkit.Must(New("fedcba9876543210, 0123456789abcdef"))(t)
	box := k.Seal("acme", "wh_1", "whsec_x")
	if got, err := k.Open("acme", "wh_1", box); got != "whsec_x" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := k.Open("other", "wh_1", box); err == nil {
		t.Error("a sealed secret opens in another workspace")
	}
	if _, err := k.Open("acme", "wh_2", box); err == nil {
		t.Error("a sealed secret opens for another webhook")
	}
	older := testkit.Must(New("0123456789abcdef"))(t)
	if _, err := older.Open("acme", "wh_1", box); !errors.Is(err, ErrUnknownKey) {
		t.Errorf("another key: %v", err)
	}
	if !k.Current(box) || k.Current(older.Seal("acme", "wh_1", "whsec_x")) {
		t.Error("it is not known which secrets are under the first key")
	}
	if _, err := New("short"); err == nil {
		t.Error("a short key was taken")
	}
}
