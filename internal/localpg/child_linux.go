package localpg

import (
	"math"
	"os/exec"
	"syscall"
	"time"
)

// selfPath is this process's binary: by inode, so that a program replaced
// while it runs still starts a keeper of its own version.
func selfPath() (string, error) { return "/proc/self/exe", nil }

// dieWithParent has the kernel send sig to the command when the thread that
// starts it ends. The caller keeps that thread (runtime.LockOSThread).
func dieWithParent(cmd *exec.Cmd, sig syscall.Signal) { cmd.SysProcAttr.Pdeathsig = sig }

// orphanGrace: never, the parent-death signal has reached every orphan.
const orphanGrace = time.Duration(math.MaxInt64)

func stopOrphan(place) {}
