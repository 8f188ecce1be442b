package projections_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
	"github.com/ledgerfeed/ledgerfeed/projections"
	"github.com/ledgerfeed/ledgerfeed/projections/projectionstest"
)

// TestALockedRowHoldsUpItsWorkspaceAlone: while a transaction holds rows that the
// projector has to write of more workspaces than there are workers, others are
// projected, also those that come with them. When it ends, so are the held ones,
// which are not quarantined.
func TestALockedRowHoldsUpItsWorkspaceAlone(t *testing.T) {
	t.Parallel()
	for name, lock := range map[string]string{
		"rows":       `SELECT FROM client WHERE workspace_id = $1 FOR UPDATE`,
		"marks":      `SELECT FROM log_under_way WHERE workspace_id = $1 FOR UPDATE`,
		"checkpoint": `SELECT FROM log_checkpoint WHERE workspace_id = $1 FOR UPDATE`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := projectionstest.New(t)
			pool := testkit.Must(pg.Open(t.Context(), b.URL, pg.Options{MaxConns: projections.Connections, Settings: projections.PoolSettings()}))(t)
			t.Cleanup(pool.Close)
			runner := testkit.Must(projections.NewRunner(projections.RunnerConfig{
				Pool: pool, Notifier: b.Notifier, Clock: time.Now, Logger: projectionstest.NoLog(), Sweep: 50 * time.Millisecond,
			}))(t)
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			ended := make(chan error, 1)
			go func() { ended <- runner.Run(ctx) }()

			var held, others []string
			for i := range projections.DefaultWorkers + 2 {
				held, others = append(held, fmt.Sprint("held", i)), append(others, fmt.Sprint("other", i))
			}
			record := func(workspaces []string, name string) {
				var list []domain.Draft
				for _, w := range workspaces {
					list = append(list, draft(t, w, "client.recorded", object{"client_id": "c", "name": name}))
				}
				b.Append(list)
			}
			all := append(append([]string{}, held...), others...)
			record(all, "first")
			b.AwaitProjected()
			tx := testkit.Must(b.Pool.Begin(t.Context()))(t)
			defer pg.Rollback(context.Background(), tx)
			for _, w := range held { // a cluster locks rows of one workspace at a time
				testkit.Must(tx.Exec(t.Context(), lock, w))(t)
			}
			for round := range 5 {
				record(all, fmt.Sprint("round ", round))
				testkit.Eventually(t, func() error { // no lock is given up meanwhile
					for _, w := range others {
						status, err := projections.ReadStatus(t.Context(), b.Pool, w)
						if err != nil {
							return err
						}
						if status.LagEntries > 0 {
							return fmt.Errorf("%s waits with %d entries", w, status.LagEntries)
						}
					}
					return nil
				})
			}
			for _, w := range held {
				var quarantined bool
				err := b.Pool.QueryRow(t.Context(), `SELECT quarantined FROM log_checkpoint WHERE workspace_id = $1 AND consumer = $2`, w, eventlog.ReadModels).Scan(&quarantined)
				if err != nil || quarantined {
					t.Errorf("%s is quarantined: %v, %v", w, quarantined, err)
				}
			}
			pg.Rollback(t.Context(), tx)
			b.AwaitProjected()
			stop()
			if err := <-ended; err != nil {
				t.Fatal(err)
			}
			b.EqualsFold()
		})
	}
}

// TestALockedCheckpointHoldsUpNoStart: a program starts while a transaction holds the
// checkpoint of a quarantined workspace.
func TestALockedCheckpointHoldsUpNoStart(t *testing.T) {
	t.Parallel()
	b := projectionstest.New(t)
	b.Append([]domain.Draft{draft(t, "held", "client.recorded", object{"client_id": "c", "name": "n"})})
	testkit.Must(b.Pool.Exec(t.Context(), `UPDATE log_checkpoint SET failures = 9, failed_to = 1, quarantined = true, retry_at = now() + interval '1 hour'`))(t)
	tx := testkit.Must(b.Pool.Begin(t.Context()))(t)
	defer pg.Rollback(context.Background(), tx)
	testkit.Must(tx.Exec(t.Context(), `SELECT FROM log_checkpoint WHERE workspace_id = 'held' FOR UPDATE`))(t)
	testkit.NotBlocked(t, b.Pool, testkit.PID(t, tx), func() {
		ended, stop := massRunner(t, b)
		b.Append([]domain.Draft{draft(t, "other", "client.recorded", object{"client_id": "c", "name": "n"})})
		testkit.Eventually(t, func() error {
			status, err := projections.ReadStatus(t.Context(), b.Pool, "other")
			if err == nil && status.LagEntries > 0 {
				return fmt.Errorf("%d entries of another workspace wait", status.LagEntries)
			}
			return err
		})
		stop()
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
	})
}
