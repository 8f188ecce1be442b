package projectionstest

import (
	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/projections/table"
)

// QueueRows queues the statements that write what has changed in a workspace's state since its last
// Reset, as the projector does.
func QueueRows(b *pgx.Batch, workspaceID string, state *domain.State) error {
	fold := map[string]*table.Fold{workspaceID: {State: state}}
	for _, t := range table.NewSet().All() {
		err := t.QueueSave([]string{workspaceID}, fold, func(sql string, args []any, _ bool) error {
			b.Queue(sql, args...)
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}
