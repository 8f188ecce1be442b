package identity

import (
	"fmt"
	"strings"

	"github.com/ledgerfeed/ledgerfeed/internal/console/session"
)

// Map gives the grants of each value of a claim. A workspace * stands for every
// workspace.
type Map map[string][]session.Grant

// everyWorkspace is the workspace of a grant for all.
const everyWorkspace = "*"

// UnmarshalText is ParseMap, for settings.
func (m *Map) UnmarshalText(text []byte) (err error) {
	*m, err = ParseMap(string(text))
	return err
}

// ParseMap reads a map such as "finance=acme:admin;support=*:viewer,acme:admin";
// empty is an empty map.
func ParseMap(text string) (Map, error) {
	m := Map{}
	for rule := range strings.SplitSeq(text, ";") {
		if rule = strings.TrimSpace(rule); rule == "" {
			continue
		}
		value, list, ok := strings.Cut(rule, "=")
		if value = strings.TrimSpace(value); !ok || value == "" {
			return nil, fmt.Errorf("%q: want value=workspace:role, several grants separated by commas, several values by semicolons", rule)
		}
		for part := range strings.SplitSeq(list, ",") {
			g, ok := parseGrant(part)
			if !ok {
				return nil, fmt.Errorf("%q: want a grant such as acme:admin or *:viewer", part)
			}
			m[value] = append(m[value], g)
		}
	}
	return m, nil
}

func parseGrant(text string) (session.Grant, bool) {
	workspace, name, ok := strings.Cut(strings.TrimSpace(text), ":")
	role, known := session.ParseRole(name)
	return session.Grant{Workspace: workspace, Role: role}, ok && known && workspace != ""
}
