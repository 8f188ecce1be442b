package localpg

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestDirectoryUnderAPrivateHome is the common case of root in /root: the
// server's account cannot get there. An ordinary user is its own server's
// account and stays where it is.
func TestDirectoryUnderAPrivateHome(t *testing.T) {
	t.Parallel()
	base := filepath.Dir(dataDir(t))
	home := filepath.Join(base, "home")
	if err := os.Mkdir(home, 0o700); err != nil {
		t.Fatal(err)
	}
	opts := defaultOptions()
	opts.roots.dir = filepath.Join(base, "substitutes")
	var log bytes.Buffer
	cfg := throwaway(filepath.Join(home, "work", ".ledgerfeed"))
	cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))

	s := mustOpenWith(t, cfg, opts)
	query(t, s.URL(), "select 1")
	if os.Geteuid() != 0 {
		if s.DataDir() != cfg.DataDir || log.Len() != 0 {
			t.Errorf("data in %s, log %q; want it in %s and silence", s.DataDir(), log.String(), cfg.DataDir)
		}
		return
	}
	if filepath.Dir(s.DataDir()) != opts.roots.dir {
		t.Errorf("data in %s, want it in %s", s.DataDir(), opts.roots.dir)
	}
	wantContains(t, log.String(), "level=WARN", s.DataDir(), cfg.DataDir)
	if b := mustOpenWith(t, cfg, opts); b.URL() != s.URL() {
		t.Error("the second time another directory is used")
	}
	cfg.DataDir += "2"
	if c := mustOpenWith(t, cfg, opts); c.URL() == s.URL() {
		t.Error("two wanted directories share a substitute")
	}
	if _, err := os.Stat(filepath.Join(home, "work")); !os.IsNotExist(err) {
		t.Errorf("something was made in the private home: %v", err)
	}
}

func TestMayEnter(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	uid, gid := os.Geteuid(), os.Getegid()
	stranger := account{uid: uid + 1000, gid: gid + 1000}
	member := account{uid: uid + 1000, gid: gid}
	for _, c := range []struct {
		mode os.FileMode
		a    account
		want bool
	}{
		{0o700, stranger, false},
		{0o750, stranger, false},
		{0o751, stranger, true},
		{0o754, stranger, false}, // may list, not enter
		{0o710, member, true},
		{0o701, member, false}, // the group's bit decides for a member
	} {
		if err := os.Chmod(dir, c.mode); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(dir)
		if err != nil {
			t.Fatal(err)
		}
		if got := c.a.may(info, 1); got != c.want {
			t.Errorf("mode %o, account %+v: may enter = %v", c.mode, c.a, got)
		}
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if stranger.mayReach(filepath.Join(dir, "new", "below")) {
		t.Error("a stranger reaches what is below a private directory")
	}
}

func TestStableName(t *testing.T) {
	t.Parallel()
	names := map[string]string{}
	for _, path := range []string{"/root/.ledgerfeed", "/root/ledgerfeed", "/root/a/.ledgerfeed", "/", "/ünï", "/" + strings.Repeat("x/", 200)} {
		name := stableName(path)
		if name != stableName(path) || len(name) > 60 || strings.ContainsAny(name, "/. ") || strings.HasPrefix(name, "-") && path == "/root" {
			t.Errorf("stableName(%q) = %q", path, name)
		}
		if other, taken := names[name]; taken {
			t.Errorf("%q and %q share the name %q", path, other, name)
		}
		names[name] = path
	}
}

func TestNoAccountForRoot(t *testing.T) {
	t.Parallel()
	r := rootRules{accounts: []string{"no-such-account"}, dir: dataDir(t)}
	_, err := r.serverAccount(filepath.Join(r.dir, "nothing here"))
	if err == nil {
		t.Fatal("an account was found")
	}
	wantContains(t, err.Error(), "no-such-account", "refuses to run as root")
}
