package eventlog

import (
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// newPeers makes the Notifiers of processes that project and have heard of each other.
func newPeers(n int) (list []*Notifier) {
	for range n {
		p := NewNotifier(nil, slog.New(slog.DiscardHandler))
		p.projects.Store(true)
		list = append(list, p)
	}
	for _, from := range list {
		for _, to := range list {
			to.take(TopicProjected, from.sender()+" w")
		}
	}
	return list
}

func names(n int) (workspaces []string) {
	for i := range n {
		workspaces = append(workspaces, fmt.Sprintf("workspace-%05d", i))
	}
	return workspaces
}

func TestEachWorkspaceIsPreferredByOneProcess(t *testing.T) {
	t.Parallel()
	const processes, even = 12, 1_000
	all := names(processes * even)
	var claimed []string
	for _, p := range newPeers(processes) {
		mine, others := p.preferred(all)
		if len(mine)+len(others) != len(all) {
			t.Errorf("%d and %d workspaces of %d", len(mine), len(others), len(all))
		}
		if len(mine) < even*8/10 || len(mine) > even*12/10 {
			t.Errorf("%d workspaces prefer a process, an even share is %d", len(mine), even)
		}
		claimed = append(claimed, mine...)
	}
	slices.Sort(claimed)
	if !slices.Equal(claimed, all) {
		t.Errorf("%d workspaces prefer a process, want each of %d once", len(claimed), len(all))
	}
}

func TestOnlyLivingProcessesThatProjectArePreferred(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p, api := newPeers(2)[0], NewNotifier(nil, slog.New(slog.DiscardHandler))
		all := names(100)
		if _, others := p.preferred(all); len(others) == 0 {
			t.Error("no workspace is left to the peer")
		}
		<-time.After(peerTime + 1) // in the bubble's time
		p.take(TopicProjected, api.sender()+" w")
		p.take(TopicAppended, "- w")
		if mine, others := p.preferred(all); len(mine) != len(all) {
			t.Errorf("%v are left to a peer that is gone, to a process that does not project, or to nobody", others)
		}
	})
}

// TestAPeerIsYieldedToForAMoment: what a peer leaves undone is claimed after yieldTime.
func TestAPeerIsYieldedToForAMoment(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newConsumer(&SubscriberConfig{Notifier: newPeers(2)[0], Logger: slog.New(slog.DiscardHandler)}, ReadModels)
		all := names(100)
		mine, others := c.preferred(all)
		c.markYielding(t.Context(), all)
		synctest.Wait()
		if got, _ := c.dirty.takeNow(len(all)); !slices.Equal(got, mine) {
			t.Errorf("at once: %v, want %v", got, mine)
		}
		c.yielding.Wait()
		if got, _ := c.dirty.takeNow(len(all)); !slices.Equal(got, others) {
			t.Errorf("after a moment: %v, want %v", got, others)
		}
	})
}

// TestOtherConsumersYieldToNobody: other processes do not tell what these have handled.
func TestOtherConsumersYieldToNobody(t *testing.T) {
	t.Parallel()
	c := newConsumer(&SubscriberConfig{Notifier: newPeers(2)[0], Logger: slog.New(slog.DiscardHandler)}, "other")
	if mine, others := c.preferred(names(100)); len(others) > 0 {
		t.Errorf("%d are left to others, %d are not", len(others), len(mine))
	}
}
