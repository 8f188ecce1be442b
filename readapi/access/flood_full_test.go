//go:build full

package access

import (
	"net/netip"
	"runtime"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

// TestFloodTakesLittleMemory: ten million networks do not make the process grow, and an
// address that goes on sending refused keys is still slowed down.
func TestFloodTakesLittleMemory(t *testing.T) { // alone, because it measures the process
	l := testkit.Must(NewLimiter(LimiterConfig{Pool: new(pgxpool.Pool), Clock: testkit.NewClock(start).Now}))(t)
	persistent := netip.MustParseAddr("203.0.113.7")
	for range RefusedKeysPerMinute + 1 {
		l.Refuse(persistent)
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	const networks = 10_000_000
	flood(l, networks)
	runtime.GC()
	runtime.ReadMemStats(&after)
	if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > 16<<20 {
		t.Errorf("the process has grown by %d bytes", grown)
	}
	if got := l.Refuse(persistent); got.OK {
		t.Errorf("the persistent one has got through the flood: %+v", got)
	}
	if deltas := l.addresses.appendPending(nil); len(deltas) > maxSharedAddresses {
		t.Errorf("%d addresses would be added to the table at once", len(deltas))
	}
}
