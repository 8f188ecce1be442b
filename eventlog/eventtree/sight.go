package eventtree

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ledgerfeed/ledgerfeed/eventlog"
)

// Sight is which events of a workspace a tree has. It is stored, and the last part of the
// tree's origin.
type Sight string

// The sights.
const (
	WithoutPay Sight = "events"          // those that need no pay:read
	WithPay    Sight = "events-with-pay" // all
)

// Sights are all there are.
func Sights() []Sight { return []Sight{WithoutPay, WithPay} }

// SightOf is that of a reader of events who has pay:read, or not.
func SightOf(pay bool) Sight {
	if pay {
		return WithPay
	}
	return WithoutPay
}

// Rules is the version of the rules by which events are leaves of trees. It is stored with each tree,
// so that a program of other rules cannot write it.
const Rules = 2

// Has reports whether an event is a leaf; pay: only readers with pay:read may see it.
func (s Sight) Has(pay bool) bool { return s == WithPay || !pay }

// condition is Has for rows of event_log, as SQL that begins with AND.
func (s Sight) condition() string {
	if s == WithPay {
		return ""
	}
	return ` AND NOT ` + eventlog.NeedsPay("")
}

// Origin is the name of a tree, of which every checkpoint is signed under a key of the same
// name: that of the host of the API's address, with its port if it has one, the workspace
// and the sight.
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
