//go:build full && unix

package eventlog_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit/pgserver"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit/twonodes"
)

func enterCluster(t *testing.T) *twonodes.Entered {
	t.Helper()
	return twonodes.Enter(t, testkit.Discard(), pg.Options{MaxConns: 4})
}

// TestAppendsGoToTheirNode: singly, several together, in calls with one workspace and with
// several, and what is read of the log.
func TestAppendsGoToTheirNode(t *testing.T) {
	t.Parallel()
	e := enterCluster(t)
	log := testkit.Must(eventlog.New(eventlog.Config{Pool: e.CoordinatorPool, Nodes: e.Pools, Clock: time.Now}))(t)
	for _, call := range [][]domain.Draft{
		{client(t, "acme", "1", "n")},
		{client(t, "beta", "2", "n")},
		{client(t, "beta", "3", "n"), client(t, "beta", "4", "n")},
		{client(t, "beta", "5", "n"), client(t, "zeta", "6", "n")},
	} {
		if _, err := log.Append(t.Context(), call...); err != nil {
			t.Fatalf("append %v: %v", call, err)
		}
	}
	for server, want := range map[*pgserver.Server][]string{e.Coordinator: {"1"}, e.Worker: {"2", "3", "4", "5", "6"}} {
		pool := wide(t, e.At(server), 2)
		var got []string
		if err := pool.QueryRow(t.Context(), `SELECT array_agg(id ORDER BY id) FROM event_log`).Scan(&got); err != nil || !slices.Equal(got, want) {
			t.Errorf("at port %s are the entries %v, not %v (%v)", server.Port, got, want, err)
		}
	}
	head, err := log.Head(t.Context(), "beta")
	if err != nil || head.Position != 4 {
		t.Errorf("head %v, %v", head, err)
	}
	entries, err := log.Read(t.Context(), "zeta", 0, 10)
	if err != nil || len(entries) != 1 {
		t.Errorf("entries %v, %v", entries, err)
	}
}

// TestNotificationsOfANode: what a producer notifies at a worker is heard.
func TestNotificationsOfANode(t *testing.T) {
	t.Parallel()
	e := enterCluster(t)
	n := eventlog.NewNotifier(e.CoordinatorPool, testkit.Discard())
	n.ListenAtNodes(testkit.Must(e.Set.Listening(nil))(t))
	sub, done := n.Subscribe(eventlog.TopicAppended)
	defer done()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- n.Run(ctx) }()
	defer func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	ways := func() (by []string) {
		for _, w := range n.Ways() {
			if w.Connected {
				by = append(by, w.By)
			}
		}
		return by
	}
	testkit.Eventually(t, func() error {
		if got := ways(); len(got) != 2 || !strings.HasPrefix(got[0], eventlog.WayListen+" at ") || got[1] != eventlog.WayListen {
			return fmt.Errorf("heard of by %q", got)
		}
		return nil
	})
	for _, s := range []*pgserver.Server{e.Worker, e.Coordinator} {
		sub.Take()
		s.Execute("ledgerfeed", `SELECT pg_notify('ledgerfeed_appended', '- beta')`)
		testkit.Eventually(t, func() error {
			if ids, _ := sub.Take(); !slices.Contains(ids, "beta") {
				return fmt.Errorf("not heard of what port %s notifies", s.Port)
			}
			return nil
		})
	}
}
