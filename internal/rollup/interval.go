package rollup

import "time"

// Step is the length of the intervals that something is counted by, in minutes.
type Step int16

// The steps.
const (
	Minute Step = 1
	Hour   Step = 60
)

// Duration returns the length of the intervals.
func (s Step) Duration() time.Duration { return time.Duration(s) * time.Minute }

// How long counts are kept. A chart of an hour is made from minutes, and one of 30
// days from hours.
const (
	minuteRetention = 6 * time.Hour
	hourRetention   = 31 * 24 * time.Hour
)

// steps returns the intervals that everything is counted by.
func steps() []Step { return []Step{Minute, Hour} }

// start returns the start of the interval that contains t.
func (s Step) start(t time.Time) time.Time { return t.UTC().Truncate(s.Duration()) }
