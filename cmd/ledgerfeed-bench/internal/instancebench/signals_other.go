//go:build !unix

package instancebench

import "syscall"

// Systems without these signals refuse to send them, so that benchmarks that need them fail.
const (
	stopSignal     = syscall.Signal(0x13)
	continueSignal = syscall.Signal(0x12)
)
