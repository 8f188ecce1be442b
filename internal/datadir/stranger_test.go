//go:build outside && unix

package datadir

import (
	"os"
	"path/filepath"
	"testing"
)

// stranger is an account that only root can give files to.
const stranger = 65533

func giveAway(t *testing.T, path string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Fatal("only root can give files away")
	}
	if err := os.Lchown(path, stranger, stranger); err != nil {
		t.Fatal(err)
	}
}

func TestAStrangersDirectoryIsRefused(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "dir")
	mustMake(t, path)
	giveAway(t, path)
	_, err := Make(path)
	wantRefusal(t, err, path, "belongs to the account 65533", "runs as root", "chown", "LEDGERFEED_DATA_DIR")
}

func TestAStrangersLinkIsRefused(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	mustMake(t, filepath.Join(base, "real"))
	link := filepath.Join(base, "link")
	if err := os.Symlink("real", link); err != nil {
		t.Fatal(err)
	}
	giveAway(t, link)
	_, err := Resolve(filepath.Join(link, "below"))
	wantRefusal(t, err, link, "belongs to the account 65533")
}

func TestAStrangersFileIsRefused(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "dir")
	dir := mustMake(t, path)
	if err := dir.WriteFile("key", []byte("text")); err != nil {
		t.Fatal(err)
	}
	giveAway(t, filepath.Join(path, "key"))
	_, err := dir.ReadFile("key")
	wantRefusal(t, err, filepath.Join(path, "key"), "belongs to the account 65533")
}
