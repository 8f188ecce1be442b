//go:build full

package natsnotify_test

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/eventlog/natsnotify"
	"github.com/ledgerfeed/ledgerfeed/internal/bus"
	"github.com/ledgerfeed/ledgerfeed/internal/bus/jetstream"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

// start starts a NATS server, at a port or at any, whose accounts are these.
func start(t *testing.T, port int, users ...*server.User) *server.Server {
	t.Helper()
	s := testkit.Must(server.NewServer(&server.Options{Host: "127.0.0.1", Port: port, Users: users, NoSigs: true, NoLog: true}))(t)
	s.Start()
	t.Cleanup(func() { stop(s) })
	if !s.ReadyForConnections(10 * time.Second) {
		t.Fatal("the server did not start")
	}
	return s
}

func stop(s *server.Server) {
	s.Shutdown()
	s.WaitForShutdown()
}

func account(password string, publish ...string) *server.User {
	u := &server.User{Username: "ledgerfeed", Password: password}
	if len(publish) > 0 {
		u.Permissions = &server.Permissions{Publish: &server.SubjectPermission{Allow: publish}}
	}
	return u
}

// addressOf is that of a server for the account with a password.
func addressOf(s *server.Server, password, parameters string) string {
	return "nats://ledgerfeed:" + password + "@" + s.Addr().String() + "/" + parameters
}

func portOf(t *testing.T, s *server.Server) int {
	t.Helper()
	_, port, err := net.SplitHostPort(s.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return testkit.Must(strconv.Atoi(port))(t)
}

func target(t *testing.T, address string) *jetstream.Target {
	t.Helper()
	return testkit.Must(natsnotify.ParseTarget(address))(t)
}

// peer is one end, with what it was told.
type peer struct {
	*natsnotify.Transport
	told   chan string
	logged *testkit.Buffer
}

func newPeer(t *testing.T, address string) *peer {
	t.Helper()
	p := &peer{told: make(chan string, 100), logged: &testkit.Buffer{}}
	p.Transport = natsnotify.New(target(t, address), bus.Config{Name: "test", Logger: p.logged.Logger()})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		p.Receive(ctx, eventlog.Receiver{
			Connected:   func() { p.told <- "connected" },
			Interrupted: func(reason error) { p.told <- "interrupted: " + reason.Error() },
			Received:    func(topic eventlog.Topic, payload string) { p.told <- string(topic) + " " + payload },
		})
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
		p.Close()
	})
	return p
}

// expect fails the test unless the next thing that is told begins with a text.
func (p *peer) expect(t *testing.T, begins string) {
	t.Helper()
	defer func() {
		if t.Failed() {
			t.Logf("logged:\n%s", p.logged)
		}
	}()
	text := testkit.Receive(t, p.told, "that it is told of "+begins)
	if !strings.HasPrefix(text, begins) {
		t.Fatalf("told %q, want %q", text, begins)
	}
	if strings.Contains(text, "hunter2") {
		t.Errorf("a password is told: %q", text)
	}
}

// TestRefusedPassword: a server that refuses the password is an interruption, told once and
// without it; when it takes the password, notifications come.
func TestRefusedPassword(t *testing.T) {
	t.Parallel()
	s := start(t, -1, account("another"))
	p := newPeer(t, addressOf(s, "hunter2", ""))
	p.expect(t, "interrupted: there is no connection to NATS")
	if err := p.Send(t.Context(), eventlog.TopicAppended, "- w"); err == nil {
		t.Error("what is refused was sent")
	}
	if err := natsnotify.Check(t.Context(), target(t, addressOf(s, "hunter2", "")), bus.Config{Logger: p.logged.Logger()}); err == nil || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("check: %v", err)
	}
	port := portOf(t, s)
	stop(s)
	s = start(t, port, account("hunter2"))
	p.expect(t, "connected")
	other := newPeer(t, addressOf(s, "hunter2", ""))
	other.expect(t, "connected")
	if err := other.Send(t.Context(), eventlog.TopicAppended, "- w", "- x"); err != nil {
		t.Fatal(err)
	}
	p.expect(t, "ledgerfeed_appended - w")
	p.expect(t, "ledgerfeed_appended - x")
	if err := natsnotify.Check(t.Context(), target(t, addressOf(s, "hunter2", "")), bus.Config{Logger: p.logged.Logger()}); err != nil {
		t.Errorf("check: %v", err)
	}
	if text := p.logged.String(); strings.Contains(text, "hunter2") || strings.Count(text, "\n") > 1 {
		t.Errorf("logged:\n%s", text)
	}
}

// TestRefusedSubject: a server that refuses the subject is told of, so that others are
// notified in another way.
func TestRefusedSubject(t *testing.T) {
	t.Parallel()
	s := start(t, -1, account("p", "mine.>", "_INBOX.>"))
	p := newPeer(t, addressOf(s, "p", "?subject=theirs"))
	p.expect(t, "connected")
	if err := p.Send(t.Context(), eventlog.TopicAppended, "- w"); err == nil || !strings.Contains(err.Error(), "refuses the subject") {
		t.Errorf("sent with error %v", err)
	}
	own := newPeer(t, addressOf(s, "p", "?subject=mine"))
	own.expect(t, "connected")
	if err := own.Send(t.Context(), eventlog.TopicAppended, "- w"); err != nil {
		t.Error(err)
	}
}

// TestServerThatEnds: nothing can be sent without the server, and when there is one at its
// address again, notifications come.
func TestServerThatEnds(t *testing.T) {
	t.Parallel()
	s := start(t, -1, account("p"))
	p := newPeer(t, addressOf(s, "p", ""))
	p.expect(t, "connected")
	port := portOf(t, s)
	stop(s)
	p.expect(t, "interrupted: ")
	if err := p.Send(t.Context(), eventlog.TopicAppended, "- w"); err == nil {
		t.Error("sent without a server")
	}
	other := newPeer(t, addressOf(start(t, port, account("p")), "p", ""))
	other.expect(t, "connected")
	p.expect(t, "connected")
	testkit.Must(0, other.Send(t.Context(), eventlog.TopicProjected, "- w"))(t)
	p.expect(t, "ledgerfeed_projected - w")
}

func TestParseTarget(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{
		"nats://a:4222,b:4222":               "nats://a:4222,nats://b:4222 ledgerfeed_wake",
		"tls://u:p@a/?subject=billing.wake":  "tls://u:p@a billing.wake",
		"nats://a/?stream=LEDGERFEED":        "error: there is no parameter stream",
		"nats://u:hunter2@a/?replicas=3":     "error: there is no parameter replicas",
		"redis://u:hunter2@a":                "error: want an address",
		"nats://u:hunter2@a/?subject=>":      "error: subject is",
		"nats://u:hunter2@a/?subject=x&%zz=": "error: what follows the ?",
	} {
		got, err := natsnotify.ParseTarget(address)
		text := fmt.Sprint("error: ", err)
		if err == nil {
			text = got.Servers + " " + got.Subject
		}
		if !strings.HasPrefix(text, want) || strings.Contains(text, "hunter2") {
			t.Errorf("%s: %s", address, text)
		}
	}
}
