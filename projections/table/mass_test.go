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
		{firstSlice, time.Hour, smallestSlice},
		{4 * smallestSlice, 2*sliceTime + 1, 2 * smallestSlice},
		{firstSlice, 2 * sliceTime, firstSlice},
		{firstSlice, sliceTime / 2, firstSlice},
		{firstSlice, sliceTime/2 - 1, 2 * firstSlice},
		{largestSlice, 0, largestSlice},
	} {
		if got := nextSlice(test.rows, test.took); got != test.want {
			t.Errorf("after %d rows in %v: %d rows, want %d", test.rows, test.took, got, test.want)
		}
	}
}
