//go:build full

package eventlog_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/nats-io/nats.go"

	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/eventlog/natsnotify"
	"github.com/ledgerfeed/ledgerfeed/internal/bus"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit/natscluster"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit/pgserver"
	"github.com/ledgerfeed/ledgerfeed/migrations"
)

// TestNotificationsOverNATS runs the tests of notifications with two processes of which one
// hears of the other by NATS alone, as behind a pooler.
func TestNotificationsOverNATS(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]func(t *testing.T, p between){
		"across processes": notifyAcrossProcesses, "followed": followAcrossProcesses,
		"many workspaces": manyWorkspacesInOneNotification, "lost": lostListenerListensAgain,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url, servers := testkit.NewDatabase(t), natscluster.Start(t, 1)
			p := between{a: newProcess(t, url), b: newProcess(t, url)}
			p.a.carry(t, servers)
			p.b.carry(t, servers)
			p.b.notifier.ListenAt(nil)
			p.lose = func() {
				servers.Kill(0)
				servers.Run(0)
			}
			test(t, p)
		})
	}
}

// carry makes a process that does not run yet send notifications over NATS.
func (p *process) carry(t *testing.T, servers *natscluster.Cluster) {
	t.Helper()
	target := testkit.Must(natsnotify.ParseTarget(servers.URL()))(t)
	p.notifier.CarryBy(natsnotify.New(target, bus.Config{Name: "test", Logger: testkit.Discard()}))
}

// TestNotifyWithoutNATS: while the server of NATS is away, those that listen are notified by
// NOTIFY; when it is back, all are.
func TestNotifyWithoutNATS(t *testing.T) {
	t.Parallel()
	url, servers := testkit.NewDatabase(t), natscluster.Start(t, 1)
	sender, listens, deaf := newProcess(t, url), newProcess(t, url), newProcess(t, url)
	for _, p := range []*process{sender, listens, deaf} {
		p.carry(t, servers)
	}
	sender.notifier.ListenAt(nil)
	deaf.notifier.ListenAt(nil)
	for _, p := range []*process{sender, listens, deaf} {
		p.run(t)
	}
	sub, done := listens.notifier.Subscribe(eventlog.TopicAppended)
	defer done()
	servers.Kill(0)
	testkit.Eventually(t, func() error {
		for _, w := range deaf.notifier.Ways() {
			if w.Connected || w.Reason == "" {
				return fmt.Errorf("without a server: %+v", w)
			}
		}
		return nil
	})
	sender.notifier.Notify(eventlog.TopicAppended, "w")
	if ids, _ := taken(t, sub); !slices.Equal(ids, []string{"w"}) {
		t.Errorf("without the server, notified of %v", ids)
	}
	sub, done = deaf.notifier.Subscribe(eventlog.TopicAppended)
	defer done()
	servers.Run(0)
	sender.connected(t)
	deaf.connected(t)
	if _, all := taken(t, sub); !all {
		t.Error("the new connection does not begin with a sweep")
	}
	sender.notifier.Notify(eventlog.TopicAppended, "w")
	if ids, _ := taken(t, sub); !slices.Equal(ids, []string{"w"}) {
		t.Errorf("with the server, notified of %v", ids)
	}
}

// TestOneForwards: of the processes that listen, one passes on over NATS what producers say
// by NOTIFY; when its connection is gone, another one does.
func TestOneForwards(t *testing.T) {
	t.Parallel()
	url, servers := testkit.NewDatabase(t), natscluster.Start(t, 1)
	producer := newProcess(t, url)
	var listening []*process
	for range 3 {
		p := newProcess(t, url)
		p.carry(t, servers)
		p.run(t)
		listening = append(listening, p)
	}
	conn, _ := servers.Connect()
	var (
		mu   sync.Mutex
		came = map[string]int{} // how often over NATS, by workspace
	)
	testkit.Must(conn.Subscribe(natsnotify.DefaultSubject+".>", func(m *nats.Msg) {
		mu.Lock()
		defer mu.Unlock()
		came[strings.TrimPrefix(string(m.Data), "- ")]++
	}))(t)
	testkit.Must(0, conn.Flush())(t)
	// say sends a notification in SQL, and waits until all that listen have it, or know that
	// they have missed some. What was said before, each of them has then passed on, or not.
	say := func(w string) {
		t.Helper()
		var subs []*eventlog.Subscription
		for _, p := range listening {
			sub, done := p.notifier.Subscribe(eventlog.TopicAppended)
			t.Cleanup(done)
			subs = append(subs, sub)
		}
		testkit.Must(producer.pool.Exec(t.Context(), `SELECT pg_notify('ledgerfeed_appended', '- ' || $1)`, w))(t)
		for _, sub := range subs {
			for heard := false; !heard; { // of what was said before, by the other way
				ids, all := taken(t, sub)
				heard = all || slices.Contains(ids, w)
			}
		}
	}
	times := func(w string) int {
		testkit.Must(0, conn.Flush())(t)
		mu.Lock()
		defer mu.Unlock()
		return came[w]
	}
	for i := range 6 {
		say(fmt.Sprint("w", i))
	}
	for i := range 5 {
		if n := times(fmt.Sprint("w", i)); n != 1 {
			t.Errorf("w%d came %d times over NATS", i, n)
		}
	}
	// Whichever passes them on loses its connection, and another one does.
	testkit.Must(producer.pool.Exec(t.Context(), `SELECT pg_terminate_backend(pid, 5000) FROM pg_locks WHERE locktype = 'advisory' AND granted`))(t)
	for _, p := range listening {
		p.connected(t)
	}
	round := 0
	testkit.Eventually(t, func() error {
		round++
		w := fmt.Sprint("after", round)
		say(w)
		say("next")
		if n := times(w); n != 1 {
			return fmt.Errorf("after that one has gone, a notification came %d times over NATS", n)
		}
		return nil
	})
}

// TestForeignNotifications: what others publish on the subject does no harm.
func TestForeignNotifications(t *testing.T) {
	t.Parallel()
	url, servers := testkit.NewDatabase(t), natscluster.Start(t, 1)
	p := newProcess(t, url)
	p.carry(t, servers)
	p.notifier.ListenAt(nil)
	p.run(t)
	sub, done := p.notifier.Subscribe(eventlog.TopicAppended)
	defer done()
	conn, _ := servers.Connect()
	subject := natsnotify.DefaultSubject + "." + string(eventlog.TopicAppended)
	for _, m := range []*nats.Msg{
		{Subject: natsnotify.DefaultSubject + ".other", Data: []byte("- w")}, {Subject: subject}, {Subject: subject, Data: []byte("-")},
		{Subject: subject, Data: append([]byte("- "), make([]byte, 100_000)...)}, {Subject: subject, Data: []byte("- right")},
	} {
		testkit.Must(0, conn.PublishMsg(m))(t)
	}
	for seen := []string{}; !slices.Contains(seen, "right"); {
		ids, all := taken(t, sub)
		if seen = append(seen, ids...); all || len(seen) > 1 {
			t.Fatalf("notified of %v, all %v", seen, all)
		}
	}
}

// TestOutsidersStopNoForwarding: an account that may change nothing can take the lock of the
// session that passes notifications on, and they are passed on all the same.
func TestOutsidersStopNoForwarding(t *testing.T) {
	t.Parallel()
	testkit.Unpooled(t, "the lock is held by a session")
	server, servers := pgserver.NewHost(t).Server("outsiders", "fsync=off"), natscluster.Start(t, 1)
	server.Initialize()
	server.Begin()
	server.Execute("postgres", "CREATE DATABASE ledgerfeed")
	server.Execute("postgres", "CREATE ROLE outsider LOGIN")
	url := server.URL(pgserver.Administrator, "ledgerfeed")
	if _, err := migrations.Up(t.Context(), url); err != nil {
		t.Fatal(err)
	}
	producer := newProcess(t, url)
	outsider := testkit.Must(pgx.Connect(t.Context(), server.URL("outsider", "ledgerfeed")))(t)
	t.Cleanup(func() { _ = outsider.Close(context.Background()) })
	testkit.Must(outsider.Exec(t.Context(), `SELECT pg_advisory_lock($1)`, 0x6c66_666f_7277))(t)
	for range 2 {
		p := newProcess(t, url)
		p.carry(t, servers)
		p.run(t)
	}
	conn, _ := servers.Connect()
	came := make(chan string, 100)
	testkit.Must(conn.Subscribe(natsnotify.DefaultSubject+".>", func(m *nats.Msg) { came <- strings.TrimPrefix(string(m.Data), "- ") }))(t)
	testkit.Must(0, conn.Flush())(t)
	testkit.Must(producer.pool.Exec(t.Context(), `SELECT pg_notify('ledgerfeed_appended', '- w')`))(t)
	for w := ""; w != "w"; {
		w = testkit.Receive(t, came, "a notification over NATS")
	}
}
