package connlimit

import "golang.org/x/sys/unix"

// acknowledged is how many bytes the other side's system has taken.
func (c *Conn) acknowledged() (n uint64) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0 // of a connection that has ended
	}
	_ = raw.Control(func(fd uintptr) {
		if info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO); err == nil {
			n = info.Bytes_acked
		}
	})
	return n
}
