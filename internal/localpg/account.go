package localpg

import (
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// account is a Unix account by its ids.
type account struct {
	Name string `json:"name"`
	UID  int    `json:"uid"`
	GID  int    `json:"gid"`
}

// other tells whether a process has to change its account to become this one.
func (a account) other() bool { return a.UID != os.Geteuid() }

// String is the name for messages.
func (a account) String() string {
	if a.Name == "" {
		return "uid " + strconv.Itoa(a.UID)
	}
	return a.Name
}

// mayEnter tells whether the account has search permission on a directory.
// Access lists are not looked at: they are rare, and a refusal of PostgreSQL's
// own would still name the path.
func (a account) mayEnter(info fs.FileInfo) bool {
	uid, gid := ownerOf(info)
	perm := info.Mode().Perm()
	switch {
	case a.UID == 0:
		return true
	case uid == a.UID:
		return perm&0o100 != 0
	case gid == a.GID:
		return perm&0o010 != 0
	default:
		return perm&0o001 != 0
	}
}

// mayReach tells whether the account can enter path and all directories
// above. What does not exist yet will be made so that it can.
func (a account) mayReach(path string) bool {
	for dir := path; ; dir = filepath.Dir(dir) {
		info, err := os.Stat(dir)
		if err == nil && info.IsDir() && !a.mayEnter(info) {
			return false
		}
		if dir == filepath.Dir(dir) {
			return true
		}
	}
}

// rootRules say where the server lives and whom it runs as. PostgreSQL refuses
// to run as root, so for root both are questions.
type rootRules struct {
	accounts []string // tried in this order when the process is root
	dir      string   // holds the data directories that could not be where they were wanted
}

func defaultRootRules() rootRules {
	return rootRules{accounts: []string{"postgres", "nobody"}, dir: "/var/lib/ledgerfeed"}
}

// resolve answers both for a wanted data directory.
func (r rootRules) resolve(wanted string) (place, error) {
	abs, err := filepath.Abs(wanted)
	if err != nil {
		return place{}, fmt.Errorf("find the data directory %q: %w", wanted, err)
	}
	if real, err := filepath.EvalSymlinks(abs); err == nil {
		abs = real // one directory, one name
	} else if up, err := filepath.EvalSymlinks(filepath.Dir(abs)); err == nil {
		abs = filepath.Join(up, filepath.Base(abs))
	}
	self := account{UID: os.Geteuid(), GID: os.Getegid()}
	p := place{Wanted: abs, Dir: abs, Account: self, Owner: self}
	if self.UID != 0 {
		p.Programs = p.file("programs")
		return p, nil
	}
	p.Programs = filepath.Join(r.dir, "programs")
	if p.Account, err = r.serverAccount(abs); err != nil {
		return place{}, err
	}
	if !p.Account.mayReach(abs) {
		p.Dir = filepath.Join(r.dir, stableName(abs))
		// The account chosen by abs's cluster, if any, has no say over there.
		if p.Account, err = r.serverAccount(p.Dir); err != nil {
			return place{}, err
		}
		if !p.Account.mayReach(p.Dir) {
			return place{}, fmt.Errorf("the account %s, under which PostgreSQL runs because root may not run it, can enter neither %s nor %s: choose another data directory", p.Account, abs, p.Dir)
		}
	}
	if info, err := os.Stat(p.Dir); err == nil {
		p.Owner.UID, p.Owner.GID = ownerOf(info)
	}
	return p, nil
}

// serverAccount is the account that owns the cluster or else the directory, so
// that root helping out in a user's directory leaves it to the user, or else
// the first account that exists.
func (r rootRules) serverAccount(dir string) (account, error) {
	for _, owned := range []string{filepath.Join(dir, clusterName), dir} {
		info, err := os.Stat(owned)
		if err != nil {
			continue
		}
		if uid, gid := ownerOf(info); uid != 0 {
			a := account{UID: uid, GID: gid}
			if u, err := user.LookupId(strconv.Itoa(uid)); err == nil {
				a.Name = u.Username
			}
			return a, nil
		}
	}
	for _, name := range r.accounts {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err1 := strconv.Atoi(u.Uid)
		gid, err2 := strconv.Atoi(u.Gid)
		if err := errors.Join(err1, err2); err != nil {
			return account{}, fmt.Errorf("read the account %s: %w", name, err)
		}
		return account{Name: name, UID: uid, GID: gid}, nil
	}
	return account{}, fmt.Errorf("PostgreSQL refuses to run as root, and none of the accounts %s exists: create one, or run as an ordinary user", strings.Join(r.accounts, ", "))
}

// stableName names the substitute of a path: readable, and the same each time.
func stableName(path string) string {
	h := fnv.New64a()
	_, _ = h.Write([]byte(path))
	readable := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '-', r == '_':
			return r
		case r == '/':
			return '-'
		}
		return -1
	}, strings.Trim(path, "/"))
	if len(readable) > 32 {
		readable = readable[len(readable)-32:]
	}
	return fmt.Sprintf("%s-%016x", strings.Trim(readable, "-"), h.Sum64())
}

// ownerOf is whom a file belongs to.
func ownerOf(info fs.FileInfo) (uid, gid int) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return -1, -1
	}
	return int(st.Uid), int(st.Gid)
}
