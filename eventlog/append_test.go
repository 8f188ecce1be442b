package eventlog_test

import (
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/eventlog"
)

func ms(n int) time.Duration { return time.Duration(n) * time.Millisecond }

// TestPublishTime is the rule of docs/contract/log.md, "An entry", created_at: cut to the
// millisecond, not before the newest, at most 5 minutes ahead; absent: now,
// and never before the newest.
func TestPublishTime(t *testing.T) {
	t.Parallel()
	nowMS := noon.Truncate(time.Millisecond)
	for name, c := range map[string]struct {
		newest, given, want time.Time // zero newest: an empty log; zero given: absent
		reason              error
		detail              string
	}{
		"absent":                          {want: nowMS},
		"absent, after an older":          {newest: nowMS.Add(-time.Hour), want: nowMS},
		"absent, the newest is ahead":     {newest: nowMS.Add(time.Minute), want: nowMS.Add(time.Minute)},
		"history":                         {given: nowMS.AddDate(-20, 0, 0), want: nowMS.AddDate(-20, 0, 0)},
		"cut, not rounded":                {given: nowMS.Add(-ms(1) - 1), want: nowMS.Add(-ms(2))},
		"the first moment of 1970":        {given: time.Unix(0, 999_999), want: time.Unix(0, 0)},
		"another zone":                    {given: nowMS.In(time.FixedZone("", 7200)), want: nowMS},
		"equal to the newest":             {newest: nowMS, given: nowMS, want: nowMS},
		"equal to the newest once cut":    {newest: nowMS.Add(-ms(5)), given: nowMS.Add(-ms(5) + 999_000), want: nowMS.Add(-ms(5))},
		"a millisecond before the newest": {newest: nowMS, given: nowMS.Add(-ms(1)), reason: eventlog.ErrBeforeNewest, detail: domain.FormatTime(nowMS)},
		"a hair before the newest":        {newest: nowMS, given: nowMS.Add(-1000), reason: eventlog.ErrBeforeNewest, detail: domain.FormatTime(nowMS)},
		"5 minutes ahead":                 {given: nowMS.Add(5 * time.Minute), want: nowMS.Add(5 * time.Minute)},
		"5 minutes ahead once cut":        {given: nowMS.Add(5*time.Minute + 999_000), want: nowMS.Add(5 * time.Minute)},
		"more than 5 minutes ahead":       {given: nowMS.Add(5*time.Minute + ms(1)), reason: eventlog.ErrAhead, detail: domain.FormatTime(nowMS)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			if !c.newest.IsZero() {
				b.append(t, at(client(t, "w", "newest", "n"), c.newest))
			}
			receipts, err := b.log.Append(t.Context(), at(client(t, "w", "e", "n"), c.given))
			if c.reason != nil {
				if detail := refusal(t, err, 0, "e", c.reason); !strings.Contains(detail, c.detail) {
					t.Errorf("detail %q, want it to name %s", detail, c.detail)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			entries := b.soundLog(t, "w")
			if got := entries[len(entries)-1].CreatedAt; !got.Equal(c.want) || !receipts[0].CreatedAt.Equal(c.want) {
				t.Errorf("published at %v, receipt %v, want %v", got, receipts[0].CreatedAt, c.want)
			}
		})
	}
}

func TestPublishTimesOfOneCall(t *testing.T) {
	t.Parallel()
	b := setup(t)
	old := noon.Truncate(time.Millisecond).AddDate(-1, 0, 0)
	b.append(t, at(client(t, "w", "a", "n"), old), client(t, "w", "b", "n"), client(t, "w", "c", "n"))
	_, err := b.log.Append(t.Context(), client(t, "w", "d", "n"), at(client(t, "w", "e", "n"), old))
	refusal(t, err, 1, "e", eventlog.ErrBeforeNewest)
	if got := b.ids(t, "w"); !slices.Equal(got, []string{"a", "b", "c"}) {
		t.Errorf("the log holds %v", got)
	}
	b.soundLog(t, "w")
}

func TestClockSetBack(t *testing.T) {
	t.Parallel()
	b := setup(t)
	first := b.append(t, client(t, "w", "a", "n"))[0]
	b.clock.Advance(-time.Hour)
	second := b.append(t, client(t, "w", "b", "n"))[0]
	if !second.CreatedAt.Equal(first.CreatedAt) {
		t.Errorf("published at %v after %v", second.CreatedAt, first.CreatedAt)
	}
}

func TestImpossibleYearIsRefused(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for _, year := range []int{-1, 0, 1, 1969, 10_000} {
		if _, err := b.log.Append(t.Context(), at(client(t, "w", "a", "n"), time.Date(year, 6, 1, 0, 0, 0, 0, time.UTC))); err == nil {
			t.Errorf("an entry of the year %d was taken", year)
		}
	}
}

// TestIdempotency: an entry that the log holds is skipped before any rule
// about time, and its created_at does not matter; other content is an
// error.
func TestIdempotency(t *testing.T) {
	t.Parallel()
	b := setup(t)
	first := b.append(t, sent(t, "w", "a", "i"), client(t, "w", "b", "n"))
	for name, again := range map[string]domain.Draft{
		"the same":            sent(t, "w", "a", "i"),
		"with an old time":    at(sent(t, "w", "a", "i"), noon.AddDate(-3, 0, 0)),
		"with a time to come": at(sent(t, "w", "a", "i"), noon.AddDate(3, 0, 0)),
	} {
		receipts := b.append(t, again)
		want := first[0]
		want.Skipped = true
		if receipts[0] != want {
			t.Errorf("%s: receipt %+v, want %+v", name, receipts[0], want)
		}
	}
	_, err := b.log.Append(t.Context(), sent(t, "w", "a", "other"))
	refusal(t, err, 0, "a", eventlog.ErrOtherContent)
	_, err = b.log.Append(t.Context(), client(t, "w", "c", "n"), client(t, "w", "a", "n"))
	refusal(t, err, 1, "a", eventlog.ErrOtherContent)

	mixed := b.append(t, client(t, "w", "c", "n"), client(t, "w", "b", "n"), client(t, "w", "d", "n"))
	if mixed[0].Position != 3 || mixed[1].Position != 2 || !mixed[1].Skipped || mixed[2].Position != 4 {
		t.Errorf("receipts %+v", mixed)
	}
	if got := b.ids(t, "w"); !slices.Equal(got, []string{"a", "b", "c", "d"}) {
		t.Errorf("the log holds %v", got)
	}
	if other := b.append(t, sent(t, "x", "a", "other"))[0]; other.Skipped || other.Position != 1 {
		t.Errorf("the same id in another workspace: %+v", other)
	}
	b.soundLog(t, "w")
}

func TestSameIDTwiceInOneCall(t *testing.T) {
	t.Parallel()
	b := setup(t)
	receipts := b.append(t, client(t, "w", "a", "n"), client(t, "w", "b", "n"), client(t, "w", "a", "n"), client(t, "x", "a", "n"))
	if receipts[0].Skipped || receipts[0].Position != 1 || !receipts[2].Skipped || receipts[2].Position != 1 || receipts[3].Skipped {
		t.Errorf("receipts %+v", receipts)
	}
	_, err := b.log.Append(t.Context(), client(t, "w", "c", "n"), client(t, "w", "c", "m"))
	refusal(t, err, 1, "c", eventlog.ErrOtherContent)
	if got := b.ids(t, "w"); !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("the log holds %v", got)
	}
}

func TestAssignedIDs(t *testing.T) {
	t.Parallel()
	b := setup(t)
	drafts := []domain.Draft{client(t, "w", "", "n"), client(t, "w", "", "n")}
	receipts := b.append(t, drafts...)
	for i, r := range receipts {
		if !strings.HasPrefix(r.ID, "evt_") || !domain.IsID(r.ID) || r.Skipped {
			t.Errorf("receipt %+v", r)
		}
		if drafts[i].ID != "" {
			t.Error("the caller's drafts were changed")
		}
	}
	if receipts[0].ID >= receipts[1].ID {
		t.Errorf("ids %s and %s do not rise", receipts[0].ID, receipts[1].ID)
	}
}

// appendIf appends an entry on the condition that the workspace's newest position
// is the expected one. Only log_append offers that, for callers in SQL.
func (b *bundle) appendIf(t *testing.T, expected int64, d domain.Draft) (head int64, done bool) {
	t.Helper()
	var outcomes []string
	err := b.pool.QueryRow(t.Context(), `
		SELECT head, outcomes FROM log_append($1, $2, $3, true, ARRAY[$4], ARRAY[$5], ARRAY[NULL::timestamptz], ARRAY[$6], ARRAY[NULL], NULL, NULL)`,
		d.WorkspaceID, b.clock.Now(), expected, d.ID, d.Type, d.Data).Scan(&head, &outcomes)
	if err != nil {
		t.Error(err)
	}
	return head, len(outcomes) > 0
}

func TestExpectedPosition(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for i, id := range []string{"a", "b"} {
		if _, done := b.appendIf(t, int64(i), client(t, "w", id, "n")); !done {
			t.Errorf("%s is not appended", id)
		}
	}
	for _, expected := range []int64{0, 1, 3} {
		if head, done := b.appendIf(t, expected, client(t, "w", "c", "n")); done || head != 2 {
			t.Errorf("expecting %d: at %d, appended: %v", expected, head, done)
		}
	}
	if _, done := b.appendIf(t, 2, client(t, "w", "c", "n")); !done || len(b.soundLog(t, "w")) != 3 {
		t.Error("not appended at the expected position")
	}
}

// TestOnlyOneOfManyWins: of callers that decided on the same position, one
// appends and the others learn of the conflict.
func TestOnlyOneOfManyWins(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.append(t, client(t, "w", "a", "n"))
	const callers = 8
	var (
		won   atomic.Int64
		group sync.WaitGroup
	)
	for i := range callers {
		d := client(t, "w", "by-"+string(rune('0'+i)), "n")
		group.Go(func() {
			if _, done := b.appendIf(t, 1, d); done {
				won.Add(1)
			}
		})
	}
	group.Wait()
	if won.Load() != 1 || len(b.soundLog(t, "w")) != 2 {
		t.Errorf("%d callers won", won.Load())
	}
}

// TestManyWorkspacesAllOrNothing: after a refusal in one workspace nothing of the
// call is appended in any.
func TestManyWorkspacesAllOrNothing(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.append(t, client(t, "x", "taken", "n"))
	call := []domain.Draft{client(t, "y", "1", "n"), client(t, "w", "2", "n"), client(t, "x", "taken", "m"), client(t, "w", "3", "n"), client(t, "x", "late", "n")}
	_, err := b.log.Append(t.Context(), call...)
	refusal(t, err, 2, "taken", eventlog.ErrOtherContent)
	if n := len(b.ids(t, "w")) + len(b.ids(t, "y")); n != 0 || len(b.ids(t, "x")) != 1 {
		t.Error("a part of a refused call was appended")
	}
	if workspaces, err := b.workspaces().IDs(t.Context()); err != nil || !slices.Equal(workspaces, []string{"x"}) {
		t.Errorf("workspaces %v, error %v", workspaces, err)
	}

	call[2] = client(t, "x", "free", "n")
	receipts := b.append(t, call...)
	var positions []int64
	for i, r := range receipts {
		positions = append(positions, r.Position)
		if r.ID != call[i].ID {
			t.Errorf("receipt %d is of %s", i, r.ID)
		}
	}
	if !slices.Equal(positions, []int64{1, 1, 2, 2, 3}) {
		t.Errorf("positions %v", positions)
	}
	for _, w := range []string{"w", "x", "y"} {
		b.soundLog(t, w)
	}
}

// TestFirstRefusalIsTheCallersFirst: the order in which workspaces are locked does
// not show.
func TestFirstRefusalIsTheCallersFirst(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.append(t, client(t, "a", "taken", "n"), client(t, "z", "taken", "n"))
	_, err := b.log.Append(t.Context(), client(t, "z", "taken", "m"), client(t, "a", "taken", "m"))
	refusal(t, err, 0, "taken", eventlog.ErrOtherContent)
}

func TestUncheckedDraftsAreRefused(t *testing.T) {
	t.Parallel()
	b := setup(t)
	bad := client(t, "w", "not an id", "n")
	for name, d := range map[string]domain.Draft{"made by hand": {WorkspaceID: "w", Type: "client.recorded"}, "id": bad} {
		if _, err := b.log.Append(t.Context(), d); err == nil {
			t.Errorf("%s: taken", name)
		}
		if _, err := b.log.AppendTx(t.Context(), b.begin(t), d); err == nil {
			t.Errorf("%s: taken by AppendTx", name)
		}
	}
	if receipts, err := b.log.Append(t.Context()); err != nil || receipts != nil {
		t.Errorf("an append of nothing: %v, %v", receipts, err)
	}
	tooMany := make([]domain.Draft, 10_001)
	for i := range tooMany {
		tooMany[i] = bad
	}
	if _, err := b.log.Append(t.Context(), tooMany...); err == nil || !strings.Contains(err.Error(), "10000") {
		t.Errorf("too many: %v", err)
	}
}
