package testkit

import (
	"os/exec"
	"syscall"
)

// EndWithTest has the kernel kill a process that is about to be started when the
// test process ends.
func EndWithTest(c *exec.Cmd) { c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
