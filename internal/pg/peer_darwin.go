package pg

import (
	"errors"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// peerUID is the account of the process that listens at the other end.
func peerUID(conn *net.UnixConn) (uid int, err error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return 0, os.NewSyscallError("getsockopt", err)
	}
	var peer *unix.Xucred
	cerr := raw.Control(func(fd uintptr) {
		peer, err = unix.GetsockoptXucred(int(fd), unix.SOL_LOCAL, unix.LOCAL_PEERCRED)
	})
	if err := errors.Join(cerr, err); err != nil {
		return 0, os.NewSyscallError("getsockopt", err)
	}
	return int(peer.Uid), nil
}
