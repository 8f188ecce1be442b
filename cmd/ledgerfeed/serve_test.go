package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/internal/cli"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

// statusOf returns the status that an address answers with; 0 without a listener.
func statusOf(t *testing.T, address string) int {
	t.Helper()
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 10 * time.Second}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := client.Do(req)
	if err != nil {
		return 0
	}
	defer func() { _ = resp.Body.Close() }()
	_, _ = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode
}

// answers waits until an address is answered with a status: a process listens before it
// is ready.
func answers(t *testing.T, address string, status int) {
	t.Helper()
	testkit.Eventually(t, func() error {
		if got, text := bodyOf(t, address); got != status {
			return fmt.Errorf("%s: %d, want %d: %s", address, got, status, text)
		}
		return nil
	})
}

// TestReadinessGoesFirst: after SIGTERM the service reports that it is not ready
// while it still answers requests.
func TestReadinessGoesFirst(t *testing.T) {
	t.Parallel()
	c := command(t, testkit.NewDatabase(t), "serve", "--roles", "api")
	c.Env = append(c.Env, "LEDGERFEED_DRAIN_DELAY=3s")
	serving := startProcess(t, c)
	if said := serving.await("msg=starting"); !strings.Contains(said, "version=") || !strings.Contains(said, "roles=api database=") {
		t.Errorf("serve begins with%s", said)
	}
	api := apiOf(serving)
	admin := strings.TrimSpace(strings.TrimPrefix(serving.await("for=admin"), " url="))
	answers(t, admin+"/readyz", http.StatusOK)
	if err := serving.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	serving.await("not ready any more")
	if status := statusOf(t, admin+"/readyz"); status != http.StatusServiceUnavailable {
		t.Errorf("readiness is %d after SIGTERM, want 503", status)
	}
	if status := statusOf(t, api+"/v1/me"); status != http.StatusUnauthorized {
		t.Errorf("a new request is answered %d, want 401 as before", status)
	}
	<-serving.done
	if code := serving.cmd.ProcessState.ExitCode(); code != cli.ExitDone {
		t.Errorf("serve ended with %d:\n%s", code, serving.log)
	}
	if status := statusOf(t, api+"/v1/me"); status != 0 {
		t.Errorf("a stopped service answers %d", status)
	}
}

// TestConsoleOfALockedLog: a page that reads the log is given up while a transaction has
// locked the log, and does not hang.
func TestConsoleOfALockedLog(t *testing.T) {
	t.Parallel()
	url := testkit.NewDatabase(t)
	serving := startProcess(t, command(t, url, "serve", "--roles", "console"))
	console := strings.TrimSpace(serving.await("for=console url="))
	succeed(t, url, "workspace", "create", "--id", "acme")
	_, token, _ := strings.Cut(strings.TrimSpace(succeed(t, url, "console", "link", "--workspace", "acme")), "/sign-in/")
	browser := &http.Client{Jar: testkit.Must(cookiejar.New(nil))(t), Timeout: 30 * time.Second}
	status := func(method, address string) int {
		t.Helper()
		req := testkit.Must(http.NewRequestWithContext(t.Context(), method, address, http.NoBody))(t)
		resp, err := browser.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }()
		return resp.StatusCode
	}
	if got := status(http.MethodPost, console+"/sign-in/"+token); got != http.StatusOK {
		t.Fatalf("signed in with %d", got)
	}
	conn := testkit.Must(pgx.Connect(t.Context(), url))(t)
	defer func() { _ = conn.Close(context.Background()) }()
	tx := testkit.Must(conn.Begin(t.Context()))(t)
	testkit.Must(tx.Exec(t.Context(), `LOCK TABLE event_log`))(t)
	for _, path := range []string{"/events", "/events/e1"} { // by statements of the console's own, and of the feed
		if got := status(http.MethodGet, console+path); got != http.StatusServiceUnavailable {
			t.Errorf("%s of a locked log: %d", path, got)
		}
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := status(http.MethodGet, console+"/events"); got != http.StatusOK {
		t.Errorf("the events afterwards: %d", got)
	}
}

// TestServeWithoutIdentityProvider: an issuer that nobody listens at keeps nothing
// from starting, and sign-in links work.
func TestServeWithoutIdentityProvider(t *testing.T) {
	t.Parallel()
	url := testkit.NewDatabase(t)
	c := command(t, url, "serve")
	c.Env = append(c.Env, "LEDGERFEED_OIDC_ISSUER=http://127.0.0.1:1", "LEDGERFEED_OIDC_CLIENT_ID=console")
	serving := startProcess(t, c)
	api := apiOf(serving)
	console := strings.TrimSpace(serving.await("for=console url="))
	admin := strings.TrimSpace(serving.await("for=admin url="))
	serving.await("cannot read the discovery document of the identity provider")
	for address, want := range map[string]int{
		admin + "/readyz": http.StatusOK, api + "/v1/me": http.StatusUnauthorized, console + "/sign-in": http.StatusOK, console + "/sign-in/identity": http.StatusServiceUnavailable,
	} {
		answers(t, address, want)
	}
	succeed(t, url, "workspace", "create", "--id", "acme")
	_, token, _ := strings.Cut(strings.TrimSpace(succeed(t, url, "console", "link", "--workspace", "acme")), "/sign-in/")
	if status := statusOf(t, console+"/sign-in/"+token); status != http.StatusOK {
		t.Errorf("a sign-in link is answered %d", status)
	}
	if code := serving.stop(); code != cli.ExitDone {
		t.Errorf("serve ended with %d:\n%s", code, serving.log)
	}
}

// TestServeStoppedDuringItsStart: SIGTERM ends a process well also while it waits for the database,
// so that a service manager does not report a failure.
func TestServeStoppedDuringItsStart(t *testing.T) {
	t.Parallel()
	silent := testkit.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer func() { _ = silent.Close() }()
	p := startProcess(t, command(t, "postgres://nobody@"+silent.Addr().String()+"/none?sslmode=disable", "serve", "--roles", "project", "--no-migrate"))
	conn := testkit.Must(silent.Accept())(t)
	defer func() { _ = conn.Close() }()
	if code := p.stop(); code != cli.ExitDone {
		t.Errorf("serve ended with %d:\n%s", code, p.log)
	}
}
