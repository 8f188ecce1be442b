package reference_test

import (
	"crypto/rand"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/html"

	"github.com/ledgerfeed/ledgerfeed/internal/signingkey"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
	"github.com/ledgerfeed/ledgerfeed/readapi/reference"
)

func signingKeys(t *testing.T, n int) *signingkey.Keys {
	t.Helper()
	var texts []string
	for range n {
		texts = append(texts, testkit.Must(signingkey.New(rand.Reader))(t))
	}
	return testkit.Must(signingkey.Parse(strings.Join(texts, ",")))(t)
}

// keysPage is the page about keys.
func keysPage(t *testing.T, keys *signingkey.Keys) []byte {
	t.Helper()
	list := testkit.Must(reference.Pages(info(), keys, reference.Under(reference.Root)))(t)
	return list[slices.IndexFunc(list, func(p *reference.Page) bool { return "/"+reference.Under(reference.Root)(p.Path) == reference.KeysPath })].HTML
}

// TestKeysPage: the page and its plain form have the verifier keys of the keys that sign,
// in their order, and say so where there are none.
func TestKeysPage(t *testing.T) {
	t.Parallel()
	for n := range 3 {
		var keys *signingkey.Keys
		var want []string
		if n > 0 {
			keys = signingKeys(t, n)
			want = testkit.Must(keys.Verifiers("api.example.com"))(t)
		}
		page := inspect(t, keysPage(t, keys))
		text := string(testkit.Must(reference.KeysText(info(), keys))(t))
		var lines []string
		for line := range strings.Lines(text) {
			if !strings.HasPrefix(line, "#") {
				lines = append(lines, strings.TrimSpace(line))
			}
		}
		if strings.Join(lines, " ") != strings.Join(want, " ") {
			t.Errorf("%d keys in plain text:\n%s", n, text)
		}
		if n == 0 {
			if !strings.Contains(page.text["keys"], "has no signing key") || !strings.Contains(text, "There are none") {
				t.Errorf("no keys: %s\n%s", page.text["keys"], text)
			}
			continue
		}
		for i, p := range keys.Public() {
			for _, w := range []string{want[i], p.String(), strings.Join(strings.Fields(p.PEM()), " ")} {
				if !strings.Contains(page.text["keys"], w) {
					t.Errorf("the page does not say %q: %s", w, page.text["keys"])
				}
			}
		}
		if strings.Contains(page.text["keys"], "is replacing its key") != (n == 2) {
			t.Errorf("%d keys: %s", n, page.text["keys"])
		}
		for _, name := range []string{"api.example.com/<workspace>/events", "api.example.com/<workspace>/events-with-pay"} {
			if !strings.Contains(page.text["feeds"], name) || !strings.Contains(text, name) {
				t.Errorf("the name %s is missing: %s\n%s", name, page.text["feeds"], text)
			}
		}
	}
}

// TestCheckByHand: what the page tells people to type checks a checkpoint, and refuses
// another.
func TestCheckByHand(t *testing.T) {
	t.Parallel()
	keys := signingKeys(t, 1)
	const name = "api.example.com/acme/events"
	checkpoint := string(testkit.Must(keys.Sign(name, name+"\n1042\nday 2026-11-22\n"))(t))
	root := testkit.Must(html.Parse(strings.NewReader(string(keysPage(t, keys)))))(t)
	var typed string
	for n := range root.Descendants() {
		for _, a := range n.Attr {
			if a.Key == "id" && a.Val == "by-hand" {
				typed = n.FirstChild.FirstChild.Data
			}
		}
	}
	run := func(checkpoint string) (string, error) {
		dir := t.TempDir()
		for file, text := range map[string]string{"checkpoint.txt": checkpoint, "key.pem": keys.Public()[0].PEM()} {
			if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		cmd := exec.CommandContext(t.Context(), "sh", "-e", "-c", typed)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	if out, err := run(checkpoint); err != nil || !strings.Contains(out, "Verified Successfully") {
		t.Errorf("%v: %s", err, out)
	}
	if out, err := run(strings.Replace(checkpoint, "22", "23", 1)); err == nil {
		t.Errorf("another checkpoint is taken: %s", out)
	}
}
