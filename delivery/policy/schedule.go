package policy

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/ledgerfeed/ledgerfeed/internal/texts"
)

// Schedule lists the waits between the attempts of a delivery: the n-th wait
// begins at the end of the n-th failed attempt. A delivery has one attempt more
// than the schedule has waits.
type Schedule []time.Duration

// DefaultSchedule is the schedule of docs/contract/service.md, "Retries and
// history".
func DefaultSchedule() Schedule {
	return Schedule{
		time.Minute, 5 * time.Minute, 30 * time.Minute,
		2 * time.Hour, 6 * time.Hour, 12 * time.Hour, 24 * time.Hour,
	}
}

// maxWaits bounds the attempts of a delivery, because a page of the console lists all of them.
const maxWaits = 30

// ParseSchedule reads LEDGERFEED_RETRY_SCHEDULE: waits such as 30s, 5m, 2h or 1d, separated by
// commas. Each is above 0, so that a retry is later than the attempt before it. An empty text means
// no retries.
func ParseSchedule(text string) (Schedule, error) {
	s := Schedule{}
	if strings.TrimSpace(text) == "" {
		return s, nil
	}
	for part := range strings.SplitSeq(text, ",") {
		wait, err := texts.ParseDuration(strings.TrimSpace(part))
		if err != nil || wait <= 0 {
			return nil, fmt.Errorf("%q is not a wait above 0 such as 30s, 5m, 2h or 1d", strings.TrimSpace(part))
		}
		s = append(s, wait)
	}
	if len(s) > maxWaits {
		return nil, errors.New("more than 30 waits")
	}
	return s, nil
}

// UnmarshalText is ParseSchedule, for settings.
func (s *Schedule) UnmarshalText(text []byte) (err error) {
	*s, err = ParseSchedule(string(text))
	return err
}

// Next returns the time of the next attempt after the n-th one (1 for the first) failed and ended
// at a given time. ok is false if there is no further attempt.
func (s Schedule) Next(n int, ended time.Time) (at time.Time, ok bool) {
	if n < 1 || n > len(s) {
		return time.Time{}, false
	}
	return ended.Add(s[n-1]), true
}
