package rollup

import (
	"math"
	"strconv"
	"time"
)

// buckets is the number of buckets of a Latency.
const buckets = 20

// bounds returns the upper ends of the buckets of a Latency, in milliseconds. The last bucket holds
// everything longer. Rows in the database rely on these values.
func bounds() [buckets - 1]int64 {
	return [...]int64{1, 2, 3, 5, 10, 20, 30, 50, 100, 200, 300, 500, 1000, 2000, 3000, 5000, 10_000, 20_000, 30_000}
}

// Latency counts requests or attempts by how long they took.
type Latency [buckets]int64

// Add counts a request or attempt that took d.
func (l *Latency) Add(d time.Duration) { l[bucketOf(d)]++ }

func bucketOf(d time.Duration) int {
	for i, bound := range bounds() {
		if d <= time.Duration(bound)*time.Millisecond {
			return i
		}
	}
	return buckets - 1
}

// Merge adds the counts of other.
func (l *Latency) Merge(other *Latency) {
	for i, n := range other {
		l[i] += n
	}
}

// Count returns how many requests or attempts were counted.
func (l *Latency) Count() (n int64) {
	for _, in := range l {
		n += in
	}
	return n
}

// Quantile estimates the time within which a share q of them ended, such as 0.95. It assumes that
// the times in a bucket are evenly spread and that the last bucket ends at twice the last bound. It
// returns 0 if nothing was counted.
func (l *Latency) Quantile(q float64) time.Duration {
	rank := q * float64(l.Count())
	if rank == 0 {
		return 0
	}
	var below, seen float64
	within := func(n int64, upper float64) time.Duration {
		return time.Duration(math.Round((below+(upper-below)*(rank-seen)/float64(n))*1000)) * time.Microsecond
	}
	for i, bound := range bounds() {
		if n := l[i]; n > 0 && seen+float64(n) >= rank {
			return within(n, float64(bound))
		}
		seen, below = seen+float64(l[i]), float64(bound)
	}
	return within(l[buckets-1], 2*below)
}

// array writes the counts in PostgreSQL's text form of integer[]: unnest cannot take
// an array of arrays.
func (l *Latency) array() string {
	b := []byte{'{'}
	for i, n := range l {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, min(n, math.MaxInt32), 10)
	}
	return string(append(b, '}'))
}
