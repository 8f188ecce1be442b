package projections_test

import (
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/internal/pg"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
	"github.com/ledgerfeed/ledgerfeed/projections"
)

// The first anomalies of a workspace are listed, so that a producer's millions of them do
// not fill the memory; that there are more shows.
func TestStatusListsTheFirstAnomalies(t *testing.T) {
	t.Parallel()
	url := testkit.NewDatabase(t)
	pool := testkit.Must(pg.Open(t.Context(), url, pg.Options{MaxConns: 2}))(t)
	t.Cleanup(pool.Close)
	err := pg.InTx(t.Context(), pool, func(tx pgx.Tx) error {
		_, err := tx.Exec(t.Context(), `SELECT workspace_create('few', 'Few', now()), workspace_create('many', 'Many', now())`)
		if err == nil {
			_, err = tx.Exec(t.Context(), `
				INSERT INTO anomaly (workspace_id, position, event_id, reason)
				SELECT w, p, 'e' || p, 'repeat' FROM (VALUES ('few', 1000), ('many', 1001)) v (w, n), generate_series(1, n) p`)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	status := testkit.Must(projections.ReadStatus(t.Context(), pool, ""))(t)
	few, many := status.Workspaces[0], status.Workspaces[1]
	if len(few.Anomalies) != 1000 || few.More || len(many.Anomalies) != 1000 || !many.More || status.Anomalies != 2000 || !status.More {
		t.Errorf("%d anomalies (%v), %d (%v), %d in all (%v)", len(few.Anomalies), few.More, len(many.Anomalies), many.More, status.Anomalies, status.More)
	}
	if first, last := many.Anomalies[0], many.Anomalies[999]; first.Position != 1 || first.EventID != "e1" || last.Position != 1000 {
		t.Errorf("the list is from %+v to %+v", first, last)
	}
}
