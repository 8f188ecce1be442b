package eventlog_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

// TestKeptFromAnyHint looks for the beginning of a feed at times in any order, so that the
// answer before, which the next question tries first, is right, too low and too high; and while
// the log grows, and after it went back.
func TestKeptFromAnyHint(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(testkit.Seed(t), 0))
	f := newFeed(t)
	feed := f.feed()
	var ages []int // days, by position
	check := func(daysOld int) {
		t.Helper()
		want := int64(1)
		for _, age := range ages {
			if age > daysOld {
				want++
			}
		}
		oldest := f.now.AddDate(0, 0, -daysOld)
		kept, err := feed.KeptFrom(t.Context(), "acme", oldest)
		if err != nil || kept != want {
			t.Fatalf("ages %v, %d days: kept from %d, want %d (%v)", ages, daysOld, kept, want, err)
		}
		if len(ages) == 0 {
			return // there is no workspace yet
		}
		page, err := feed.Page(t.Context(), eventlog.FeedQuery{WorkspaceID: "acme", Oldest: oldest, Limit: 1})
		if err != nil || page.Kept != want {
			t.Fatalf("ages %v, %d days: the page is kept from %d, want %d (%v)", ages, daysOld, page.Kept, want, err)
		}
	}
	check(10)
	for age := 40; age > 0; age -= random.IntN(4) {
		f.publish(fmt.Sprintf("e%d", len(ages)), "invoice.paid", age)
		ages = append(ages, age)
		for range 4 {
			check(random.IntN(45))
		}
	}
	for _, sql := range []string{
		`ALTER TABLE event_log DISABLE TRIGGER USER`, `DELETE FROM event_log WHERE position > 3`, `UPDATE log_head SET position = 3`,
	} {
		if _, err := f.pool.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	ages = ages[:3]
	for range 20 {
		check(random.IntN(45))
	}
}
