package testkit

import (
	"fmt"
	"math/rand/v2"
	"net"
	"runtime"
	"testing"
)

// OwnHost is an address of this machine that belongs to the test until it ends. A program that
// cannot say which port the kernel gave it listens there: others who connect or listen at
// 127.0.0.1 meanwhile take no port of it. The test keeps the address by listening at a port
// that all tests of this machine agree on. Only Linux has such addresses; elsewhere it is
// 127.0.0.1.
func OwnHost(t testing.TB) string {
	t.Helper()
	if runtime.GOOS != "linux" {
		return "127.0.0.1"
	}
	const agreed = "1777" // no port that the kernel gives to anybody
	var config net.ListenConfig
	for range 1000 {
		host := fmt.Sprintf("127.%d.%d.%d", 1+rand.IntN(254), rand.IntN(256), 1+rand.IntN(254)) //nolint:gosec // not a secret
		l, err := config.Listen(t.Context(), "tcp", net.JoinHostPort(host, agreed))
		if err == nil {
			t.Cleanup(func() { _ = l.Close() })
			return host
		}
	}
	t.Fatal("no address of 127.0.0.0/8 is free")
	return ""
}
