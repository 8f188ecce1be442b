package migrations_test

import (
	"testing"
	"time"

	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

// TestTheFirstVersionRecordsAttempts: a program of version 0.1.0, which an upgrade has not
// replaced yet or an operator has gone back to, records attempts on today's schema. These
// are its statements.
func TestTheFirstVersionRecordsAttempts(t *testing.T) {
	t.Parallel()
	db := testkit.Pool(t)
	exec := func(sql string, args ...any) {
		t.Helper()
		if _, err := db.Exec(t.Context(), sql, args...); err != nil {
			t.Fatal(err)
		}
	}
	exec(`SELECT workspace_create('acme', 'Acme', now())`)
	exec(`INSERT INTO webhook (workspace_id, webhook_id, url, created_at, secret) VALUES ('acme', 'wh_1', 'https://example.com', now(), '')`)
	exec(`INSERT INTO webhook_cursor (workspace_id, webhook_id, position, holder) VALUES ('acme', 'wh_1', 3, 'me')`)
	exec(`INSERT INTO webhook_instance (instance_id, lease_until) VALUES ('me', clock_timestamp() + interval '1 minute')`)
	var (
		at      = time.Date(2026, 11, 22, 10, 0, 0, 0, time.UTC)
		none    = []string{}
		numbers = []int64{}
		attempt = `{"at":"2026-11-22T10:00:00.000Z","status":200,"error":null,"duration_ms":1,"answer":null}`
	)
	exec(`SELECT webhook_record($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13::text[]::jsonb[],
		$14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24, $25, $26, $27, $28, $29, $30)`,
		"me",
		[]string{"acme"}, []string{"wh_1"}, []int64{5}, []time.Time{at}, []string{"evt_5"}, []string{"invoice.paid"},
		[]int{1}, []int{0}, []string{"succeeded"}, []*string{nil}, []int{1}, []string{attempt},
		[]string{"acme"}, []string{"wh_1"}, []int{1}, []int{1}, []int64{5}, []*int64{nil},
		none, none, numbers, none, none, numbers,
		[]string{"acme"}, []string{"wh_1"}, []time.Time{at}, []string{"success"}, []int64{1})
	var recorded string
	if err := db.QueryRow(t.Context(), `
		SELECT concat_ws(' ', d.event_id, d.state, jsonb_array_length(d.attempts), c.position, h.attempts)
		  FROM webhook_delivery d JOIN webhook_cursor c USING (workspace_id, webhook_id) JOIN webhook_hour h USING (workspace_id, webhook_id)`).Scan(&recorded); err != nil {
		t.Fatal(err)
	}
	if want := "evt_5 succeeded 1 5 1"; recorded != want {
		t.Errorf("recorded %q, want %q", recorded, want)
	}
}
