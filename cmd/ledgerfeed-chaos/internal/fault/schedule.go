//go:build linux

package fault

import (
	"iter"
	"math/rand/v2"
	"time"
)

// Plan is one fault of a schedule.
type Plan struct {
	Number int           // from 1
	Kind   *Kind         // what goes wrong
	After  time.Duration // pause before it
	Lasts  time.Duration
	Roll   uint64 // decides about everything else
}

// pick returns a number below n that the plan's roll decides; what keeps apart
// choices of one plan.
func (p *Plan) pick(what uint64, n int) int {
	return rand.New(rand.NewPCG(p.Roll, what)).IntN(n)
}

const (
	shortestPause = 100 * time.Millisecond
	longestPause  = 1500 * time.Millisecond
)

// Schedule is the endless list of faults of a seed. Pauses between them, and how long
// they last, are so many times shorter than the kinds say.
func Schedule(seed uint64, kinds []*Kind, shorter int) iter.Seq[Plan] {
	return func(yield func(Plan) bool) {
		rng := rand.New(rand.NewPCG(seed, 0xfa017))
		all := 0
		var first []*Kind
		for _, k := range kinds {
			all += k.Weight
			if k.First {
				first = append(first, k)
			}
		}
		for n := 1; n <= len(first) || all > 0; n++ {
			p := Plan{Number: n, After: between(rng, shortestPause, longestPause) / time.Duration(shorter)}
			if n <= len(first) {
				p.Kind = first[n-1]
			} else {
				p.Kind = choose(kinds, rng.IntN(all))
			}
			p.Lasts, p.Roll = between(rng, p.Kind.Shortest, p.Kind.Longest)/time.Duration(shorter), rng.Uint64()
			if !yield(p) {
				return
			}
		}
	}
}

func choose(kinds []*Kind, roll int) *Kind {
	for _, k := range kinds {
		if roll < k.Weight {
			return k
		}
		roll -= k.Weight
	}
	return kinds[len(kinds)-1] // not reached: roll is below the sum
}

func between(rng *rand.Rand, low, high time.Duration) time.Duration {
	if high <= low {
		return low
	}
	return low + time.Duration(rng.Int64N(int64(high-low)))
}
