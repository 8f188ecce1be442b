//go:build full

package attempt

import (
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	runtimemetrics "runtime/metrics"
	"testing"
	"time"

	"github.com/ledgerfeed/ledgerfeed/delivery/policy"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

// elsewhere starts the hostile receivers in a process of their own. It returns
// their addresses and a file with the authorities they need.
func elsewhere(t *testing.T) (addresses []string, ca string) {
	t.Helper()
	c := testkit.Child(childHostile + "=1")
	in := testkit.Must(c.StdinPipe())(t)
	out := testkit.Must(c.StdoutPipe())(t)
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = in.Close(); _ = c.Process.Kill(); _ = c.Wait() })
	var world hostileWorld
	if err := json.NewDecoder(out).Decode(&world); err != nil {
		t.Fatal(err)
	}
	ca = filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, world.Authorities, 0o600); err != nil {
		t.Fatal(err)
	}
	return world.Addresses, ca
}

// held is the memory in use: the live heap at the last garbage collection, and the
// stacks of goroutines. Later allocations do not count, because most of them are
// garbage already.
func held() int64 {
	runtime.GC()
	m := []runtimemetrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/memory/classes/heap/stacks:bytes"}}
	runtimemetrics.Read(m)
	return int64(m[0].Value.Uint64() + m[1].Value.Uint64())
}

// TestHostileReceiversTakeLittleMemory: no attempt needs more than 256 KiB of memory, over
// connections of the kernel's. Nothing else runs in the process.
func TestHostileReceiversTakeLittleMemory(t *testing.T) {
	addresses, ca := elsewhere(t)
	const together = 8
	for i, h := range hostiles() {
		t.Run(h.name, func(t *testing.T) {
			sender, dialed := watched(t, policy.Settings{Timeout: hostileTimeout, Allow: testkit.Loopback(), CAFile: ca}, nil)
			before := held()
			attempts := make(chan Result, together)
			for range together {
				go func() { attempts <- sender.to(t, addresses[i]) }()
			}
			most := before
			look := time.NewTicker(20 * time.Millisecond)
			defer look.Stop()
			for n := 0; n < together; {
				select {
				case a := <-attempts:
					n++
					h.judge(t, a)
				case <-look.C:
					most = max(most, held())
				}
			}
			if n := len(dialed()); n > together*(maxDials+1) {
				t.Errorf("%d connections for %d messages", n, together)
			}
			each := (max(most, held()) - before) / together
			t.Logf("%d KiB each", each>>10)
			if each > 256<<10 {
				t.Errorf("%d KiB each, at most 256", each>>10)
			}
		})
	}
}
