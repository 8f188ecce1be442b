package texts

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

const day = 24 * time.Hour

// ParseDuration reads a length of time such as 90s, 1h30m, 30d or 1d12h. A day has 24 hours.
func ParseDuration(text string) (time.Duration, error) {
	before, rest, found := strings.Cut(text, "d")
	if !found {
		span, err := time.ParseDuration(text)
		if err != nil {
			return 0, durationFormError(text)
		}
		return span, nil
	}
	days, err := strconv.ParseUint(before, 10, 32)
	if err != nil || days > uint64(math.MaxInt64/day) {
		return 0, durationFormError(text)
	}
	span := time.Duration(days) * day
	if rest == "" {
		return span, nil
	}
	more, err := time.ParseDuration(rest)
	if err != nil || more < 0 || strings.HasPrefix(rest, "+") || span > math.MaxInt64-more {
		return 0, durationFormError(text)
	}
	return span + more, nil
}

// Duration writes a length of time in the largest unit that divides it evenly: "3 days", "1 hour", "90
// seconds".
func Duration(d time.Duration) string {
	for _, u := range []struct {
		size      time.Duration
		one, many string
	}{{day, "day", "days"}, {time.Hour, "hour", "hours"}, {time.Minute, "minute", "minutes"}, {time.Second, "second", "seconds"}} {
		if n := int64(d / u.size); d%u.size == 0 && n > 0 {
			return Count(n, u.one, u.many)
		}
	}
	return d.String()
}

func durationFormError(text string) error {
	return fmt.Errorf("%q is not a time such as 90s, 15m, 12h or 30d", text)
}

// DurationFlag is a length of time as a command-line flag (pflag.Value).
type DurationFlag time.Duration

// Set reads the flag.
func (f *DurationFlag) Set(text string) error {
	span, err := ParseDuration(text)
	*f = DurationFlag(span)
	return err
}

// String returns the value as Go writes it; empty: 0.
func (f *DurationFlag) String() string {
	if *f == 0 {
		return ""
	}
	return time.Duration(*f).String()
}

// Type names the type in messages and in help texts.
func (f *DurationFlag) Type() string { return "duration" }
