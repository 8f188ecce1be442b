package localpg

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/ledgerfeed/ledgerfeed/internal/datadir"
)

// mustRefuse opens a server that must be refused with these words.
func mustRefuse(t *testing.T, dir string, words ...string) {
	t.Helper()
	s, err := Open(testContext(t), throwaway(dir))
	if err == nil {
		mustClose(t, s)
		t.Fatalf("%s was opened", dir)
	}
	wantContains(t, err.Error(), words...)
}

func TestWritableDirectoryIsRefused(t *testing.T) {
	t.Parallel()
	dir := dataDir(t)
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	mustRefuse(t, dir, dir, "can be written to by other accounts", "0777", "chmod go-w")
}

// TestDirectoryOfAnOlderVersionOpens: it has rules that trust everybody, and other
// owners and modes.
func TestDirectoryOfAnOlderVersionOpens(t *testing.T) {
	t.Parallel()
	dir := dataDir(t)
	s := mustOpen(t, Config{DataDir: dir})
	exec1(t, s.URL(), "create table kept as select 7 as v")
	account := s.place.account
	mustClose(t, s)
	cluster := filepath.Join(dir, clusterName)
	for _, name := range []string{hbaName, identName} {
		if err := os.Remove(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range map[string]string{
		filepath.Join(cluster, "pg_hba.conf"): "local all all trust\n", filepath.Join(dir, "keeper.lock"): "1\n", filepath.Join(dir, "keeper.log"): "",
	} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if account.other() {
		if err := os.Lchown(dir, 0, 0); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(dir, 0o711); err != nil {
			t.Fatal(err)
		}
	}
	s = mustOpen(t, Config{DataDir: dir})
	if got := query(t, s.URL(), "select v from kept"); got != "7" {
		t.Errorf("read %s back, want 7", got)
	}
	if got := query(t, s.URL(), "select count(*) from pg_hba_file_rules where auth_method <> 'peer'"); got != "0" {
		t.Errorf("%s rules of other kinds", got)
	}
	if account.other() {
		info, err := os.Stat(dir)
		if err != nil {
			t.Fatal(err)
		}
		if _, gid := datadir.OwnerOf(info); info.Mode().Perm() != 0o710 || gid != account.gid {
			t.Errorf("the directory has mode %v and group %d, want 0710 and %d", info.Mode(), gid, account.gid)
		}
	}
}
