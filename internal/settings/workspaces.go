package settings

import (
	"errors"
	"slices"
	"strings"

	"github.com/ledgerfeed/ledgerfeed/domain"
)

// workspaceIDs is a list of ids, separated by commas.
type workspaceIDs []string

// maxWorkspaceIDs bounds the list: each has metrics of its own.
const maxWorkspaceIDs = 100

// UnmarshalText reads the list. Repeated ids count once.
func (w *workspaceIDs) UnmarshalText(text []byte) error {
	*w = nil
	for part := range strings.SplitSeq(string(text), ",") {
		id := strings.TrimSpace(part)
		switch {
		case id == "" || slices.Contains(*w, id):
			continue
		case !domain.IsID(id) || len(*w) == maxWorkspaceIDs:
			return errors.New("want ids of workspaces")
		}
		*w = append(*w, id)
	}
	return nil
}
