package eventlog

import (
	"errors"
	"fmt"
)

// Reasons for which the log refuses a well-formed entry.
var (
	// ErrOtherContent: the workspace holds an entry of this id with another
	// type or other data.
	ErrOtherContent = errors.New("the workspace holds this id with other content")

	// ErrBeforeNewest: the publish time is before that of the newest entry.
	ErrBeforeNewest = errors.New("created_at is before the workspace's newest entry")

	// ErrAhead: the publish time is more than 5 minutes in the future.
	ErrAhead = errors.New("created_at is more than 5 minutes ahead of now")
)

var errUncheckedDraft = errors.New("not a checked draft: make it with domain.DecodeDraft or domain.NewDraft")

// RefusedError says which entry of an append was refused, and why. Nothing of
// that append was done.
type RefusedError struct {
	Index  int    // of the entry among those of the call
	ID     string // empty: the entry brought none
	Reason error  // one of the reasons above
	Detail string // the time it was compared with, if any
}

// Error names the entry and the reason.
func (e *RefusedError) Error() string {
	s := fmt.Sprintf("entry %s refused: %v", e.ID, e.Reason)
	if e.ID == "" {
		s = fmt.Sprintf("entry refused: %v", e.Reason)
	}
	if e.Detail != "" {
		s += " (" + e.Detail + ")"
	}
	return s
}

// Unwrap returns the reason.
func (e *RefusedError) Unwrap() error { return e.Reason }

// outcomeError turns an outcome of log_append into an error; nil: it was appended or
// skipped. when is the time that the entry was compared with.
func outcomeError(name string, index int, id, when string) error {
	refused := func(reason error, detail string) error {
		return &RefusedError{Index: index, ID: id, Reason: reason, Detail: detail}
	}
	switch name {
	case "appended", "skipped":
		return nil
	case "other_content":
		return refused(ErrOtherContent, "")
	case "before_newest":
		return refused(ErrBeforeNewest, "the newest is of "+when)
	case "ahead":
		return refused(ErrAhead, "now is "+when)
	}
	return fmt.Errorf("log_append returned the outcome %q, which this program does not know", name)
}
