package brand

import (
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"SERVICE", "a", "Acme-Pay-2", "x9", strings.Repeat("b", 32)} {
		b, err := Parse(text)
		if err != nil {
			t.Errorf("brand %q: %v", text, err)
		}
		if b.String() != text || b.KeyPrefix() != strings.ToLower(text) {
			t.Errorf("brand %q: String %q, KeyPrefix %q", text, b, b.KeyPrefix())
		}
	}
	for _, text := range []string{"", "9a", "-a", "a_b", "a b", "é", "a.b", "a\n", strings.Repeat("b", 33)} {
		if _, err := Parse(text); err == nil || !strings.Contains(err.Error(), "want a letter") {
			t.Errorf("brand %q: %v, want an error that says the form", text, err)
		}
	}
}

func TestAWrongBrandChangesNothing(t *testing.T) {
	t.Parallel()
	var b Brand
	if err := b.UnmarshalText([]byte("Acme")); err != nil || b.SignatureHeader() != "Acme-Signature" {
		t.Errorf("%v, %s", err, b.SignatureHeader())
	}
	if err := b.UnmarshalText([]byte("9x")); err == nil || b.String() != "Acme" {
		t.Errorf("%v, %s: a wrong brand must change nothing", err, b)
	}
}
