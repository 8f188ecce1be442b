package eventlog

import (
	"testing"
	"time"
)

// TestPauseAfterASweep: sweeps that always take long come seldom. A sweep that had to wait once
// puts off the next one by no more than the sweep before it would.
func TestPauseAfterASweep(t *testing.T) {
	t.Parallel()
	p := sweepPace{least: 2 * time.Second}
	for i, step := range []struct{ took, want time.Duration }{
		{time.Minute, 2 * time.Second}, // the first one waits for a locked table
		{5 * time.Millisecond, 2 * time.Second},
		{time.Minute, 2 * time.Second}, // 100 minutes if it counted alone
		{100 * time.Millisecond, 10 * time.Second},
		{80 * time.Millisecond, 8 * time.Second},
		{90 * time.Millisecond, 8 * time.Second},
		{time.Millisecond, 2 * time.Second},
	} {
		if got := p.pause(step.took); got != step.want {
			t.Errorf("sweep %d took %v: the next comes after %v, want %v", i, step.took, got, step.want)
		}
	}
}
