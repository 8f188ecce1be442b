package readapi_test

import (
	"testing"
	"time"

	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
	"github.com/ledgerfeed/ledgerfeed/readapi"
	"github.com/ledgerfeed/ledgerfeed/readapi/access"
)

// A key's last use is kept to the minute, and refused requests are none.
func TestLastUseOfAKey(t *testing.T) {
	t.Parallel()
	s := newStand(t)
	s.workspace("acme")
	key, _, err := s.store.Create(t.Context(), access.NewKey{WorkspaceID: "acme", Name: "k", Permissions: access.PermissionsOf(access.EventsRead)})
	if err != nil {
		t.Fatal(err)
	}
	at := s.clock.Now()
	used := func(records ...readapi.RequestRecord) time.Time {
		t.Helper()
		store := s.requestStore(0)
		for i := range records {
			records[i].WorkspaceID, records[i].KeyID, records[i].Status = "acme", key.ID, 200
			store.Record(&records[i])
		}
		run(t, store)
		return testkit.Must(s.store.Get(t.Context(), "acme", key.ID))(t).LastUsedAt
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
