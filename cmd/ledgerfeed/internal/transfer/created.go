package transfer

import (
	"context"
	"fmt"
	"io"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
)

// maxCreated is how many new workspaces are named one by one; a restored export may
// have any number of them.
const maxCreated = 10

// newWorkspaces says which workspaces are new, because a mistyped workspace_id makes
// one that nothing removes again. Nil says nothing.
type newWorkspaces struct {
	pool   *pgxpool.Pool
	errOut io.Writer

	forbidden bool // the account may not read workspaces, as a producer's may not
	named     int
}

// absent returns those of the drafts' workspaces that do not exist yet, but for known
// ones. A failure is no concern of the append, which meets it as well.
func (n *newWorkspaces) absent(ctx context.Context, drafts []domain.Draft, known map[string]int64) map[string]bool {
	asked := map[string]bool{}
	if n == nil || n.forbidden {
		return asked
	}
	var ids []string
	for i := range drafts {
		w := drafts[i].WorkspaceID
		if _, there := known[w]; !there && !asked[w] {
			asked[w] = true
			ids = append(ids, w)
		}
	}
	if len(ids) == 0 {
		return asked
	}
	rows, err := n.pool.Query(ctx, `SELECT workspace_id FROM workspace WHERE workspace_id = ANY($1)`, ids)
	if err == nil {
		ids, err = pgx.CollectRows(rows, pgx.RowTo[string])
	}
	if err != nil {
		n.forbidden = pg.Forbidden(err)
		return map[string]bool{}
	}
	for _, w := range ids {
		delete(asked, w)
	}
	return asked
}

// note names the workspace of an entry that was appended, if it is its first one and the
// workspace was absent before.
func (n *newWorkspaces) note(r eventlog.Receipt, workspaceID string, absent map[string]bool) {
	if n == nil || r.Position != 1 || r.Skipped || !absent[workspaceID] && !n.forbidden {
		return
	}
	switch n.named++; {
	case n.named > maxCreated+1:
	case n.named > maxCreated:
		fmt.Fprintln(n.errOut, "more workspaces are new: ledgerfeed workspace list")
	case n.forbidden:
		fmt.Fprintf(n.errOut, "%s had no entries before: if workspace_id is mistyped, this made a workspace\n", workspaceID)
	default:
		fmt.Fprintf(n.errOut, "created the workspace %s, which did not exist\n", workspaceID)
	}
}
