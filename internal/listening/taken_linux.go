package listening

import "golang.org/x/sys/unix"

// acknowledged returns how many bytes the peer's system has acknowledged.
func (c *Conn) acknowledged() (n uint64) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0 // the connection has ended
	}
	_ = raw.Control(func(fd uintptr) {
		if info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO); err == nil {
			n = info.Bytes_acked
		}
	})
	return n
}
