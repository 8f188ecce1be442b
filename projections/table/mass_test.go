package table

import (
	"testing"
	"time"
)

// TestSlicesHaveALeastSize: where statements take long whatever their size, slices do not
// shrink to single rows, and a mass change takes no more statements than it must.
func TestSlicesHaveALeastSize(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		rows int
		took time.Duration
		want int
	}{
		{smallestSlice, time.Hour, smallestSlice},
		{smallestSlice + 1, time.Hour, smallestSlice},
		{400, 2*sliceTime + 1, 200},
		{400, 2 * sliceTime, 400},
		{400, sliceTime / 2, 400},
		{400, sliceTime/2 - 1, 800},
		{largestSlice, 0, largestSlice},
	} {
		if got := nextSlice(test.rows, test.took); got != test.want {
			t.Errorf("after %d rows in %v: %d rows, want %d", test.rows, test.took, got, test.want)
		}
	}
}
