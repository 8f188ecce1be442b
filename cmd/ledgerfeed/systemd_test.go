package main

import (
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ledgerfeed/ledgerfeed/internal/cli"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

// TestSystemdIsTold: a unit of Type=notify with a watchdog hears that the service is
// ready, that it is alive, and that it stops, in this order.
func TestSystemdIsTold(t *testing.T) {
	t.Parallel()
	address := &net.UnixAddr{Name: filepath.Join(t.TempDir(), "notify"), Net: "unixgram"}
	socket := testkit.Must(net.ListenUnixgram("unixgram", address))(t)
	t.Cleanup(func() { _ = socket.Close() })
	c := command(t, testkit.NewDatabase(t), "serve")
	c.Env = append(c.Env, "NOTIFY_SOCKET="+address.Name, "WATCHDOG_USEC=300000", "LEDGERFEED_DRAIN_DELAY=0")
	serving := startProcess(t, c)
	buffer := make([]byte, 1000)
	next := func() string {
		if err := socket.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		n, err := socket.Read(buffer)
		if err != nil {
			t.Fatalf("%v\n%s", err, serving.log)
		}
		return string(buffer[:n])
	}
	count := map[string]int{}
	for count["WATCHDOG=1"] < 4 || count["READY=1"] == 0 {
		count[next()]++
	}
	if count["STOPPING=1"] > 0 || count["READY=1"] != 1 {
		t.Errorf("before the stop: %v", count)
	}
	stopped := make(chan int, 1)
	go func() { stopped <- serving.stop() }()
	for message := next(); message != "STOPPING=1"; message = next() {
		if !strings.HasPrefix(message, "WATCHDOG=") {
			t.Errorf("after SIGTERM: %s", message)
		}
	}
	if code := <-stopped; code != cli.ExitDone {
		t.Errorf("ended with %d:\n%s", code, serving.log)
	}
}
