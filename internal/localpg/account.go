//go:build unix

package localpg

import (
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"

	"github.com/ledgerfeed/ledgerfeed/internal/datadir"
)

// account is the account and the group that a server runs as.
type account struct {
	name     string
	uid, gid int
}

// other tells whether a process has to change its account to become this one.
func (a account) other() bool { return a.uid != os.Geteuid() }

// may tells whether the account has the permission, one of 1 (enter) and 2
// (write), on a file or directory. Access lists are not looked at: they are
// rare, and a refusal of PostgreSQL's own would still name the path.
func (a account) may(info fs.FileInfo, permission fs.FileMode) bool {
	uid, gid := datadir.OwnerOf(info)
	perm := info.Mode().Perm()
	switch {
	case a.uid == 0:
		return true
	case uid == a.uid:
		return perm&(permission<<6) != 0
	case gid == a.gid:
		return perm&(permission<<3) != 0
	default:
		return perm&permission != 0
	}
}

// mayReach tells whether the account can enter a directory and all directories
// above. What does not exist yet will be made so that it can.
func (a account) mayReach(path string) bool {
	for dir := path; ; dir = filepath.Dir(dir) {
		info, err := os.Stat(dir)
		if err == nil && info.IsDir() && !a.may(info, 1) {
			return false
		}
		if dir == filepath.Dir(dir) {
			return true
		}
	}
}

// canExchange returns the first directory above path whose entries the account
// can exchange, if there is one.
func (a account) canExchange(path string) (string, bool) {
	for dir := path; dir != filepath.Dir(dir); {
		dir = filepath.Dir(dir)
		info, err := os.Stat(dir)
		if err != nil {
			continue
		}
		uid, _ := datadir.OwnerOf(info)
		if uid == a.uid || a.may(info, 2) && info.Mode()&fs.ModeSticky == 0 {
			return dir, true
		}
	}
	return "", false
}

// privateGroup is a group that has no name, and so no members: only processes
// that root starts with it are in it. It stays below 65536, which is all that
// many containers have.
func privateGroup() int {
	gid := 65400
	for {
		if _, err := user.LookupGroupId(strconv.Itoa(gid)); err != nil {
			return gid
		}
		gid--
	}
}
