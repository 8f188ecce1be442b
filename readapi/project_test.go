package readapi_test

import (
	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
	"github.com/ledgerfeed/ledgerfeed/projections/projectionstest"
)

// project folds a workspace's log in memory up to a position (0: all) and writes
// the rows as the schema describes them, with the checkpoint, in one
// transaction.
func (s *stand) project(workspaceID string, upTo int64) {
	s.t.Helper()
	s.projectSilently(workspaceID, upTo)
	s.notifier.Notify(eventlog.TopicProjected, workspaceID)
}

// projectSilently is project without the notification.
func (s *stand) projectSilently(workspaceID string, upTo int64) {
	s.t.Helper()
	ctx := s.t.Context()
	state := s.states[workspaceID]
	if state == nil {
		state = domain.NewState()
		s.states[workspaceID] = state
	}
	state.Reset()
	entries, err := s.log.Read(ctx, workspaceID, state.Position, 1<<30)
	if err != nil {
		s.t.Fatal(err)
	}
	for i := range entries {
		if upTo > 0 && entries[i].Position > upTo {
			break
		}
		state.Apply(&entries[i])
	}
	err = pg.InTx(ctx, s.pool, func(tx pgx.Tx) error {
		var b pgx.Batch
		if err := projectionstest.QueueRows(&b, workspaceID, state); err != nil {
			return err
		}
		b.Queue(`UPDATE log_checkpoint SET position = $2, moved_at = $3, rules = 3 WHERE workspace_id = $1 AND consumer = $4`,
			workspaceID, state.Position, s.clock.Now(), eventlog.ReadModels)
		return tx.SendBatch(ctx, &b).Close()
	})
	if err != nil {
		s.t.Fatal(err)
	}
}
