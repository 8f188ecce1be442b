package eventlog_test

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/eventlog"
)

// judgement is what log_append says of one entry of a call.
type judgement struct {
	outcome  string
	position int64
}

// TestEntriesThatDoNotDependOnEachOtherAgreeWithTheModel makes the calls that a group of
// callers makes together: what one is refused for affects no other. Few are inserted one by
// one and many at once.
func TestEntriesThatDoNotDependOnEachOtherAgreeWithTheModel(t *testing.T) {
	t.Parallel()
	b := setup(t)
	run := 0
	rapid.Check(t, func(rt *rapid.T) {
		run++
		m, workspaceID := model{}, fmt.Sprintf("g%d", run)
		for range rapid.IntRange(1, 6).Draw(rt, "calls") {
			b.clock.Advance(time.Duration(rapid.IntRange(-2000, 2000).Draw(rt, "clock moves by µs")) * time.Microsecond)
			var drafts []domain.Draft
			for range rapid.IntRange(1, 12).Draw(rt, "entries") {
				d := drawDraft(rt, t, b, m, workspaceID)
				if !slices.ContainsFunc(drafts, func(e domain.Draft) bool { return e.ID == d.ID }) {
					drafts = append(drafts, d)
				}
			}
			want := m.appendEach(drafts, b.clock.Now())
			if got := appendEach(rt, t, b, workspaceID, drafts); !slices.Equal(got, want) {
				rt.Fatalf("%v: %v, want %v", names(drafts), got, want)
			}
		}
		if len(m[workspaceID]) > 0 {
			agrees(rt, t, b, workspaceID, m[workspaceID])
		}
	})
}

// appendEach appends what can be.
func (m model) appendEach(drafts []domain.Draft, now time.Time) (list []judgement) {
	for _, d := range drafts {
		entry, position, skipped, reason := m.judge(d, now)
		switch {
		case reason == nil && !skipped:
			m[d.WorkspaceID] = append(m[d.WorkspaceID], entry)
			list = append(list, judgement{"appended", position})
		case skipped:
			list = append(list, judgement{"skipped", position})
		default:
			list = append(list, judgement{outcome: reason.Error()})
		}
	}
	return list
}

// appendEach calls log_append as it is called for callers that know nothing of each other.
func appendEach(rt *rapid.T, t *testing.T, b *bundle, workspaceID string, drafts []domain.Draft) (list []judgement) {
	var (
		ids, types, datas []string
		created           []*time.Time
		publics, values   []*string
		salts             [][]byte
	)
	for i := range drafts {
		d := &drafts[i]
		ids, types, datas = append(ids, d.ID), append(types, d.Type), append(datas, d.Open())
		values, salts = append(values, nil), append(salts, nil)
		if value := d.Value(); value != "" {
			salt := sha256.Sum256([]byte(d.ID))
			values[i], salts[i] = &value, salt[:]
		}
		created, publics = append(created, nil), append(publics, nil)
		if !d.CreatedAt.IsZero() {
			created[i] = &d.CreatedAt
		}
		if data := d.PublicData(); data != "" {
			publics[i] = &data
		}
	}
	var (
		outcomes  []string
		positions []*int64
	)
	err := b.pool.QueryRow(t.Context(), `SELECT outcomes, positions FROM log_append($1, $2, NULL, false, $3, $4, $5, $6, $7, $8, $9)`,
		workspaceID, b.clock.Now(), ids, types, created, datas, publics, values, salts).Scan(&outcomes, &positions)
	if err != nil || len(outcomes) != len(drafts) || len(positions) != len(drafts) {
		rt.Fatalf("%v: outcomes %v, positions %v: %v", names(drafts), outcomes, positions, err)
	}
	for i, outcome := range outcomes {
		switch j := (judgement{outcome: outcome}); outcome {
		case "other_content":
			list = append(list, judgement{outcome: eventlog.ErrOtherContent.Error()})
		case "before_newest":
			list = append(list, judgement{outcome: eventlog.ErrBeforeNewest.Error()})
		case "ahead":
			list = append(list, judgement{outcome: eventlog.ErrAhead.Error()})
		default:
			if positions[i] != nil {
				j.position = *positions[i]
			}
			list = append(list, j)
		}
	}
	return list
}

// TestNullMeansNo: a producer's own statement may have NULL for what is not asked for.
func TestNullMeansNo(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for _, n := range []int{1, 3, 9} {
		workspaceID := fmt.Sprintf("n%d", n)
		var (
			ids, types, datas, want []string
			created                 []*time.Time
		)
		for i := range n {
			ids, types, datas = append(ids, fmt.Sprint("e", i)), append(types, "client.recorded"), append(datas, `{"client_id":"c","name":"n"}`)
			created, want = append(created, nil), append(want, "appended")
		}
		ahead := b.clock.Now().AddDate(1, 0, 0)
		created[n-1], want[n-1] = &ahead, "ahead"
		var outcomes []string
		if err := b.pool.QueryRow(t.Context(), `SELECT outcomes FROM log_append($1, $2, NULL, NULL, $3, $4, $5, $6, NULL, NULL, NULL, NULL, NULL)`,
			workspaceID, b.clock.Now(), ids, types, created, datas).Scan(&outcomes); err != nil || !slices.Equal(outcomes, want) {
			t.Errorf("%d entries: %v, %v, want %v", n, outcomes, err, want)
		}
		if n > 1 {
			if entries := b.soundLog(t, workspaceID); len(entries) != n-1 {
				t.Errorf("of %d entries %d are in the log", n, len(entries))
			}
		}
	}
}
