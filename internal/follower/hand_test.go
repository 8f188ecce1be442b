//go:build outside

package follower_test

import (
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/ledgerfeed/ledgerfeed/internal/follower/followertest"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

// TestCheckByHand runs the program of docs/proof.md: it accepts a real note with its tiles and
// events, and nothing of which one bit is another.
func TestCheckByHand(t *testing.T) {
	t.Parallel()
	page := string(testkit.Must(os.ReadFile(filepath.Join("..", "..", "docs", "proof.md")))(t))
	_, rest, found := strings.Cut(page, "```python\n")
	program, _, ended := strings.Cut(rest, "```\n")
	if lines := strings.Count(program, "\n"); !found || !ended || lines > 60 {
		t.Fatalf("the program has %d lines, at most 60", lines)
	}
	const size, first = 600, 250
	s := followertest.New(t)
	feed := followertest.Some(size)
	folder := t.TempDir()
	files := []string{"check.py", "note", "events", "000", "001", "002.p"}
	texts := []string{program, s.Sign(s.Origin, feed.Checkpoint(s.Origin, size)), feed.Lines(350)[len(feed.Lines(first)):], tile(t, feed, "000"), tile(t, feed, "001"), tile(t, feed, "002.p/88")}
	for i, name := range files {
		write(t, filepath.Join(folder, name), texts[i])
	}
	check := func(key string) (string, error) {
		c := exec.CommandContext(t.Context(), "python3", "check.py", "note", key, strconv.Itoa(first), "events", "000", "001", "002.p")
		c.Dir = folder
		said, err := c.CombinedOutput()
		return string(said), err
	}
	if said, err := check(s.Keys()); err != nil || said != "100 events from index 250 on are in "+s.Origin+" of size 600\n" {
		t.Fatalf("%v: %s", err, said)
	}
	if said, err := check(followertest.New(t).KeysFor(s.Origin)); err == nil {
		t.Errorf("with another key: %s", said)
	}
	random := rand.New(rand.NewPCG(1, 19))
	for i := 1; i < len(files); i++ {
		for range 4 {
			changed := flipped(random, texts[i])
			write(t, filepath.Join(folder, files[i]), changed)
			if said, err := check(s.Keys()); err == nil {
				t.Errorf("%s with another bit: %s\n%q", files[i], said, changed)
			}
		}
		write(t, filepath.Join(folder, files[i]), texts[i])
	}
}

func tile(t *testing.T, feed *followertest.Feed, number string) string {
	t.Helper()
	data, found := feed.Tile("tile/0/"+number, 600)
	if !found {
		t.Fatalf("there is no tile %s", number)
	}
	return data
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
