//go:build outside

package localpg

import (
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// another is the credential of another account, which only root can take on.
func another(t *testing.T, name string) *syscall.Credential {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Fatal("only root can act as another account")
	}
	u, err := user.Lookup(name)
	if err != nil {
		t.Fatal(err)
	}
	uid, err1 := strconv.Atoi(u.Uid)
	gid, err2 := strconv.Atoi(u.Gid)
	if err1 != nil || err2 != nil {
		t.Fatalf("ids of %s: %s, %s", name, u.Uid, u.Gid)
	}
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
}

func chown(t *testing.T, path string, c *syscall.Credential) {
	t.Helper()
	if err := os.Lchown(path, int(c.Uid), int(c.Gid)); err != nil {
		t.Fatal(err)
	}
}

func TestAnotherAccountsDirectoryIsRefused(t *testing.T) {
	t.Parallel()
	nobody := another(t, "nobody")
	dir := dataDir(t)
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	chown(t, dir, nobody)
	// What they put there, a server that answers among it, does not matter.
	run := filepath.Join(dir, runName)
	if err := os.Mkdir(run, 0o777); err != nil {
		t.Fatal(err)
	}
	chown(t, run, nobody)
	h := startHelper(t, listenEnv, filepath.Join(run, ".s.PGSQL.5432"), nobody)
	if r := h.report(t); r.Error != "" {
		t.Fatal(r.Error)
	}
	mustRefuse(t, dir, dir, "belongs to the account nobody", "chown", "LEDGERFEED_DATA_DIR")
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("something was made in the directory: %v, %v", left, err)
	}
}

func TestUsersCannotJoinRootsServer(t *testing.T) {
	t.Parallel()
	nobody := another(t, "nobody")
	dir := dataDir(t)
	mustOpen(t, throwaway(dir))
	h := startHelper(t, openEnv, `{"DataDir":"`+dir+`"}`, nobody)
	wantContains(t, h.report(t).Error, dir, "belongs to the account root", "runs as nobody")
}

func TestPlantedLinkIsRefused(t *testing.T) {
	t.Parallel()
	nobody := another(t, "nobody")
	real := dataDir(t)
	mustClose(t, mustOpen(t, throwaway(real)))
	link := filepath.Join(filepath.Dir(real), "link")
	if err := os.Symlink(real, link); err != nil {
		t.Fatal(err)
	}
	chown(t, link, nobody)
	mustRefuse(t, link, link, "belongs to the account nobody")
	mustRefuse(t, filepath.Join(link, "below"), link, "belongs to the account nobody")
}

func TestPlantedFilesAreRefused(t *testing.T) {
	t.Parallel()
	nobody := another(t, "nobody")
	dir := dataDir(t)
	mustClose(t, mustOpen(t, throwaway(dir)))
	for _, name := range []string{lockName, serverLogName, runName} {
		path := filepath.Join(dir, name)
		chown(t, path, nobody)
		mustRefuse(t, dir, path, "nobody")
		if err := os.RemoveAll(path); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink("/etc", path); err != nil {
			t.Fatal(err)
		}
		mustRefuse(t, dir, path)
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
}

// TestExchangeableDirectoryIsRefused: the server's account must not be able to put
// another data directory in the place of root's.
func TestExchangeableDirectoryIsRefused(t *testing.T) {
	t.Parallel()
	dir := dataDir(t)
	another(t, "nobody")
	p, err := defaultRootRules().resolve(dir)
	if err != nil {
		t.Fatal(err)
	}
	chown(t, filepath.Dir(dir), &syscall.Credential{Uid: uint32(p.account.uid), Gid: 0})
	mustRefuse(t, dir, filepath.Dir(dir), p.account.name, "LEDGERFEED_DATA_DIR")
}

// TestImpostorIsNotJoined: behind the socket is a server of another account.
func TestImpostorIsNotJoined(t *testing.T) {
	t.Parallel()
	daemon := another(t, "daemon")
	dir := dataDir(t)
	s := mustOpen(t, throwaway(dir)) // its lock keeps others from starting a server
	run := s.place.runDir()
	if err := os.Rename(run, run+".real"); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(run, 0o700); err != nil {
		t.Fatal(err)
	}
	chown(t, run, daemon)
	daemon.Gid = uint32(s.place.account.gid) // or it could not reach the place
	h := startHelper(t, listenEnv, filepath.Join(run, ".s.PGSQL.5432"), daemon)
	if r := h.report(t); r.Error != "" {
		t.Fatal(r.Error)
	}
	mustRefuse(t, dir, "is run by uid "+strconv.Itoa(int(daemon.Uid)), "nothing is sent")
}

// TestOnlyTheStarterIsLetIn: neither the account that the server runs under nor
// another one can connect or read, even if it gets at the socket.
func TestOnlyTheStarterIsLetIn(t *testing.T) {
	t.Parallel()
	for _, server := range []string{"postgres", "nobody"} {
		t.Run(server, func(t *testing.T) {
			t.Parallel()
			account := another(t, server)
			opts := defaultOptions()
			opts.roots.accounts = []string{server}
			dir := dataDir(t)
			s := mustOpenWith(t, throwaway(dir), opts)
			url := s.URL()
			if rules := query(t, url, "select string_agg(concat_ws(' ', type, database, user_name, auth_method, options), ', ') from pg_hba_file_rules"); rules != "local {all} {all} peer {map=ledgerfeed}" {
				t.Errorf("the rules are %s", rules)
			}
			query(t, url, "select 1")
			for _, name := range []string{server, "daemon"} {
				h := startHelper(t, dialEnv, url, another(t, name))
				wantContains(t, h.report(t).Error, "permission denied")
			}
			// Other processes of the account are not in the server's group. If they were:
			account.Gid = uint32(s.place.account.gid)
			h := startHelper(t, dialEnv, url, account)
			wantContains(t, h.report(t).Error, `Peer authentication failed for user "ledgerfeed"`)
		})
	}
}

// TestUsersServerIsTheUsersOwn: a server that an ordinary user started lets in
// neither other users nor root.
func TestUsersServerIsTheUsersOwn(t *testing.T) {
	t.Parallel()
	daemon := another(t, "daemon")
	dir := dataDir(t)
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	chown(t, dir, daemon)
	h := startHelper(t, openEnv, `{"DataDir":"`+dir+`","Throwaway":true}`, daemon)
	r := h.report(t)
	if r.Error != "" || !r.Owner {
		t.Fatalf("the user's own: %+v", r)
	}
	wantContains(t, startHelper(t, dialEnv, r.URL, another(t, "nobody")).report(t).Error, "permission denied")
	wantContains(t, startHelper(t, dialEnv, r.URL, &syscall.Credential{}).report(t).Error, `Peer authentication failed for user "ledgerfeed"`)
	if r := startHelper(t, dialEnv, r.URL, daemon).report(t); r.Error != "" {
		t.Errorf("the user: %s", r.Error)
	}
	h.leave(t)
}

// TestServersFilesAreClosed: other processes of the server's account can neither
// read its data nor look into its processes, because they are not in its group.
func TestServersFilesAreClosed(t *testing.T) {
	t.Parallel()
	account := another(t, "nobody")
	opts := defaultOptions()
	opts.roots.accounts = []string{"nobody"}
	dir := dataDir(t)
	mustOpenWith(t, throwaway(dir), opts)
	server := postmasterPID(t, dir)
	for _, path := range []string{filepath.Join(dir, clusterName, "PG_VERSION"), "/proc/" + strconv.Itoa(server) + "/environ", "/proc/" + strconv.Itoa(server) + "/cwd/PG_VERSION"} {
		if strings.HasPrefix(path, "/proc") {
			if _, err := os.Stat(path); err != nil {
				continue // no such file on this system
			}
		}
		h := startHelper(t, readEnv, path, account)
		wantContains(t, h.report(t).Error, "permission denied")
	}
}
