package eventlog_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

func agency(t *testing.T) []byte {
	t.Helper()
	text, err := os.ReadFile("../domain/testdata/agency.ndjson")
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func many(t *testing.T, workspaceID string, n int) []domain.Draft {
	t.Helper()
	drafts := make([]domain.Draft, n)
	for i := range drafts {
		drafts[i] = client(t, workspaceID, fmt.Sprintf("e%05d", i), "n")
	}
	return drafts
}

func TestRead(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.append(t, many(t, "w", 10)...)
	b.append(t, client(t, "x", "a", "n"))
	for _, c := range []struct {
		after       int64
		limit       int
		first, last int64
	}{{0, 3, 1, 3}, {3, 3, 4, 6}, {9, 3, 10, 10}, {0, 100, 1, 10}, {10, 3, 0, 0}, {99, 3, 0, 0}, {0, 0, 0, 0}} {
		entries, err := b.log.Read(t.Context(), "w", c.after, c.limit)
		if err != nil {
			t.Fatal(err)
		}
		if c.first == 0 {
			if len(entries) != 0 {
				t.Errorf("%+v: %d entries", c, len(entries))
			}
			continue
		}
		if int64(len(entries)) != c.last-c.first+1 || entries[0].Position != c.first || entries[len(entries)-1].Position != c.last {
			t.Errorf("%+v: %d entries from %d", c, len(entries), entries[0].Position)
		}
		if e := entries[0]; e.WorkspaceID != "w" || e.ID != fmt.Sprintf("e%05d", e.Position-1) || e.CreatedAt.Location() != time.UTC {
			t.Errorf("%+v: %+v", c, e)
		}
	}
	if entries, err := b.log.Read(t.Context(), "nobody", 0, 10); err != nil || len(entries) != 0 {
		t.Errorf("unknown workspace: %v, %v", entries, err)
	}
}

func TestHead(t *testing.T) {
	t.Parallel()
	b := setup(t)
	_, err := b.log.Head(t.Context(), "w")
	var unknown *domain.UnknownWorkspaceError
	if !errors.As(err, &unknown) || unknown.WorkspaceID != "w" {
		t.Errorf("unknown workspace: %v", err)
	}
	b.exec(t, `SELECT workspace_create('w', 'W', now())`)
	head, err := b.log.Head(t.Context(), "w")
	if err != nil || head != (eventlog.Head{Chain: domain.Genesis("w")}) {
		t.Errorf("empty log: %+v, %v", head, err)
	}
	b.append(t, many(t, "w", 3)...)
	b.soundLog(t, "w")
}

// TestWalk: it crosses pages, and includes entries that are appended meanwhile.
func TestWalk(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for _, n := range []int{0, 1, 999, 1000, 1001, 2000} {
		w := fmt.Sprint("w", n)
		if n > 0 {
			b.append(t, many(t, w, n)...)
		}
		next := int64(1)
		err := b.log.Walk(t.Context(), w, 0, func(e *domain.Entry) error {
			if e.Position != next {
				return fmt.Errorf("position %d, want %d", e.Position, next)
			}
			next++
			return nil
		})
		if err != nil || next != int64(n)+1 {
			t.Errorf("%d entries: stopped at %d, %v", n, next, err)
		}
	}
	stop := errors.New("stop")
	seen := 0
	err := b.log.Walk(t.Context(), "w2000", 990, func(*domain.Entry) error {
		if seen++; seen == 20 {
			return stop
		}
		return nil
	})
	if !errors.Is(err, stop) || seen != 20 {
		t.Errorf("stopped after %d with %v", seen, err)
	}
}

func TestWorkspacesAreInOrder(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.append(t, client(t, "b", "1", "n"), client(t, "_", "1", "n"), client(t, "B", "1", "n"), client(t, "a-1", "1", "n"))
	got, err := b.workspaces().IDs(t.Context())
	if err != nil || !slices.Equal(got, []string{"B", "_", "a-1", "b"}) {
		t.Errorf("workspaces %v, %v", got, err)
	}
}

// TestPositionSince compares the binary search with a search entry by entry.
func TestPositionSince(t *testing.T) {
	t.Parallel()
	b := setup(t)
	start := noon.Truncate(time.Millisecond).AddDate(-1, 0, 0)
	offsets := []int{0, 0, 1, 5, 5, 5, 9, 20, 20}
	var drafts []domain.Draft
	for i, o := range offsets {
		drafts = append(drafts, at(client(t, "w", fmt.Sprint(i), "n"), start.Add(ms(o))))
	}
	since := func(w string, when time.Time) (position int64) {
		if err := b.pool.QueryRow(t.Context(), `SELECT log_position_since($1, $2)`, w, when).Scan(&position); err != nil {
			t.Fatal(err)
		}
		return position
	}
	for n := range len(drafts) + 1 {
		if n > 0 {
			b.append(t, drafts[n-1])
		}
		for o := -1; o <= 22; o++ {
			want := int64(1)
			for _, each := range offsets[:n] {
				if each < o {
					want++
				}
			}
			if got := since("w", start.Add(ms(o))); got != want {
				t.Errorf("of %d entries, since +%d ms: %d, want %d", n, o, got, want)
			}
		}
	}
	if got := since("nobody", start); got != 1 {
		t.Errorf("unknown workspace: %d", got)
	}
}

// follow calls do with every entry of a workspace, also those that come later.
func follow(ctx context.Context, log *eventlog.Log, notifier *eventlog.Notifier, workspaceID string, after int64, do func(*domain.Entry) error) error {
	return notifier.Follow(ctx, eventlog.TopicAppended, func(ctx context.Context) error {
		return log.Walk(ctx, workspaceID, after, func(e *domain.Entry) error {
			after = e.Position
			return do(e)
		})
	})
}

// follower follows a workspace until the test ends.
func follower(t *testing.T, log *eventlog.Log, notifier *eventlog.Notifier, workspaceID string, after int64) <-chan int64 {
	t.Helper()
	seen := make(chan int64)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		ended <- follow(ctx, log, notifier, workspaceID, after, func(e *domain.Entry) error {
			select {
			case seen <- e.Position:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("the follower ended with %v", err)
		}
	})
	return seen
}

func expect(t *testing.T, seen <-chan int64, positions ...int64) {
	t.Helper()
	for _, want := range positions {
		if got := testkit.Receive(t, seen, fmt.Sprint("position ", want)); got != want {
			t.Fatalf("position %d, want %d", got, want)
		}
	}
}

// TestFollow: it gives the entries there are, then those that come, also of a
// workspace that does not exist yet.
func TestFollow(t *testing.T) {
	t.Parallel()
	b := setup(t)
	notifier := newNotifier(b.pool)
	b.log = newLog(t, eventlog.Config{Pool: b.pool, Clock: b.clock.Now, Notify: notifier.Notify})
	b.append(t, many(t, "w", 3)...)
	old, late, fresh := follower(t, b.log, notifier, "w", 0), follower(t, b.log, notifier, "w", 2), follower(t, b.log, notifier, "new", 0)
	expect(t, old, 1, 2, 3)
	expect(t, late, 3)
	b.append(t, client(t, "x", "elsewhere", "n"))
	b.append(t, client(t, "w", "4", "n"))
	b.append(t, client(t, "new", "1", "n"), client(t, "w", "5", "n"))
	expect(t, old, 4, 5)
	expect(t, late, 4, 5)
	expect(t, fresh, 1)
}

// TestFollowWithoutNotifications: nothing depends on them.
func TestFollowWithoutNotifications(t *testing.T) {
	t.Parallel()
	b := setup(t)
	seen := follower(t, b.log, newNotifier(b.pool), "w", 0)
	b.append(t, client(t, "w", "1", "n"))
	expect(t, seen, 1)
	b.append(t, client(t, "w", "2", "n"))
	expect(t, seen, 2)
}

func TestFollowEndsWithItsHandler(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.append(t, many(t, "w", 3)...)
	stop := errors.New("stop")
	err := follow(t.Context(), b.log, newNotifier(b.pool), "w", 1, func(e *domain.Entry) error {
		return fmt.Errorf("at %d: %w", e.Position, stop)
	})
	if !errors.Is(err, stop) || err.Error() != "at 2: stop" {
		t.Errorf("ended with %v", err)
	}
}

func TestChainsAt(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.append(t, client(t, "v", "1", "n"), client(t, "v", "2", "n"), client(t, "w", "1", "n"))
	chains, err := eventlog.ChainsAt(t.Context(), b.log, map[string]int64{"v": 2, "w": 2, "x": 1})
	if err != nil {
		t.Fatal(err)
	}
	if len(chains) != 1 || chains["v"] != b.entries(t, "v")[1].Chain {
		t.Errorf("chains %x", chains)
	}
	if chains, err = eventlog.ChainsAt(t.Context(), b.log, nil); err != nil || len(chains) > 0 {
		t.Errorf("of none: %x, error %v", chains, err)
	}
}

func TestAppendedSince(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for _, d := range many(t, "w", 7) { // each in a transaction of its own
		b.append(t, d)
	}
	since := func(at time.Time) int64 {
		t.Helper()
		return testkit.Must(b.log.AppendedSince(t.Context(), "w", at))(t)
	}
	for position := int64(1); position <= 7; position++ {
		var at time.Time
		testkit.Must(0, b.pool.QueryRow(t.Context(), `SELECT appended_at FROM event_log WHERE workspace_id = 'w' AND position = $1`, position).Scan(&at))(t)
		if at, after := since(at), since(at.Add(time.Microsecond)); at != position || after != position+1 {
			t.Errorf("the entry at %d: %d and then %d", position, at, after)
		}
	}
	if first := since(time.Unix(0, 0)); first != 1 {
		t.Errorf("since ever: %d", first)
	}
	if none := testkit.Must(b.log.AppendedSince(t.Context(), "nobody", time.Unix(0, 0)))(t); none != 1 {
		t.Errorf("no workspace: %d", none)
	}
}
