package readapi_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/ledgerfeed/ledgerfeed/access"
	"github.com/ledgerfeed/ledgerfeed/internal/testdb"
	"github.com/ledgerfeed/ledgerfeed/readapi"
)

// A key's last use is kept to the minute, and refused requests are none.
func TestLastUseOfAKey(t *testing.T) {
	t.Parallel()
	pool := testdb.Pool(t)
	if _, err := pool.Exec(t.Context(), `SELECT workspace_create('w', 'w', now())`); err != nil {
		t.Fatal(err)
	}
	format, err := access.NewFormat("SERVICE")
	if err != nil {
		t.Fatal(err)
	}
	keys, err := access.NewStore(access.StoreConfig{Pool: pool, Format: format})
	if err != nil {
		t.Fatal(err)
	}
	key, _, err := keys.Create(t.Context(), access.NewKey{WorkspaceID: "w", Name: "k", Permissions: access.PermissionsOf(access.EventsRead)})
	if err != nil {
		t.Fatal(err)
	}
	at := time.Date(2026, 11, 21, 12, 0, 10, 0, time.UTC)
	used := func(records ...readapi.RequestRecord) time.Time {
		t.Helper()
		store, err := readapi.NewRequestStore(readapi.RequestStoreConfig{Pool: pool, Clock: func() time.Time { return at }, Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		for i := range records {
			records[i].WorkspaceID, records[i].KeyID, records[i].Status = "w", key.ID, 200
			store.Record(&records[i])
		}
		ended, end := context.WithCancel(t.Context())
		end()
		if err := store.Run(ended); err != nil { // writes what waits, and ends
			t.Fatal(err)
		}
		r, err := keys.Get(t.Context(), "w", key.ID)
		if err != nil {
			t.Fatal(err)
		}
		return r.LastUsedAt
	}
	if got := used(readapi.RequestRecord{At: at, Refusal: readapi.RefusedRateLimit}); !got.IsZero() {
		t.Errorf("a refused request counts as a use: %v", got)
	}
	if got := used(readapi.RequestRecord{At: at}, readapi.RequestRecord{At: at.Add(5 * time.Second)}); !got.Equal(at.Add(5 * time.Second)) {
		t.Errorf("last used at %v, want the later of two", got)
	}
	if got := used(readapi.RequestRecord{At: at.Add(20 * time.Second)}); !got.Equal(at.Add(5 * time.Second)) {
		t.Errorf("written twice in a minute: %v", got)
	}
	if got := used(readapi.RequestRecord{At: at.Add(time.Minute)}); !got.Equal(at.Add(time.Minute)) {
		t.Errorf("last used at %v, want the next minute", got)
	}
}
