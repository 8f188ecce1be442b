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

// other reports whether this process must switch accounts to run as a.
func (a account) other() bool { return a.uid != os.Geteuid() }

// may reports whether the account has a permission, 1 (enter) or 2 (write), on a file or directory.
// It ignores access lists: they are rare, and PostgreSQL's own error would still name the path.
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

// mayReach reports whether the account can enter a directory and all its parents. It skips
// directories that do not exist yet: they will be created so that the account can enter them.
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

// canExchange returns the nearest parent of path in which the account can replace entries, if there
// is one.
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

// privateGroup returns the id of a group without a name, and so without members: only processes
// that root starts with it are in it. The id stays below 65536 because many containers have no
// more.
func privateGroup() int {
	gid := 65400
	for {
		if _, err := user.LookupGroupId(strconv.Itoa(gid)); err != nil {
			return gid
		}
		gid--
	}
}
