package localpg

import (
	"os/exec"
	"syscall"
)

// dieWithParent makes the kernel send sig to the command when the thread that started it ends. The
// caller must keep that thread alive (runtime.LockOSThread).
func dieWithParent(cmd *exec.Cmd, sig syscall.Signal) { cmd.SysProcAttr.Pdeathsig = sig }
