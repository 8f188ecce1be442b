//go:build !linux

package localpg

import (
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// selfPath is this process's binary.
func selfPath() (string, error) { return os.Executable() }

// dieWithParent does nothing: there is no parent-death signal here, the next
// Open stops the orphan instead.
func dieWithParent(*exec.Cmd, syscall.Signal) {}

// orphanGrace is how long a locked directory may be silent before its server
// is taken for the orphan of a killed keeper.
const orphanGrace = time.Second

// stopOrphan asks a server without a keeper to shut down. The lock is held and
// the keeper named in it is dead, so the holder is the postmaster it started.
func stopOrphan(p place) {
	keeper, err := os.ReadFile(p.file(lockName))
	if err != nil {
		return
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(keeper)))
	if err != nil || syscall.Kill(pid, 0) != syscall.ESRCH {
		return
	}
	if orphan, ok := livePostmaster(p.cluster()); ok {
		_ = syscall.Kill(orphan, syscall.SIGINT)
	}
}
