package access

import "time"

// RefusedKeysPerMinute is how many refused keys an address may send in a clock
// minute before it is slowed down (docs/contract/service.md, "Limits").
const RefusedKeysPerMinute = 20

// Allowance is what a key or an address has left in the current clock minute.
type Allowance struct {
	Limit     int // allowed in a clock minute
	Remaining int // left of it, from 0
	Reset     int // whole seconds until the minute ends, 1 to 60
	OK        bool

	// FirstRefused: not OK for the first time in this minute, on this instance. For
	// addresses only.
	FirstRefused bool
}

// minuteOf numbers clock minutes.
func minuteOf(now time.Time) int64 { return now.Unix() / 60 }

// allowance is what remains of a limit after count; ok is whether the request was
// within it.
func allowance(limit int, count int64, ok bool, now time.Time) Allowance {
	return Allowance{Limit: limit, Remaining: int(max(0, int64(limit)-count)), Reset: secondsLeft(now), OK: ok}
}

// secondsLeft rounds up, so that a caller that waits that long is in the next
// minute.
func secondsLeft(now time.Time) int {
	end := time.Unix((minuteOf(now)+1)*60, 0)
	return max(1, int((end.Sub(now)+time.Second-1)/time.Second))
}
