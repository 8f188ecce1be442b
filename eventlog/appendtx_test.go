package eventlog_test

import (
	"slices"
	"testing"

	"github.com/ledgerfeed/ledgerfeed/eventlog"
)

func TestAppendTxFollowsItsTransaction(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.append(t, client(t, "w", "a", "n"))
	for _, end := range []string{"rollback", "commit"} {
		tx := b.begin(t)
		receipts, err := b.log.AppendTx(t.Context(), tx, client(t, "w", end, "n"), client(t, "new", end, "n"))
		if err != nil {
			t.Fatal(err)
		}
		if receipts[0].Position != 2 || receipts[1].Position != 1 {
			t.Errorf("%s: receipts %+v", end, receipts)
		}
		if got := b.ids(t, "w"); !slices.Equal(got, []string{"a"}) {
			t.Errorf("before the %s others see %v", end, got)
		}
		if end == "rollback" {
			err = tx.Rollback(t.Context())
		} else {
			err = tx.Commit(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if got := b.ids(t, "w"); !slices.Equal(got, []string{"a", "commit"}) {
		t.Errorf("the log holds %v", got)
	}
	b.soundLog(t, "w")
	b.soundLog(t, "new")
}

// TestRefusedAppendTxChangesNothing: a producer that commits after a refusal
// commits only its own work, and nothing of the call in any workspace.
func TestRefusedAppendTxChangesNothing(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.exec(t, `CREATE TABLE job (id text PRIMARY KEY)`)
	b.append(t, client(t, "x", "taken", "n"), client(t, "w", "a", "n"))
	tx := b.begin(t)
	if _, err := tx.Exec(t.Context(), `INSERT INTO job VALUES ('j')`); err != nil {
		t.Fatal(err)
	}
	_, err := b.log.AppendTx(t.Context(), tx, client(t, "w", "b", "n"), client(t, "x", "taken", "m"))
	refusal(t, err, 1, "taken", eventlog.ErrOtherContent)
	if _, err := b.log.AppendTx(t.Context(), tx, client(t, "w", "c", "n")); err != nil {
		t.Fatalf("the transaction does not go on: %v", err)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := b.ids(t, "w"); !slices.Equal(got, []string{"a", "c"}) {
		t.Errorf("the log holds %v", got)
	}
	var jobs int
	if err := b.pool.QueryRow(t.Context(), `SELECT count(*) FROM job`).Scan(&jobs); err != nil || jobs != 1 {
		t.Errorf("%d jobs, error %v", jobs, err)
	}
	b.soundLog(t, "w")
}

// TestAppendTxTwiceInOneTransaction: the second call sees the entries of the first.
func TestAppendTxTwiceInOneTransaction(t *testing.T) {
	t.Parallel()
	b := setup(t)
	tx := b.begin(t)
	for i, id := range []string{"a", "b", "a"} {
		receipts, err := b.log.AppendTx(t.Context(), tx, client(t, "w", id, "n"))
		if err != nil {
			t.Fatal(err)
		}
		if receipts[0].Skipped != (i == 2) {
			t.Errorf("receipt %d: %+v", i, receipts[0])
		}
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := b.ids(t, "w"); !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("the log holds %v", got)
	}
	b.soundLog(t, "w")
}
