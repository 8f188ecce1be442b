//go:build unix && !linux

package localpg

import (
	"os/exec"
	"syscall"
)

// dieWithParent does nothing: there is no parent-death signal here. The server of
// an owner that was killed runs on, and the next Open stops it (stopOrphan).
func dieWithParent(*exec.Cmd, syscall.Signal) {}
