package pg

import (
	"errors"
	"net"
	"os"
	"syscall"
)

// peerUID is the account of the process that listens at the other end.
func peerUID(conn *net.UnixConn) (uid int, err error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return 0, os.NewSyscallError("getsockopt", err)
	}
	var peer *syscall.Ucred
	cerr := raw.Control(func(fd uintptr) {
		peer, err = syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED)
	})
	if err := errors.Join(cerr, err); err != nil {
		return 0, os.NewSyscallError("getsockopt", err)
	}
	return int(peer.Uid), nil
}
