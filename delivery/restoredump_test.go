package delivery_test

import (
	"errors"
	"testing"

	"github.com/ledgerfeed/ledgerfeed/delivery"
	"github.com/ledgerfeed/ledgerfeed/delivery/policy"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

// TestADumpRestoredIntoARunningServerIsNoticed: the tables are those of a dump, which
// has the dispatcher's lease, while the server runs on and the lease still lasts.
func TestADumpRestoredIntoARunningServerIsNoticed(t *testing.T) {
	t.Parallel()
	b := setup(t, policy.Settings{})
	rc := testkit.NewReceiver(t, nil)
	testkit.Must(b.store.Create(t.Context(), workspace, delivery.Definition{URL: rc.URL, Events: []string{"all"}}))(t)
	b.dispatcher()
	b.append("invoice.reversed", 3)
	rc.Wait(t, 3)
	exec := func(sql string) {
		t.Helper()
		testkit.AsOwner(t, b.pool, sql)
	}
	// What a dump holds of it: all rows, in tables that are created again.
	tables := []string{"webhook_instance", "webhook_cursor", "log_checkpoint", "log_head", "event_log"}
	for _, table := range tables {
		exec(`CREATE TABLE dumped_` + table + ` (LIKE ` + table + ` INCLUDING ALL); INSERT INTO dumped_` + table + ` SELECT * FROM ` + table)
	}
	b.append("invoice.reversed", 5)
	rc.Wait(t, 8)
	restore := "BEGIN;"
	for _, table := range tables {
		restore += `ALTER TABLE ` + table + ` RENAME TO lost_` + table + `; ALTER TABLE dumped_` + table + ` RENAME TO ` + table + ";"
	}
	// The history goes back as well, last: what would still be recorded waits for the lease's
	// table, and is refused then.
	restore += "DELETE FROM webhook_delivery WHERE event_id NOT IN (SELECT id FROM event_log); COMMIT"
	owner := testkit.OwnerConn(t, b.pool)
	for err := errors.New("not yet"); err != nil; {
		if _, err = owner.Exec(t.Context(), restore); err != nil {
			if !pg.RolledBack(err) { // other than a deadlock with what is under way
				t.Fatal(err)
			}
			testkit.Must(owner.Exec(t.Context(), "ROLLBACK"))(t)
		}
	}
	testkit.GrantAgain(t, b.pool)
	b.pool.Reset() // a restore ends the connections, and with them what is planned for the tables before

	fresh := b.append("invoice.reversed", 4)
	testkit.Eventually(t, func() error { return missing(rc, fresh) })
}
