//go:build unix

package datadir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// maxLinks is how many symbolic links a path may lead through.
const maxLinks = 40

// Resolve returns the absolute path without symbolic links, so that a directory has one name. Parts
// that do not exist yet stay as they are. A link that another account made is an error.
func Resolve(path string) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", fmt.Errorf("find the data directory %q: %w", path, err)
	}
	at, rest, links := "/", strings.Split(path, "/"), 0
	for len(rest) > 0 {
		name := rest[0]
		rest = rest[1:]
		switch name {
		case "", ".":
			continue
		case "..":
			at = filepath.Dir(at)
			continue
		}
		next := filepath.Join(at, name)
		info, err := os.Lstat(next)
		if errors.Is(err, fs.ErrNotExist) {
			return filepath.Join(append([]string{next}, rest...)...), nil
		}
		if err != nil {
			return "", fmt.Errorf("find the data directory %s: %w", path, err)
		}
		if info.Mode()&fs.ModeSymlink == 0 {
			at = next
			continue
		}
		if err := CheckOwner(next, info); err != nil {
			return "", err
		}
		if links++; links > maxLinks {
			return "", fmt.Errorf("find the data directory %s: too many symbolic links", path)
		}
		target, err := os.Readlink(next)
		if err != nil {
			return "", fmt.Errorf("find the data directory %s: %w", path, err)
		}
		if filepath.IsAbs(target) {
			at = "/"
		}
		rest = append(strings.Split(target, "/"), rest...)
	}
	return at, nil
}

// CheckOwner refuses a file or directory that belongs neither to the account that
// runs the program nor to root.
func CheckOwner(path string, info fs.FileInfo) error {
	if uid, _ := OwnerOf(info); uid == os.Geteuid() || uid == 0 {
		return nil
	}
	return refusal(path, info)
}

func refusal(path string, info fs.FileInfo) error {
	uid, _ := OwnerOf(info)
	return fmt.Errorf("%s belongs to the account %s and cannot be used by this program, which runs as %s: run it as the owner, give the file to %[3]s with chown, or choose another directory with LEDGERFEED_DATA_DIR",
		path, AccountName(uid), AccountName(os.Geteuid()))
}

// writableByOthers reports whether accounts other than the owner may write. The group of the
// account that runs the program may: on many systems each account has a group of its own, and a
// umask that lets the group write.
func writableByOthers(info fs.FileInfo) bool {
	_, gid := OwnerOf(info)
	perm := info.Mode().Perm()
	return perm&0o002 != 0 || perm&0o020 != 0 && gid != os.Getegid()
}

func readableByOthers(info fs.FileInfo) bool { return info.Mode().Perm()&0o077 != 0 }

// OwnerOf returns the ids of a file's owner and group.
func OwnerOf(info fs.FileInfo) (uid, gid int) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return -1, -1
	}
	return int(st.Uid), int(st.Gid)
}

// AccountName returns the name of an account, or its number if it has none.
func AccountName(uid int) string {
	number := strconv.Itoa(uid)
	if u, err := user.LookupId(number); err == nil {
		return u.Username
	}
	return number
}
