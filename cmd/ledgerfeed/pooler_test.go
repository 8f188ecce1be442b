//go:build full && outside

package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/cookiejar"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/internal/cli"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit/pooler"
)

// behind is an installation behind a PgBouncer in transaction mode.
type behind struct {
	t      *testing.T
	direct string
	pooler *pooler.Pooler
}

// command makes a command that knows nothing but the pooler, with more settings.
func (b *behind) command(settings []string, args ...string) *exec.Cmd {
	c := command(b.t, b.pooler.Bare, args...)
	c.Env = append(c.Env, append([]string{"LEDGERFEED_POOLER=transaction"}, settings...)...)
	return c
}

func (b *behind) succeed(args ...string) string {
	b.t.Helper()
	r := runCommand(b.t, b.command(nil, args...))
	if r.code != cli.ExitDone {
		b.t.Fatalf("%v: %+v", args, r)
	}
	return r.out
}

func (b *behind) append(from, to int) {
	b.t.Helper()
	var lines strings.Builder
	for i := from; i < to; i++ {
		fmt.Fprintf(&lines, `{"workspace_id":"acme","type":"client.recorded","data":{"client_id":"cl_%d","name":"N"}}`+"\n", i)
		fmt.Fprintf(&lines, `{"workspace_id":"acme","type":"invoice.issued","data":{"invoice_id":"in_%[1]d","invoice_number":"%[1]d","amount":"420.00"}}`+"\n", i)
	}
	c := b.command(nil, "append")
	c.Stdin = strings.NewReader(lines.String())
	if r := runCommand(b.t, c); r.code != cli.ExitDone {
		b.t.Fatalf("%+v", r)
	}
}

func (b *behind) query(sql string) (n int) {
	b.t.Helper()
	conn := testkit.Must(pgx.Connect(b.t.Context(), b.direct))(b.t)
	defer func() { _ = conn.Close(b.t.Context()) }()
	if err := conn.QueryRow(b.t.Context(), sql).Scan(&n); err != nil {
		b.t.Fatal(err)
	}
	return n
}

// TestPoolerEndToEnd: migrations side by side, appends, projecting, reading, webhooks,
// sign-in, verify and rebuild work through the pooler; two processes, one of which listens
// past it. When the pooler is killed and comes back, they go on by themselves.
func TestPoolerEndToEnd(t *testing.T) {
	t.Parallel()
	b := &behind{t: t, direct: testkit.EmptyDatabase(t)}
	b.pooler = pooler.Start(t, b.direct)
	var group sync.WaitGroup
	for range 3 {
		group.Go(func() {
			if r := runCommand(t, b.command(nil, "migrate")); r.code != cli.ExitDone {
				t.Errorf("%+v", r)
			}
		})
	}
	group.Wait()
	if n := b.query(`SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`); n > 0 {
		t.Errorf("%d advisory locks are left over", n)
	}
	b.append(0, 3)
	receiver := testkit.NewReceiver(t, nil)
	settings := []string{"LEDGERFEED_WEBHOOK_ALLOW=127.0.0.0/8", "LEDGERFEED_WEBHOOK_CA_FILE=" + testkit.CAFile(t), "LEDGERFEED_RETRY_SCHEDULE=1s,1s,1s,1s,1s,1s"}
	if r := runCommand(t, b.command(settings, "webhook", "create", "--workspace", "acme", "--url", receiver.URL, "--events", "all")); r.code != cli.ExitDone {
		t.Fatalf("%+v", r)
	}
	first := startProcess(t, b.command(settings, "serve"))
	api, console := apiOf(first), strings.TrimSpace(first.await("for=console url="))
	first.await("this process finds the changes of others by sweeps")
	second := startProcess(t, b.command(append(settings, "LEDGERFEED_LISTEN_DATABASE_URL="+b.direct), "serve"))
	admin := strings.TrimSpace(second.await("for=admin url="))
	b.succeed("status", "--wait")
	rows := func() int {
		t.Helper()
		var made struct{ Key string }
		if err := json.Unmarshal([]byte(b.succeed("key", "create", "--workspace", "acme", "--name", "test", "--scopes", "clients:read", "--json")), &made); err != nil {
			t.Fatal(err)
		}
		var p page
		if err := json.Unmarshal((reader{t: t, base: api, key: made.Key}).get("/v1/clients"), &p); err != nil {
			t.Fatal(err)
		}
		return len(p.Data)
	}
	if n := rows(); n != 3 {
		t.Errorf("%d clients", n)
	}
	_, token, _ := strings.Cut(strings.TrimSpace(b.succeed("console", "link", "--workspace", "acme")), "/sign-in/")
	browser := &http.Client{Jar: testkit.Must(cookiejar.New(nil))(t), Timeout: 20 * time.Second}
	for _, c := range []struct{ method, path string }{{http.MethodPost, "/sign-in/" + token}, {http.MethodGet, "/keys"}, {http.MethodGet, "/webhooks"}, {http.MethodGet, "/events"}} {
		resp := testkit.Must(browser.Do(testkit.Must(http.NewRequestWithContext(t.Context(), c.method, console+c.path, http.NoBody))(t)))(t)
		if _ = resp.Body.Close(); resp.StatusCode != http.StatusOK || strings.Contains(resp.Request.URL.Path, "sign-in") {
			t.Errorf("%s: %d at %s", c.path, resp.StatusCode, resp.Request.URL)
		}
	}

	b.pooler.End()
	b.pooler.Begin()
	testkit.Eventually(t, func() error {
		if got, text := bodyOf(t, admin+"/readyz"); got != http.StatusOK {
			return fmt.Errorf("%d: %s", got, text)
		}
		return nil
	})
	before := receiver.Count()
	b.append(3, 8)
	b.succeed("status", "--wait")
	if n := rows(); n != 8 {
		t.Errorf("%d clients after the pooler came back", n)
	}
	testkit.Eventually(t, func() error {
		if n := receiver.Count() - before; n < 5 {
			return fmt.Errorf("%d deliveries of 5", n)
		}
		return nil
	})
	b.succeed("verify")
	conn := testkit.Must(pgx.Connect(t.Context(), b.direct))(t)
	testkit.Must(conn.Exec(t.Context(), `UPDATE client SET position = 1 WHERE position > 4`))(t)
	_ = conn.Close(t.Context())
	b.succeed("rebuild")
	b.succeed("verify")
}

// TestPoolerAndTemporaryTables: what is too large for the memory goes past the pooler, or
// is refused in words.
func TestPoolerAndTemporaryTables(t *testing.T) {
	t.Parallel()
	b := &behind{t: t, direct: testkit.NewDatabase(t)}
	b.pooler = pooler.Start(t, b.direct)
	b.append(0, 1200)
	projecting := startProcess(t, b.command(nil, "serve", "--roles", "project"))
	b.succeed("status", "--wait")
	projecting.stop()
	if r := runCommand(t, b.command(nil, "rebuild", "--memory", "1")); r.code != cli.ExitFailed || !strings.Contains(r.errOut, "set LEDGERFEED_LISTEN_DATABASE_URL") {
		t.Errorf("without a way past the pooler: %+v", r)
	}
	if r := runCommand(t, b.command([]string{"LEDGERFEED_LISTEN_DATABASE_URL=" + b.direct}, "rebuild", "--memory", "1")); r.code != cli.ExitDone {
		t.Errorf("%+v", r)
	}
	b.succeed("verify")
	if r := runCommand(t, command(t, b.pooler.Bare, "verify")); r.code != cli.ExitFailed || !strings.Contains(r.errOut, "set LEDGERFEED_POOLER=transaction") {
		t.Errorf("without the setting: %+v", r)
	}
	if r := runCommand(t, b.command(nil, "demo")); r.code != cli.ExitFailed || !strings.Contains(r.errOut, "without LEDGERFEED_POOLER") {
		t.Errorf("demo: %+v", r)
	}
}
