package eventlog_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

// refuse nacks every attempt at an entry until its workspace is quarantined there,
// and handles all other entries, because a message that is not taken holds its
// checkpoint.
func (c *consumer) refuse(workspaceID string, position int64) {
	c.t.Helper()
	c.eventually("the workspace is quarantined and others are done", func() bool {
		done := true
		for _, p := range c.progress() {
			done = done && (p.Quarantined || p.WorkspaceID != workspaceID && p.Position == p.Head)
		}
		if done {
			return true
		}
		for {
			msg, offered := testkit.Offered(c.messages)
			if !offered {
				c.clock.Advance(time.Minute) // its wait is over
				return false
			}
			claim, err := eventlog.ClaimOf(msg)
			if err != nil {
				c.t.Fatal(err)
			}
			if takes(claim, workspaceID, position) {
				msg.Nack()
				continue
			}
			handle(c.t, msg, claim)
			msg.Ack()
		}
	})
}

// takes reports whether a claim has the entry at a position of a workspace.
func takes(claim *eventlog.Claim, workspaceID string, position int64) bool {
	return slices.ContainsFunc(claim.Segments, func(s eventlog.Segment) bool {
		return s.WorkspaceID == workspaceID && s.After < position && position <= s.End()
	})
}

func (c *consumer) quarantine() *eventlog.Quarantine {
	return eventlog.NewQuarantine(c.pool, eventlog.ReadModels, c.clock.Now, c.notifier.Notify)
}

func TestSkippingWhatCannotBeHandled(t *testing.T) {
	t.Parallel()
	c := startConsumer(t, 8)
	c.fill("a", 12)
	c.fill("b", 12)
	c.refuse("a", 5)

	history, err := c.quarantine().Failures(t.Context(), "a")
	if err != nil || len(history) == 0 {
		t.Fatalf("history %+v, %v", history, err)
	}
	last := history[len(history)-1]
	if last.From != 5 || last.Through != 5 || last.Error == "" || last.Times < 1 || last.FirstAt.After(last.LastAt) {
		t.Errorf("the last failure is %+v", last)
	}
	// Tried again, it fails again, and that is counted.
	if err := c.quarantine().Retry(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	msg, _ := c.next()
	msg.Nack()
	c.eventually("the failure is counted", func() bool {
		now, err := c.quarantine().Failures(t.Context(), "a")
		return err == nil && len(now) == len(history) && now[len(now)-1].Times == last.Times+1
	})

	if _, err := c.quarantine().Skip(t.Context(), "a", ""); err == nil {
		t.Error("skipped without a reason")
	}
	skip, err := c.quarantine().Skip(t.Context(), "a", "sent twice by the importer")
	if err != nil {
		t.Fatal(err)
	}
	entry, err := c.log.EntryAt(t.Context(), "a", 5)
	if err != nil || entry == nil {
		t.Fatal(entry, err)
	}
	if skip.Position != 5 || skip.EventID != entry.ID || skip.Type != entry.Type || skip.Error == "" {
		t.Errorf("skipped %+v, the entry is %+v", skip, entry)
	}
	skips, err := c.quarantine().Skips(t.Context(), "")
	if err != nil || len(skips) != 1 || skips[0] != skip {
		t.Errorf("skips %+v, %v, want %+v", skips, err, skip)
	}
	c.drain()
	for _, p := range c.progress() {
		if p.Quarantined || p.Failures > 0 || p.Position != 12 {
			t.Errorf("after the skip: %+v", p)
		}
	}
	if n := c.handledRows(); n != 23 {
		t.Errorf("%d entries were handled, want all but one of 24", n)
	}
	if err := c.quarantine().Retry(t.Context(), "a"); !errors.As(err, new(*eventlog.NotQuarantinedError)) {
		t.Errorf("retry of a healthy workspace: %v", err)
	}
	if _, err := c.quarantine().Skip(t.Context(), "a", "no"); !errors.As(err, new(*eventlog.NotQuarantinedError)) {
		t.Errorf("skip in a healthy workspace: %v", err)
	}
	if _, err := c.quarantine().Skip(t.Context(), "nobody", "no"); !errors.As(err, new(*domain.UnknownWorkspaceError)) {
		t.Errorf("skip in no workspace: %v", err)
	}
	if none, err := c.log.EntryAt(t.Context(), "a", 13); none != nil || err != nil {
		t.Errorf("an entry that is not there: %+v, %v", none, err)
	}
}

// TestFailuresAreBounded: the history does not grow without bound, also when every
// error is different.
func TestFailuresAreBounded(t *testing.T) {
	t.Parallel()
	c := startConsumer(t, 1)
	c.fill("a", 1)
	c.exec(t, `INSERT INTO log_failure SELECT 'a', 'read_models', 1, 1, n::text, n::text, 1, to_timestamp(n), to_timestamp(n) FROM generate_series(1, 60) n`)
	msg, _ := c.next()
	msg.Nack()
	c.eventually("old failures are forgotten", func() bool {
		list, err := c.quarantine().Failures(t.Context(), "a")
		return err == nil && len(list) == 50 && list[0].Error == "12" && !strings.Contains(list[49].Error, "60")
	})
}
