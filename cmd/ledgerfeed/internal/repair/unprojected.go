package repair

import (
	"fmt"

	"github.com/ledgerfeed/ledgerfeed/internal/plural"
)

// unprojected counts what no read model shows yet, which therefore was compared with
// nothing.
type unprojected struct {
	entries    int64
	workspaces int
	compared   int64 // entries whose effect was compared
}

// add counts a workspace: the position that its rows were compared at, and the end
// of its log.
func (u *unprojected) add(position, head int64) {
	u.compared += position
	if position < head {
		u.entries += head - position
		u.workspaces++
	}
}

// line tells of them; empty when there are none.
func (u unprojected) line() string {
	if u.entries == 0 {
		return ""
	}
	return fmt.Sprintf("not projected yet, and compared with nothing: %s in %s\n", u.waiting(), plural.Of(u.workspaces, "workspace", "workspaces"))
}

// waiting is the count of the entries.
func (u unprojected) waiting() string {
	return thousands(u.entries) + " " + plural.Word(u.entries, "entry", "entries")
}

// nothingCompared is an error when the log has entries and none is projected.
func (u unprojected) nothingCompared() error {
	if u.entries == 0 || u.compared > 0 {
		return nil
	}
	return fmt.Errorf("nothing was compared: none of the %s in %s is projected yet; "+
		"run ledgerfeed serve, wait with ledgerfeed status --wait, and try again", u.waiting(), plural.Of(u.workspaces, "workspace", "workspaces"))
}
