package service

import (
	"math"
	"testing"
)

// TestAuditMemory: the background verifications of a process together stay within a quarter of its memory
// limit.
func TestAuditMemory(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		limit     int64
		databases int
		want      int64
	}{
		{math.MaxInt64, 1, 64 << 20}, {math.MaxInt64, 4, 16 << 20}, {128 << 20, 1, 32 << 20}, {128 << 20, 4, 8 << 20}, {1, 1, 1},
	} {
		if got := auditMemory(c.limit, c.databases); got != c.want {
			t.Errorf("with %d bytes and %d databases: %d, want %d", c.limit, c.databases, got, c.want)
		}
	}
}
