package access

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/ledgerfeed/ledgerfeed/internal/brand"
)

// known is a key of an early version, which must remain valid.
const known = "service_0123456A_abcdefghijklmnopqrstuvwxyz0123453iw4p1"

func TestParseKnownKey(t *testing.T) {
	t.Parallel()
	secret, err := format(t, "SERVICE").parse(known)
	if err != nil {
		t.Fatal(err)
	}
	if secret.Prefix() != "service_0123456A" || secret.Reveal() != known || secret.Hash() != sha256.Sum256([]byte(known)) {
		t.Errorf("prefix %q, text %q, hash %x", secret.Prefix(), secret.Reveal(), secret.Hash())
	}
}

func TestBrands(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"SERVICE", "a", "Acme-Pay-2", "x9", strings.Repeat("b", 32)} {
		f := format(t, name)
		secret := generate(t, f)
		if !strings.HasPrefix(secret.Reveal(), strings.ToLower(name)+"_") {
			t.Errorf("brand %q made %s", name, secret)
		}
		if _, err := f.parse(secret.Reveal()); err != nil {
			t.Errorf("brand %q does not read its own key: %v", name, err)
		}
		if _, err := format(t, "other").parse(secret.Reveal()); !errors.Is(err, errMalformed) {
			t.Errorf("another brand reads the key of %q: %v", name, err)
		}
	}
}

func TestGeneratedForm(t *testing.T) {
	t.Parallel()
	form := regexp.MustCompile(`^service_[0-9A-Za-z]{8}_[0-9A-Za-z]{32}[0-9A-Za-z]{6}$`)
	f := format(t, "SERVICE")
	used := map[rune]bool{}
	for range 500 {
		secret := generate(t, f)
		if !form.MatchString(secret.Reveal()) {
			t.Fatalf("made %q", secret.Reveal())
		}
		for _, c := range secret.Reveal()[len(secret.Prefix()):] {
			used[c] = true
		}
	}
	if len(used) != 63 {
		t.Errorf("500 secrets use %d of 63 characters", len(used))
	}
}

func TestGenerateFailsWithItsSource(t *testing.T) {
	t.Parallel()
	broken := errors.New("no entropy")
	_, err := format(t, "SERVICE").Generate(io.MultiReader(strings.NewReader("short"), errReader{broken}))
	if !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
}

type errReader struct{ err error }

func (r errReader) Read([]byte) (int, error) { return 0, r.err }

// With any random bytes, the text of a made key is parsed to the same key.
func TestRoundTrip(t *testing.T) {
	t.Parallel()
	f := format(t, "SERVICE")
	rapid.Check(t, func(t *rapid.T) {
		secret := draw(t, f)
		got, err := f.parse(secret.Reveal())
		if err != nil || got != secret {
			t.Fatalf("Parse(%q) = %v, %v", secret.Reveal(), got, err)
		}
		if !f.LooksLikeKey(secret.Reveal()) {
			t.Fatalf("%q does not look like a key", secret.Reveal())
		}
		text := secret.Reveal()
		for _, between := range []string{"", " ", "_", "-", "%5F", ","} {
			if got := f.Redact(text + between + text); strings.Contains(got, text[len(secret.Prefix())+1:]) {
				t.Fatalf("Redact of two keys leaves %q", got)
			}
		}
	})
}

// Any one wrong character is found: a CRC-32 finds all changes within 32 neighbouring
// bits.
func TestEveryMistypedCharacterIsRefused(t *testing.T) {
	t.Parallel()
	f := format(t, "SERVICE")
	rapid.Check(t, func(t *rapid.T) {
		text := draw(t, f).Reveal()
		for i := range len(text) {
			for _, c := range []byte(digits + "_-. ") {
				if c == text[i] {
					continue
				}
				changed := text[:i] + string(c) + text[i+1:]
				if _, err := f.parse(changed); !errors.Is(err, errMalformed) {
					t.Fatalf("%q for %q is read: %v", changed, text, err)
				}
			}
		}
	})
}

func TestCutAndLengthenedKeysAreRefused(t *testing.T) {
	t.Parallel()
	f := format(t, "SERVICE")
	rapid.Check(t, func(t *rapid.T) {
		text := draw(t, f).Reveal()
		at := rapid.IntRange(0, len(text)-1).Draw(t, "at")
		for _, changed := range []string{text[:at], text[:at] + text[at+1:], text + "\n", " " + text, text + text, strings.ToUpper(text)} {
			if _, err := f.parse(changed); !errors.Is(err, errMalformed) {
				t.Fatalf("%q for %q is read: %v", changed, text, err)
			}
		}
	})
}

func TestLongerSecretsAreRead(t *testing.T) {
	t.Parallel()
	f := format(t, "SERVICE")
	for length, ok := range map[int]bool{31: false, 32: true, 33: true, 64: true, 233: true, 234: false} {
		body := "service_abcdefgh_" + strings.Repeat("x", length)
		if _, err := f.parse(body + checksum(body)); (err == nil) != ok {
			t.Errorf("a secret of %d characters: %v", length, err)
		}
	}
}

func TestLooksLikeKeyAndRedact(t *testing.T) {
	t.Parallel()
	f := format(t, "My-Brand")
	const prefix, secret = "my-brand_abcdefgh_", "0123456789012345678901234567890123456789"
	for _, c := range []struct{ text, want string }{
		{prefix + secret, prefix + "[redacted]"},
		{prefix + secret + "-" + prefix + secret + " end", prefix + "[redacted] end"},
		{"Bearer " + prefix + secret + ", then " + prefix + secret + ".", "Bearer " + prefix + "[redacted], then " + prefix + "[redacted]."},
		{"/v1/me?x=MY-Brand_abcdefgh_" + secret + "&y=1", "/v1/me?x=MY-Brand_abcdefgh_[redacted]&y=1"},
		{"x=my-brand%5Fabcdefgh%5f" + secret, "x=my-brand%5Fabcdefgh%5f[redacted]"},
	} {
		if got := f.Redact(c.text); got != c.want || !f.LooksLikeKey(c.text) {
			t.Errorf("Redact(%q) = %q, LooksLikeKey %t; want %q", c.text, got, f.LooksLikeKey(c.text), c.want)
		}
	}
	for _, text := range []string{
		"", "my-brand", prefix, prefix + secret[:37], "my-brand_abcdefg_" + secret, "service_abcdefgh_" + secret,
		"evt_0198f3a2-7c41-7b44-9d15-aaaaaaaaaaaa_wh_0198f3a2-7c41-7b44-9d15-bbbbbbbbbbbb",
	} {
		if got := f.Redact(text); got != text || f.LooksLikeKey(text) {
			t.Errorf("Redact(%q) = %q, LooksLikeKey %t", text, got, f.LooksLikeKey(text))
		}
	}
	if (Format{}).LooksLikeKey(known) || (Format{}).Redact(known) != known {
		t.Error("the zero Format finds a key")
	}
}

func TestSecretDoesNotLeak(t *testing.T) {
	t.Parallel()
	secret := generate(t, format(t, "SERVICE"))
	hiddenPart := secret.Reveal()[len(secret.Prefix())+1:]
	var out bytes.Buffer
	holder := struct{ Key Secret }{secret}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q"} {
		fmt.Fprintf(&out, verb+verb, secret, holder)
	}
	slog.New(slog.NewTextHandler(&out, nil)).Info("made", "key", secret, "holder", holder)
	slog.New(slog.NewJSONHandler(&out, nil)).Info("made", "key", secret, "holder", holder)
	if err := json.NewEncoder(&out).Encode(holder); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(out.String(), hiddenPart) || !strings.Contains(out.String(), secret.Prefix()) {
		t.Errorf("printed: %s", &out)
	}
}

func FuzzParse(f *testing.F) {
	format := NewFormat(brand.Brand{})
	f.Add(known)
	f.Add("service_abcdefgh_")
	f.Add("service__" + strings.Repeat("x", 50))
	f.Add(strings.Repeat("service_", 100))
	f.Fuzz(func(t *testing.T, text string) {
		secret, err := format.parse(text)
		if err != nil {
			if !errors.Is(err, errMalformed) || secret != (Secret{}) {
				t.Fatalf("Parse(%q) = %v, %v", text, secret, err)
			}
		} else if secret.Reveal() != text || !strings.HasPrefix(text, secret.Prefix()+"_") || !format.LooksLikeKey(text) {
			t.Fatalf("Parse(%q) = %q, prefix %q", text, secret.Reveal(), secret.Prefix())
		}
		if redacted := format.Redact(text); format.LooksLikeKey(redacted) || (redacted != text) != format.LooksLikeKey(text) {
			t.Fatalf("Redact(%q) = %q", text, redacted)
		}
	})
}

func generate(t *testing.T, f Format) Secret {
	t.Helper()
	secret, err := f.Generate(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return secret
}

// draw makes a key from drawn bytes, followed by enough that are not dropped.
func draw(t *rapid.T, f Format) Secret {
	random := rapid.SliceOfN(rapid.Byte(), 200, 200).Draw(t, "random")
	secret, err := f.Generate(io.MultiReader(bytes.NewReader(random), bytes.NewReader(make([]byte, 500))))
	if err != nil {
		t.Fatal(err)
	}
	return secret
}
