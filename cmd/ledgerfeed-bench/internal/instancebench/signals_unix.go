//go:build unix

package instancebench

import "syscall"

// Signals that stop a process, and that let it go on.
const (
	stopSignal     = syscall.SIGSTOP
	continueSignal = syscall.SIGCONT
)
