package eventlog_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"pgregory.net/rapid"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/eventlog"
)

// model is the log as docs/contract/log.md, "An entry", describes it, in a few lines.
type model map[string][]domain.Draft

// judge decides about one entry.
func (m model) judge(d domain.Draft, now time.Time) (entry domain.Draft, position int64, skipped bool, reason error) {
	log := m[d.WorkspaceID]
	for i, old := range log {
		if old.ID == d.ID {
			if old.Type != d.Type || old.Data != d.Data {
				return d, 0, false, eventlog.ErrOtherContent
			}
			return old, int64(i) + 1, true, nil
		}
	}
	now = now.Truncate(time.Millisecond)
	var newest time.Time
	if len(log) > 0 {
		newest = log[len(log)-1].CreatedAt
	}
	switch given := d.CreatedAt.Truncate(time.Millisecond); {
	case d.CreatedAt.IsZero():
		d.CreatedAt = now
		if newest.After(now) {
			d.CreatedAt = newest
		}
	case given.Before(newest):
		return d, 0, false, eventlog.ErrBeforeNewest
	case given.After(now.Add(5 * time.Minute)):
		return d, 0, false, eventlog.ErrAhead
	default:
		d.CreatedAt = given
	}
	return d, int64(len(log)) + 1, false, nil
}

func (m model) clone() model {
	c := model{}
	for w, log := range m {
		c[w] = slices.Clone(log)
	}
	return c
}

// append appends all or nothing; refused is the first refused entry of the call.
func (m model) append(drafts []domain.Draft, now time.Time) (receipts []eventlog.Receipt, refused int, reason error) {
	after := m.clone()
	refused = -1
	for i, d := range drafts {
		entry, position, skipped, why := after.judge(d, now)
		if why != nil {
			if refused < 0 {
				refused, reason = i, why
			}
			continue
		}
		if !skipped {
			after[d.WorkspaceID] = append(after[d.WorkspaceID], entry)
		}
		receipts = append(receipts, eventlog.Receipt{ID: d.ID, Position: position, CreatedAt: entry.CreatedAt, Skipped: skipped})
	}
	if refused >= 0 {
		return nil, refused, reason
	}
	for w, log := range after {
		m[w] = log
	}
	return receipts, -1, nil
}

// TestAppendAgreesWithTheModel makes random calls, by every way into the log, and
// compares the log with the model.
func TestAppendAgreesWithTheModel(t *testing.T) {
	t.Parallel()
	b := setup(t)
	run := 0
	rapid.Check(t, func(rt *rapid.T) {
		run++
		m := model{}
		workspaces := []string{fmt.Sprintf("a%d", run), fmt.Sprintf("b%d", run)}
		for range rapid.IntRange(1, 12).Draw(rt, "calls") {
			b.clock.Advance(time.Duration(rapid.IntRange(-2000, 2000).Draw(rt, "clock moves by µs")) * time.Microsecond)
			play(rt, t, b, m, workspaces)
		}
		for _, w := range workspaces {
			if len(m[w]) > 0 {
				agrees(rt, t, b, w, m[w])
			}
		}
	})
}

// play makes one random call and compares its outcome.
func play(rt *rapid.T, t *testing.T, b *bundle, m model, workspaces []string) {
	ctx := t.Context()
	way := rapid.SampledFrom([]string{"append", "append", "tx commit", "tx rollback", "publish"}).Draw(rt, "way")
	n := rapid.IntRange(1, 4).Draw(rt, "entries")
	if way == "publish" {
		workspaces = workspaces[:1]
	}
	drafts := make([]domain.Draft, n)
	for i := range drafts {
		drafts[i] = drawDraft(rt, t, b, m, rapid.SampledFrom(workspaces).Draw(rt, "workspace"))
	}
	if sameIDOtherContent(drafts) {
		return // refused before the database is asked; see TestSameIDTwiceInOneCall
	}
	before := m.clone()
	want, index, reason := m.append(drafts, b.clock.Now())
	var (
		got []eventlog.Receipt
		err error
	)
	switch way {
	case "append":
		got, err = b.log.Append(ctx, drafts...)
	case "publish":
		err = publish(ctx, b.pool, b.clock.Now(), drafts...)
		got = want
	default:
		got, err = inTx(ctx, b, drafts, way == "tx commit")
		if way == "tx rollback" {
			restore(m, before)
		}
	}
	var refused *eventlog.RefusedError
	switch {
	case reason == nil && err != nil, reason != nil && !errors.As(err, &refused):
		rt.Fatalf("%s of %v: %v, want %v", way, names(drafts), err, reason)
	case reason != nil && (refused.Index != index || !errors.Is(err, reason)):
		rt.Fatalf("%s of %v refused entry %d: %v; want entry %d: %v", way, names(drafts), refused.Index, err, index, reason)
	case !slices.Equal(got, want):
		rt.Fatalf("%s of %v: receipts %+v, want %+v", way, names(drafts), got, want)
	}
}

func restore(m, before model) {
	clear(m)
	for w, log := range before {
		m[w] = log
	}
}

func names(drafts []domain.Draft) (list []string) {
	for _, d := range drafts {
		list = append(list, d.WorkspaceID+"/"+d.ID+"@"+d.CreatedAt.Format(time.RFC3339Nano))
	}
	return list
}

func sameIDOtherContent(drafts []domain.Draft) bool {
	for i, d := range drafts {
		for _, e := range drafts[:i] {
			if d.WorkspaceID == e.WorkspaceID && d.ID == e.ID && (d.Data != e.Data || d.Type != e.Type) {
				return true
			}
		}
	}
	return false
}

func drawDraft(rt *rapid.T, t *testing.T, b *bundle, m model, workspaceID string) domain.Draft {
	id := fmt.Sprint("e", rapid.IntRange(0, 15).Draw(rt, "id"))
	d := client(t, workspaceID, id, "n")
	if rapid.IntRange(0, 4).Draw(rt, "content") == 0 {
		d = sent(t, workspaceID, id, "i")
	}
	base := b.clock.Now()
	if log := m[workspaceID]; len(log) > 0 && rapid.Bool().Draw(rt, "near the newest") {
		base = log[len(log)-1].CreatedAt
	}
	switch rapid.IntRange(0, 9).Draw(rt, "time") {
	case 0, 1:
		d.CreatedAt = base.Add(time.Duration(rapid.IntRange(-1500, 1500).Draw(rt, "µs")) * time.Microsecond)
	case 2:
		d.CreatedAt = base.Add(5*time.Minute + time.Duration(rapid.IntRange(-1500, 1500).Draw(rt, "µs"))*time.Microsecond)
	case 3:
		d.CreatedAt = base.AddDate(-1, 0, 0)
	}
	return d
}

// publish appends to one workspace by the statement for producers. db is a pool or
// a transaction.
func publish(ctx context.Context, db interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
}, now time.Time, drafts ...domain.Draft,
) error {
	sql, args, err := eventlog.PublishQuery(drafts[0].WorkspaceID, now, drafts)
	if err == nil {
		_, err = db.Exec(ctx, sql, args...)
	}
	return eventlog.AppendError(drafts[0].WorkspaceID, err)
}

func inTx(ctx context.Context, b *bundle, drafts []domain.Draft, commit bool) (receipts []eventlog.Receipt, err error) {
	rollback := errors.New("roll back")
	err = pgx.BeginFunc(ctx, b.pool, func(tx pgx.Tx) error {
		receipts, err = b.log.AppendTx(ctx, tx, drafts...)
		if err == nil && !commit {
			return rollback
		}
		return err
	})
	if errors.Is(err, rollback) {
		err = nil
	}
	return receipts, err
}

// agrees compares a workspace's log with the model's, the chain included.
func agrees(rt *rapid.T, t *testing.T, b *bundle, workspaceID string, want []domain.Draft) {
	entries := b.soundLog(t, workspaceID)
	if len(entries) != len(want) {
		rt.Fatalf("%s holds %d entries, want %d", workspaceID, len(entries), len(want))
	}
	chain := domain.Genesis(workspaceID)
	for i := range want {
		d := &want[i]
		d.WorkspaceID, d.Salt = workspaceID, entries[i].Salt // the log makes it
		e := d.Entry()
		e.Position = int64(i) + 1
		chain = e.ChainAfter(chain)
		if entries[i].Chain != chain {
			rt.Fatalf("%s: entry %d is %s, want %s", workspaceID, i+1, entries[i].AppendNDJSON(nil), e.AppendNDJSON(nil))
		}
	}
}
