//go:build full

package instancebench

import (
	"math"
	"testing"
)

func TestByChance(t *testing.T) {
	t.Parallel()
	// The square mean of a share's deviation is sqrt(11/1200); the most of twelve are 2.7 of it
	// in one run of 20.
	least, most := byChance(1_200, 12)
	if least < 0.70 || least > 0.80 || most < 1.22 || most > 1.32 {
		t.Errorf("byChance: %.2f to %.2f, want about 0.75 to 1.27", least, most)
	}
}

func TestStandardError(t *testing.T) {
	t.Parallel()
	// The shares of each are 1.5 and 0.5 in turn: their variance is 1/3, of four rounds.
	rounds := [][]float64{{30, 10}, {10, 30}, {30, 10}, {10, 30}}
	if got, want := standardError(rounds), math.Sqrt(1.0/3/4); math.Abs(got-want) > 1e-9 {
		t.Errorf("standardError: %g, want %g", got, want)
	}
}
