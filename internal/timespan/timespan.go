// Package timespan reads and writes lengths of time as people do: as Go does, and with days.
package timespan

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/ledgerfeed/ledgerfeed/internal/plural"
)

const day = 24 * time.Hour

// Parse reads a length of time such as 90s, 1h30m, 30d or 1d12h. A day has 24 hours.
func Parse(text string) (time.Duration, error) {
	before, rest, found := strings.Cut(text, "d")
	if !found {
		span, err := time.ParseDuration(text)
		if err != nil {
			return 0, formError(text)
		}
		return span, nil
	}
	days, err := strconv.ParseUint(before, 10, 32)
	if err != nil || days > uint64(math.MaxInt64/day) {
		return 0, formError(text)
	}
	span := time.Duration(days) * day
	if rest == "" {
		return span, nil
	}
	more, err := time.ParseDuration(rest)
	if err != nil || more < 0 || strings.HasPrefix(rest, "+") || span > math.MaxInt64-more {
		return 0, formError(text)
	}
	return span + more, nil
}

// Text writes a length of time in the largest unit that divides it evenly: "3 days", "1 hour", "90
// seconds".
func Text(d time.Duration) string {
	for _, u := range []struct {
		size      time.Duration
		one, many string
	}{{day, "day", "days"}, {time.Hour, "hour", "hours"}, {time.Minute, "minute", "minutes"}, {time.Second, "second", "seconds"}} {
		if n := int64(d / u.size); d%u.size == 0 && n > 0 {
			return plural.Of(n, u.one, u.many)
		}
	}
	return d.String()
}

func formError(text string) error {
	return fmt.Errorf("%q is not a time such as 90s, 15m, 12h or 30d", text)
}

// Flag is a length of time as a command-line flag (pflag.Value).
type Flag time.Duration

// Set reads the flag.
func (f *Flag) Set(text string) error {
	span, err := Parse(text)
	*f = Flag(span)
	return err
}

// String returns the value as Go writes it; empty: 0.
func (f *Flag) String() string {
	if *f == 0 {
		return ""
	}
	return time.Duration(*f).String()
}

// Type names the type in messages and in help texts.
func (f *Flag) Type() string { return "duration" }
