package eventtree

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ledgerfeed/ledgerfeed/eventlog"
)

// Sight says which events of a workspace a tree has. It is stored, and it is the last part of the
// tree's origin.
type Sight string

// The sights.
const (
	WithoutPay Sight = "events"          // only events that do not need pay:read
	WithPay    Sight = "events-with-pay" // all events
)

// Sights returns all sights.
func Sights() []Sight { return []Sight{WithoutPay, WithPay} }

// SightOf returns the sight of a reader; pay says whether the reader has pay:read.
func SightOf(pay bool) Sight {
	if pay {
		return WithPay
	}
	return WithoutPay
}

// Rules is the version of the rules that make events leaves of trees. It is stored with each tree,
// so that a program with other rules cannot write the tree.
const Rules = 2

// Has reports whether an event is a leaf; pay says that only readers with pay:read may see it.
func (s Sight) Has(pay bool) bool { return s == WithPay || !pay }

// condition returns Has for rows of event_log, as SQL that begins with AND; empty: all rows.
func (s Sight) condition() string {
	if s == WithPay {
		return ""
	}
	return ` AND NOT ` + eventlog.NeedsPay("")
}

// Origin returns the name of a tree: <host>/<workspace>/<sight>. host is the host of the API's
// address, with its port if it has one. The key that signs the tree's checkpoints has the same
// name.
func Origin(host, workspaceID string, s Sight) string {
	return host + "/" + workspaceID + "/" + string(s)
}

// ParseOrigin reads the workspace and the sight from the name of a tree.
func ParseOrigin(origin string) (workspaceID string, s Sight, err error) {
	parts := strings.Split(origin, "/")
	if len(parts) == 3 && parts[0] != "" && parts[1] != "" && slices.Contains(Sights(), Sight(parts[2])) {
		return parts[1], Sight(parts[2]), nil
	}
	return "", "", fmt.Errorf("%.200q is no name of a workspace's tree: want <host>/<workspace>/%s or <host>/<workspace>/%s", origin, WithoutPay, WithPay)
}
