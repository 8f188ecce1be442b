package statement

import (
	"encoding/hex"
	"fmt"
	"time"

	"github.com/ledgerfeed/ledgerfeed/domain"
)

// Statement is what became of a day's events for a webhook. Test pings are not counted.
type Statement struct {
	Name        string   `json:"name"` // of the key that signs it; its first line
	WorkspaceID string   `json:"workspace_id"`
	WebhookID   string   `json:"webhook_id"`
	Day         Day      `json:"day"`      // when the events were published, UTC
	Made        Time     `json:"made"`     // as of when
	Position    int64    `json:"position"` // of the newest entry of the log that readers could see then
	Events      []string `json:"events"`   // the types that the webhook has chosen; all: every type

	// CountedFrom is when the part of the day begins of which events are counted that were
	// passed over: before, the webhook was not there, or had chosen other types.
	CountedFrom Time `json:"counted_from"`

	First int64 `json:"first"` // the lowest and the highest number (sequence) of the events; 0: none has one
	Last  int64 `json:"last"`
	Counts

	DeliveredSum   Sum           `json:"delivered_sha256"`
	UndeliveredSum Sum           `json:"undelivered_sha256"`
	Undelivered    []Undelivered `json:"undelivered"` // the first MaxListed
}

// Counts are numbers of events of the day, but for History.
type Counts struct {
	Numbered int64 `json:"numbered"` // they have a number

	Sent      int64 `json:"sent"` // at least one attempt was made; of these
	Delivered int64 `json:"delivered"`
	Failed    int64 `json:"failed"`
	Cancelled int64 `json:"cancelled"`
	Pending   int64 `json:"pending"`

	Waiting      int64 `json:"waiting"`        // no attempt is recorded yet
	NotSentOff   int64 `json:"not_sent_off"`   // because the webhook was turned off
	NotSentOther int64 `json:"not_sent_other"` // and the database does not say why

	// History counts the events that were past the retention when their turn came, since
	// the webhook is there: of any day but those that a statement can be made about.
	History int64 `json:"not_sent_history_ever"`
}

// MaxListed is how many events a statement names that are not delivered. The counts and
// the sums are of all.
const MaxListed = 1000

// UndeliveredCount is how many events are not delivered.
func (c *Counts) UndeliveredCount() int64 {
	return c.Failed + c.Cancelled + c.Pending + c.Waiting + c.NotSentOff + c.NotSentOther
}

// Undelivered is an event that is not delivered.
type Undelivered struct {
	State    State  `json:"state"`
	Sequence int64  `json:"sequence"` // 0: none
	EventID  string `json:"event_id"`
}

// line is the event as the statement names it, and as it is part of the sum.
func (u *Undelivered) line() string {
	if u.Sequence == 0 {
		return fmt.Sprintf("%s - %s\n", u.State, u.EventID)
	}
	return fmt.Sprintf("%s %d %s\n", u.State, u.Sequence, u.EventID)
}

// State says what became of an event.
type State string

// The states. The first four are those of deliveries.
const (
	Delivered    State = "delivered"
	Failed       State = "failed"
	Cancelled    State = "cancelled"
	Pending      State = "pending"
	Waiting      State = "waiting"
	NotSentOff   State = "not-sent-off"
	NotSentOther State = "not-sent-other"
)

// Day is a day in UTC.
type Day struct{ time.Time }

const dayForm = "2006-01-02"

// DayOf is the day of a moment.
func DayOf(t time.Time) Day { return Day{t.UTC().Truncate(24 * time.Hour)} }

// ParseDay reads a day, such as 2026-11-22.
func ParseDay(text string) (Day, error) {
	t, err := time.Parse(dayForm, text)
	if err != nil {
		return Day{}, &DayError{fmt.Sprintf("%q is no day: want a date such as 2026-11-22", text)}
	}
	return Day{t}, nil
}

// Next is the day after.
func (d Day) Next() Day { return Day{d.AddDate(0, 0, 1)} }

func (d Day) String() string { return d.Format(dayForm) }

// MarshalJSON writes the day as a date.
func (d Day) MarshalJSON() ([]byte, error) { return fmt.Appendf(nil, "%q", d), nil }

// Time is a moment in UTC, in milliseconds.
type Time struct{ time.Time }

// inMilliseconds is the moment, or the first millisecond after it.
func inMilliseconds(t time.Time) Time {
	return Time{t.UTC().Add(time.Millisecond - 1).Truncate(time.Millisecond)}
}

func (t Time) String() string { return domain.FormatTime(t.Time) }

// MarshalJSON writes the moment in its public form.
func (t Time) MarshalJSON() ([]byte, error) { return fmt.Appendf(nil, "%q", t), nil }

// Sum is a SHA-256.
type Sum [32]byte

func (s Sum) String() string { return hex.EncodeToString(s[:]) }

// MarshalJSON writes the sum in hexadecimal digits.
func (s Sum) MarshalJSON() ([]byte, error) { return fmt.Appendf(nil, "%q", s), nil }

// DayError says why there is no statement about a day.
type DayError struct{ Reason string }

// Error is a sentence for the user.
func (e *DayError) Error() string { return e.Reason }
