package chart

import "time"

// Bar is the counts of one span of time.
type Bar struct {
	At     time.Time // its start
	Counts []int64   // by series
}

// Empty returns n bars of a width from a moment on, without counts.
func Empty(from time.Time, width time.Duration, n, series int) []Bar {
	bars := make([]Bar, n)
	for i := range bars {
		bars[i] = Bar{At: from.Add(time.Duration(i) * width).UTC(), Counts: make([]int64, series)}
	}
	return bars
}

// Add adds to the bar that a moment falls into. Moments outside of all bars are
// ignored.
func Add(bars []Bar, at time.Time, width time.Duration, series int, n int64) {
	if at.Before(bars[0].At) {
		return
	}
	if i := int(at.Sub(bars[0].At) / width); i < len(bars) {
		bars[i].Counts[series] += n
	}
}
