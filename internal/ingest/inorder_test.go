package ingest

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestInOrder(t *testing.T) {
	t.Parallel()
	const none = math.MaxInt64
	for _, c := range []struct {
		offsets       []int64
		read, waiting int64
		want          int
	}{
		{[]int64{1, 2, 3}, none, none, 3},
		{[]int64{3, 1, 2}, none, none, 3},
		{[]int64{1, 5, 2}, 4, none, 1}, // 4 comes first, and is not in the batch
		{[]int64{1, 5, 6}, none, 3, 1}, // 3 comes first, and must be waited for
		{[]int64{5, 6}, none, 3, 0},    // so does this
		{[]int64{5, 6}, 4, none, 2},    // further than a batch away
		{[]int64{5, 6}, 4, 3, 0},       // both
		{[]int64{2, 1, 4, 3, 9}, 7, 8, 4},
	} {
		if got := inOrder(c.offsets, c.read, c.waiting); got != c.want {
			t.Errorf("inOrder(%v, %d, %d) = %d, want %d", c.offsets, c.read, c.waiting, got, c.want)
		}
	}
}

// TestInOrderTakesWhatIsBeforeTheRest: what is taken was inserted before everything behind it, and no
// longer part was.
func TestInOrderTakesWhatIsBeforeTheRest(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		even := rapid.Map(rapid.Int64Range(1, 10), func(n int64) int64 { return 2 * n }) // no two messages have one offset
		offsets := rapid.SliceOfNDistinct(even, 1, 8, rapid.ID).Draw(t, "offsets")
		read, waiting := int64(25), 2*rapid.Int64Range(0, 11).Draw(t, "waiting")+1
		n := inOrder(offsets, read, waiting)
		for i := 1; i <= len(offsets); i++ {
			before := slices.Max(offsets[:i]) < slices.Min(append(slices.Clone(offsets[i:]), read, waiting))
			if before && i > n || !before && i == n {
				t.Errorf("inOrder(%v, %d, %d) = %d; for %d it is %v", offsets, read, waiting, n, i, before)
			}
		}
	})
}
