package main

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ledgerfeed/ledgerfeed/internal/cli"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

// quietPort is a port that nobody else takes while the test runs: the kernel gives none below
// 32768 to anybody who asks for any, and the port beside it, which this test holds, is what
// tests agree on.
func quietPort(t *testing.T) string {
	t.Helper()
	for port := 20_000; port < 30_000; port += 2 {
		if l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", fmt.Sprintf("127.0.0.1:%d", port)); err == nil {
			t.Cleanup(func() { _ = l.Close() })
			return fmt.Sprint(port + 1)
		}
	}
	t.Fatal("no port from 20000 to 30000 is free")
	return ""
}

// TestListenInOneStep: with a workspace, the local receiver adds a webhook of its own,
// sends itself a test, sends on what arrives as it came, and deletes the webhook at the
// end. A service that trusts one receiver of a data directory trusts the next.
func TestListenInOneStep(t *testing.T) {
	t.Parallel()
	url, dir := testkit.NewDatabase(t), t.TempDir()
	listen := func(args ...string) *process {
		c := command(t, url, append([]string{"webhook", "listen", "--port", "0", "--data-dir", dir}, args...)...)
		return startProcess(t, c)
	}
	before := listen()
	before.await("LEDGERFEED_WEBHOOK_CA_FILE=")
	before.stop()
	succeed(t, url, "workspace", "create", "--id", "w")
	service := command(t, url, "serve", "--roles", "project,deliver")
	service.Env = append(service.Env, "LEDGERFEED_WEBHOOK_ALLOW=127.0.0.0/8", "LEDGERFEED_WEBHOOK_CA_FILE="+filepath.Join(dir, "receiver.pem"))
	serving := startProcess(t, service)
	serving.await("for=admin")

	came := make(chan *http.Request, 8)
	app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		came <- r
		w.WriteHeader(http.StatusAccepted)
	}))
	t.Cleanup(app.Close)
	listening := listen("--workspace", "w", "--events", "invoice.reversed", "--forward-to", app.URL+"/hook?x=1")
	listening.await("Its signing secret is whsec_")
	listening.await("signed   test.ping")
	if r := appendLines(t, url, noEffect("w", "evt_of_this_test")); r.code != cli.ExitDone {
		t.Fatalf("%+v", r)
	}
	if rest := listening.await("signed   invoice.reversed"); !strings.HasSuffix(rest, "→ 202") {
		t.Errorf("it says %q of the answer", rest)
	}
	for _, position := range []string{"1", "2"} { // the first is the test ping
		r := <-came
		if got := r.Header.Get("SERVICE-Log-Position"); got != position {
			t.Errorf("position %q was sent on, want %q", got, position)
		}
		if r.URL.String() != "/hook?x=1" || r.Header.Get("Content-Type") != "application/json" || r.Header.Get("SERVICE-Signature") == "" || r.Header.Get("SERVICE-Event-Id") == "" {
			t.Errorf("sent on to %s with %v", r.URL, r.Header)
		}
	}
	if out := succeed(t, url, "webhook", "list", "--workspace", "w"); !strings.Contains(out, "wh_") {
		t.Errorf("no webhook while it listens: %s", out)
	}
	app.Close()
	if r := appendLines(t, url, noEffect("w", "evt_without_the_app")); r.code != cli.ExitDone {
		t.Fatalf("%+v", r)
	}
	listening.await("evt_without_the_app  at 3  → not sent on to ")
	if code := listening.stop(); code != cli.ExitDone {
		t.Errorf("stopped with %d:\n%s", code, listening.log)
	}
	if out := succeed(t, url, "webhook", "list", "--workspace", "w"); strings.Contains(out, "wh_") {
		t.Errorf("the webhook is left: %s", out)
	}

	// One that is killed leaves its webhook, and the next on its port takes that away.
	port := quietPort(t)
	for range 2 {
		killed := listen("--workspace", "w", "--port", port)
		killed.await("Listening with the webhook")
		killed.kill()
		if out := succeed(t, url, "webhook", "list", "--workspace", "w"); strings.Count(out, "https://127.0.0.1:"+port) != 1 {
			t.Errorf("webhooks of the killed: %s", out)
		}
	}

	for _, c := range []struct{ args, says string }{
		{"--workspace w --secret whsec_x", "want one of them"},
		{"--forward-to localhost:3000", "http://localhost:3000/hook"},
		{"--workspace w --events nothing.such", "nothing.such"},
		{"--workspace nobody", "nobody"},
	} {
		r := runCommand(t, command(t, url, append([]string{"webhook", "listen", "--port", "0", "--data-dir", dir}, strings.Fields(c.args)...)...))
		if r.code == cli.ExitDone || !strings.Contains(r.errOut, c.says) {
			t.Errorf("%s: %+v", c.args, r)
		}
	}
}
