package service

import (
	"math"
	"testing"
)

// TestConnectionsLeaveDescriptors: all listeners together get half of the descriptors at
// most, each has room for a connection, and none gets more than its constant.
func TestConnectionsLeaveDescriptors(t *testing.T) {
	t.Parallel()
	const maxAPI = 4096
	for _, descriptors := range []int{64, 256, 1024, 4096, 1 << 20, math.MaxInt} {
		sum := 0
		for _, name := range []string{RoleAPI, RoleConsole, RoleIngestAPI, AdminListener} {
			n := connectionsOf(name, descriptors)
			if n < 1 || n > maxAPI {
				t.Errorf("of %d descriptors the %s gets %d connections", descriptors, name, n)
			}
			if name == RoleAPI && descriptors >= 1<<20 && n != maxAPI {
				t.Errorf("of %d descriptors the API gets %d connections", descriptors, n)
			}
			if name == RoleIngestAPI && descriptors >= 1<<20 && n < 500 {
				t.Errorf("of %d descriptors producers get %d connections", descriptors, n)
			}
			sum += n
		}
		if sum > descriptors/2 {
			t.Errorf("of %d descriptors the listeners get %d", descriptors, sum)
		}
	}
}
