package web

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func colour(t interface{ Fatal(...any) }, text string) Colour {
	var c Colour
	if err := c.UnmarshalText([]byte(text)); err != nil {
		t.Fatal(err)
	}
	return c
}

// TestEveryColourCanBeRead: whatever colour is chosen, text in it, text on it and what is
// chosen have the contrast that WCAG asks for, in both looks.
func TestEveryColourCanBeRead(t *testing.T) {
	t.Parallel()
	form := regexp.MustCompile(`--accent: (#\w{6}); --accent-strong: (#\w{6}); --on-accent: (#\w{6}); --tint: (#\w{6});`)
	rapid.Check(t, func(t *rapid.T) {
		theme := Theme{Accent: colour(t, "#"+rapid.StringMatching(`[0-9a-f]{6}`).Draw(t, "colour"))}
		found := form.FindAllStringSubmatch(string(theme.CSS()), -1)
		if len(found) != 2 {
			t.Fatalf("%s", theme.CSS())
		}
		light, dark := schemes()
		for i, s := range []scheme{light, dark} {
			accent, strong, on, tint := colour(t, found[i][1]), colour(t, found[i][2]), colour(t, found[i][3]), colour(t, found[i][4])
			for _, pair := range [][2]Colour{{accent, s.surface}, {accent, s.paper}, {accent, tint}, {on, accent}, {strong, tint}, {on, strong}} {
				if got := contrast(pair[0], pair[1]); got < 4.5 {
					t.Errorf("%s on %s has a contrast of %.2f\n%s", pair[0], pair[1], got, theme.CSS())
				}
			}
		}
	})
}

// TestColour: a colour that can be read stays as it is, and other texts are refused.
func TestColour(t *testing.T) {
	t.Parallel()
	theme := Theme{Accent: colour(t, "#1D4ED8")}
	if css := string(theme.CSS()); !strings.Contains(css, ":root { --accent: #1d4ed8;") {
		t.Error(css)
	}
	if css := (&Theme{}).CSS(); css != nil {
		t.Errorf("without a colour: %s", css)
	}
	for _, text := range []string{"", "blue", "1d4ed8", "#1d4ed", "#1d4ed88", "#1d4edg", "#+d4ed8", "#1d4;}x"} {
		if err := new(Colour).UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q is taken", text)
		}
	}
}

// TestReadLogo: only pictures are taken, of a bounded size.
func TestReadLogo(t *testing.T) {
	t.Parallel()
	png := "\x89PNG\x0d\x0a\x1a\x0a"
	for name, c := range map[string]struct{ body, typ, problem string }{
		"svg":        {`<svg xmlns="http://www.w3.org/2000/svg"></svg>`, ".svg", ""},
		"xml svg":    {`<?xml version="1.0"?><svg/>`, ".svg", ""},
		"png":        {png, ".png", ""},
		"a page":     {"<html></html>", "", "is not a picture"},
		"empty":      {"", "", "is not a picture"},
		"UTF-16":     {"\xff\xfe<\x00s\x00v\x00g\x00", "", "it is UTF-16: want UTF-8"},
		"too large":  {png + strings.Repeat("x", maxLogo), "", "more than 256 KiB"},
		"not a file": {"", "", "cannot read the logo"},
	} {
		file := filepath.Join(t.TempDir(), "logo")
		if name != "not a file" {
			if err := os.WriteFile(file, []byte(c.body), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		got, err := ReadLogo(file)
		switch {
		case c.problem != "" && (err == nil || !strings.Contains(err.Error(), c.problem) || !strings.Contains(err.Error(), file)):
			t.Errorf("%s: %v", name, err)
		case c.problem == "" && (err != nil || got.Type != c.typ || !bytes.Equal(got.Body, []byte(c.body))):
			t.Errorf("%s: %s %v", name, got.Type, err)
		}
	}
}
