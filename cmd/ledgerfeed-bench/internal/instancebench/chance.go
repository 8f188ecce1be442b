package instancebench

import (
	"math"
	"math/rand/v2"
	"slices"
)

// byChance is between what, in shares of the average, the least and the most of some processes
// are, each in 19 runs of 20, if every claim goes to any of them as likely. It is a lower bound
// of what chance does: claims differ in size, and claims of one moment are not independent.
func byChance(claims, processes int) (least, most float64) {
	const runs = 2_000
	random := rand.New(rand.NewPCG(1, 2)) // the same at each run
	var lows, highs []float64
	for range runs {
		got := make([]float64, processes)
		for range claims {
			got[random.IntN(processes)]++
		}
		lows, highs = append(lows, slices.Min(got)), append(highs, slices.Max(got))
	}
	slices.Sort(lows)
	slices.Sort(highs)
	even := float64(claims) / float64(processes)
	return lows[runs/20] / even, highs[runs-1-runs/20] / even
}

// standardError is the standard error of a process's share of all rounds, as a part of an even
// share: the square mean of all processes. It comes from the differences between rounds, so it
// includes what byChance does not know.
func standardError(byRound [][]float64) float64 {
	n, processes := float64(len(byRound)), len(byRound[0])
	squares := 0.0
	for p := range processes {
		shares := make([]float64, len(byRound))
		for i, entries := range byRound {
			shares[i] = entries[p] / mean(entries)
		}
		m := mean(shares)
		for _, s := range shares {
			squares += (s - m) * (s - m)
		}
	}
	variance := squares / (n - 1) / float64(processes)
	return math.Sqrt(variance / n)
}

func mean(list []float64) float64 {
	sum := 0.0
	for _, v := range list {
		sum += v
	}
	return sum / float64(len(list))
}
