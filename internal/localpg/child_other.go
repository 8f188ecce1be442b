//go:build unix && !linux

package localpg

import (
	"os/exec"
	"syscall"
)

// dieWithParent does nothing: this system has no parent-death signal. If the owner is killed, the
// server keeps running until the next Open stops it (stopOrphan).
func dieWithParent(*exec.Cmd, syscall.Signal) {}
