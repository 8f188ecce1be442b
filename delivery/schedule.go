package delivery

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// Schedule is the waits between the attempts of a delivery: the n-th is
// counted from the end of the n-th failed attempt. A delivery has one attempt
// more than the schedule has waits.
type Schedule []time.Duration

// DefaultSchedule is the one of docs/contract/service.md, "Retries and history".
func DefaultSchedule() Schedule {
	return Schedule{
		time.Minute, 5 * time.Minute, 30 * time.Minute,
		2 * time.Hour, 6 * time.Hour, 12 * time.Hour, 24 * time.Hour,
	}
}

// maxWaits keeps a delivery's attempts a list that a page can show.
const maxWaits = 30

// ParseSchedule reads LEDGERFEED_RETRY_SCHEDULE: waits such as 30s, 5m, 2h,
// separated by commas. An empty text means no retries.
func ParseSchedule(text string) (Schedule, error) {
	s := Schedule{}
	if strings.TrimSpace(text) == "" {
		return s, nil
	}
	for part := range strings.SplitSeq(text, ",") {
		wait, err := time.ParseDuration(strings.TrimSpace(part))
		if err != nil || wait < 0 {
			return nil, fmt.Errorf("%q is not a wait such as 30s, 5m or 2h", strings.TrimSpace(part))
		}
		s = append(s, wait)
	}
	if len(s) > maxWaits {
		return nil, errors.New("more than 30 waits")
	}
	return s, nil
}

// UnmarshalText reads a setting; see ParseSchedule.
func (s *Schedule) UnmarshalText(text []byte) (err error) {
	*s, err = ParseSchedule(string(text))
	return err
}

// Next is when a delivery is tried again whose n-th attempt (1 for the first)
// has failed and ended then; ok is false when there is no further attempt.
func (s Schedule) Next(n int, ended time.Time) (at time.Time, ok bool) {
	if n < 1 || n > len(s) {
		return time.Time{}, false
	}
	return ended.Add(s[n-1]), true
}
