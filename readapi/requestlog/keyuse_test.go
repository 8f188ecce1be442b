package requestlog_test

import (
	"testing"
	"time"

	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
	"github.com/ledgerfeed/ledgerfeed/readapi/requestlog"
)

// A key's last use is kept to the minute, and refused requests are no use.
func TestLastUseOfAKey(t *testing.T) {
	t.Parallel()
	b := setup(t)
	at := b.clock.Now()
	testkit.Must(b.pool.Exec(t.Context(), `INSERT INTO workspace (workspace_id, name, created_at) VALUES ('acme', 'Acme', $1)`, at))(t)
	testkit.Must(b.pool.Exec(t.Context(), `
		INSERT INTO api_key (workspace_id, key_id, name, permissions, rate_limit_per_minute, created_at)
		VALUES ('acme', 'key_1', 'Reporting', '{events:read}', 120, $1)`, at))(t)
	used := func(records ...requestlog.Record) (last time.Time) {
		t.Helper()
		store := b.store(0)
		for i := range records {
			records[i].WorkspaceID, records[i].KeyID, records[i].Status = "acme", "key_1", 200
			store.Record(&records[i])
		}
		b.run(store)
		err := b.pool.QueryRow(t.Context(), `SELECT coalesce(max(last_used_at), '0001-01-01Z') FROM api_key_use`).Scan(&last)
		if err != nil {
			t.Fatal(err)
		}
		return last
	}
	if got := used(requestlog.Record{At: at, Refusal: "rate_limit"}); !got.IsZero() {
		t.Errorf("a refused request counts as a use: %v", got)
	}
	if got := used(requestlog.Record{At: at}, requestlog.Record{At: at.Add(5 * time.Second)}); !got.Equal(at.Add(5 * time.Second)) {
		t.Errorf("last used at %v, want the later of two", got)
	}
	if got := used(requestlog.Record{At: at.Add(20 * time.Second)}); !got.Equal(at.Add(5 * time.Second)) {
		t.Errorf("written twice in a minute: %v", got)
	}
	if got := used(requestlog.Record{At: at.Add(time.Minute)}); !got.Equal(at.Add(time.Minute)) {
		t.Errorf("last used at %v, want the next minute", got)
	}
}
