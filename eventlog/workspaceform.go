package eventlog

import (
	"fmt"
	"net/mail"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	maxWorkspaceName = 200 // characters
	maxNotify        = 5   // addresses
	maxNotifyLength  = 254 // characters of one address (RFC 5321)
)

// WorkspaceError says what is wrong with a workspace's name or addresses, for people.
type WorkspaceError struct{ Reason string }

func (e *WorkspaceError) Error() string { return e.Reason }

// CheckWorkspaceName checks a name. The error is a *WorkspaceError.
func CheckWorkspaceName(name string) error {
	if n := utf8.RuneCountInString(name); n < 1 || n > maxWorkspaceName || !utf8.ValidString(name) {
		return &WorkspaceError{fmt.Sprintf("want 1 to %d characters", maxWorkspaceName)}
	}
	if strings.ContainsFunc(name, unicode.IsControl) {
		return &WorkspaceError{"want no control characters"}
	}
	return nil
}

// ParseNotifyEmail reads mail addresses that are separated by commas or lines, and
// returns them as Workspace.NotifyEmail has them: separated by ", ", each once. An empty
// text is none. The error is a *WorkspaceError.
func ParseNotifyEmail(text string) (string, error) {
	var list []string
	for _, one := range strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ';' || r == '\n' || r == '\r' }) {
		if one = strings.TrimSpace(one); one == "" || slices.Contains(list, one) {
			continue
		}
		a, err := mail.ParseAddress(one)
		if err != nil || a.Address != one || strings.ContainsAny(one, ` "`) || len(one) > maxNotifyLength {
			return "", &WorkspaceError{fmt.Sprintf("%q is not a mail address such as finance@example.com", one)}
		}
		list = append(list, one)
	}
	if len(list) > maxNotify {
		return "", &WorkspaceError{fmt.Sprintf("a workspace has %d addresses at most", maxNotify)}
	}
	return strings.Join(list, ", "), nil
}
