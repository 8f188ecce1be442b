//go:build linux

package cluster

import (
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"strconv"
	"syscall"
)

// account is who runs PostgreSQL, which refuses to be run by root.
type account struct {
	name     string
	uid, gid int
}

// serverAccount is this process's own account, or, for root, postgres or nobody.
func serverAccount() (account, error) {
	if os.Geteuid() != 0 {
		u, err := user.Current()
		if err != nil {
			return account{}, fmt.Errorf("cannot find the account of this process: %w", err)
		}
		return account{u.Username, os.Geteuid(), os.Getegid()}, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err := strconv.Atoi(u.Uid)
		if err != nil {
			continue
		}
		gid, err := strconv.Atoi(u.Gid)
		if err != nil {
			continue
		}
		return account{name, uid, gid}, nil
	}
	return account{}, fmt.Errorf("PostgreSQL does not run as root, and this machine has no account postgres or nobody to run it as")
}

// own gives a file or directory to the account.
func (a account) own(path string) error {
	if a.uid == os.Geteuid() {
		return nil
	}
	return os.Chown(path, a.uid, a.gid)
}

// as makes a command run as the account, and end when this process dies.
func (a account) as(c *exec.Cmd) *exec.Cmd {
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
	if a.uid != os.Geteuid() {
		c.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(a.uid), Gid: uint32(a.gid)}
	}
	c.Dir = "/"
	return c
}
