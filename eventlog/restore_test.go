package eventlog_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

// TestRestore: an export, with times ahead of now, comes back as it was into a
// workspace that is empty or holds its beginning, and into no other.
func TestRestore(t *testing.T) {
	t.Parallel()
	b := &bundle{pool: testkit.Pool(t), clock: testkit.RunningClock()}
	b.log = newLog(t, eventlog.Config{Pool: b.pool, Clock: b.clock.Now})
	begin := time.Now().UTC().Truncate(time.Millisecond)
	export := make([]domain.Draft, 6)
	for i := range export {
		export[i] = at(client(t, "w", string(rune('a'+i)), "n"), begin.AddDate(0, 0, 40*i))
	}
	in := func(w string, drafts []domain.Draft) []domain.Draft {
		drafts = slices.Clone(drafts)
		for i := range drafts {
			drafts[i].WorkspaceID = w
		}
		return drafts
	}
	first := func(w string, n int64) map[string]int64 { return map[string]int64{w: n} }
	// Into an empty one, in two parts, and again.
	if _, err := b.log.Restore(t.Context(), first("w", 1), export[:4]...); err != nil {
		t.Fatal(err)
	}
	if _, err := b.log.Restore(t.Context(), first("w", 3), export[2:]...); err != nil {
		t.Fatal(err)
	}
	again, err := b.log.Restore(t.Context(), first("w", 1), export...)
	if err != nil || !again[5].Skipped || again[5].Position != 6 {
		t.Errorf("again: %+v, %v", again, err)
	}
	for i, e := range b.soundLog(t, "w") {
		if e.ID != export[i].ID || !e.CreatedAt.Equal(export[i].CreatedAt) {
			t.Errorf("position %d has %s of %v", e.Position, e.ID, e.CreatedAt)
		}
	}
	// Appended as usual, a time ahead of now is still refused.
	_, err = b.log.Append(t.Context(), in("plain", export)...)
	refusal(t, err, 1, "b", eventlog.ErrAhead)

	b.append(t, client(t, "other", "b", "n"), client(t, "later", "x", "n"))
	b.append(t, at(in("moved", export[:1])[0], begin.Add(-time.Hour)))
	for w, drafts := range map[string][]domain.Draft{
		"other": export,     // it has another first entry
		"later": export,     // it has none of them
		"moved": export,     // it has the first one, of another time
		"new":   export[2:], // it misses the beginning
	} {
		var diverged *eventlog.DivergedError
		position := int64(1)
		if w == "new" {
			position = 3
		}
		if _, err := b.log.Restore(t.Context(), first(w, position), in(w, drafts)...); !errors.As(err, &diverged) || diverged.WorkspaceID != w {
			if !errors.Is(err, eventlog.ErrBeforeNewest) { // which is found first
				t.Errorf("%s: %v", w, err)
			}
		}
	}
	for w, want := range map[string]int{"other": 1, "later": 1, "moved": 1, "new": 0} {
		if n := len(b.ids(t, w)); n != want {
			t.Errorf("%s has %d entries", w, n)
		}
	}
}
