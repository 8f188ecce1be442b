package localpg

import (
	"os/exec"
	"syscall"
)

// dieWithParent has the kernel send sig to the command when the thread that
// starts it ends. The caller keeps that thread (runtime.LockOSThread).
func dieWithParent(cmd *exec.Cmd, sig syscall.Signal) { cmd.SysProcAttr.Pdeathsig = sig }
