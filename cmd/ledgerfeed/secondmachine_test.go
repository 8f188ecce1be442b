package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/cookiejar"
	"strings"
	"testing"
	"time"

	"github.com/ledgerfeed/ledgerfeed/internal/cli"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

// TestSecondMachine: docs/operations/second-machine.md. Requests may go to any machine;
// one with another secret key serves readers, and says that it cannot do the rest.
func TestSecondMachine(t *testing.T) {
	t.Parallel()
	database := testkit.NewDatabase(t)
	var lines strings.Builder
	for i := range 3 {
		fmt.Fprintf(&lines, `{"workspace_id":"acme","type":"client.recorded","data":{"client_id":"cl_%d","name":"N"}}`+"\n", i)
	}
	if r := appendLines(t, database, lines.String()); r.code != cli.ExitDone {
		t.Fatalf("%+v", r)
	}
	succeed(t, database, "webhook", "create", "--workspace", "acme", "--url", "https://example.com/hook")
	machine := func(settings ...string) (api, console, admin string) {
		c := command(t, database, "serve") // with a data directory of its own
		c.Env = append(c.Env, settings...)
		p := startProcess(t, c)
		admin = strings.TrimSpace(p.await("for=admin url="))
		api = apiOf(p)
		if len(settings) == 0 {
			console = strings.TrimSpace(p.await("for=console url="))
		}
		return api, console, admin
	}
	api1, console1, admin1 := machine()
	api2, console2, admin2 := machine()
	api3, _, admin3 := machine("LEDGERFEED_SECRET_KEY=the key of somebody else")
	succeed(t, database, "status", "--wait")
	for _, c := range []struct {
		address string
		want    int
	}{
		{admin1 + "/readyz", http.StatusOK},
		{admin2 + "/readyz", http.StatusOK},
		{admin2 + "/readyz?role=console", http.StatusOK},
		{admin3 + "/readyz", http.StatusServiceUnavailable},
		{admin3 + "/readyz?role=api", http.StatusOK},
		{admin3 + "/readyz?role=console", http.StatusServiceUnavailable},
	} {
		answers(t, c.address, c.want)
	}
	check := command(t, database, "secret-key", "check")
	check.Env = append(check.Env, "LEDGERFEED_SECRET_KEY=the key of somebody else")
	if r := runCommand(t, check); r.code != cli.ExitFailed || !strings.Contains(r.out, "no ") {
		t.Errorf("secret-key check with another key: %+v", r)
	}

	// A cursor of one machine goes on at the others.
	r := newReader(t, database, api1, "acme", "clients:read")
	cursor, rows := "", 0
	for i, base := range []string{api1, api2, api3} {
		r.base = base
		var p page
		if err := json.Unmarshal(r.get("/v1/clients?limit=1"+cursor), &p); err != nil {
			t.Fatal(err)
		}
		rows += len(p.Data)
		if cursor = "&cursor=" + p.NextCursor; p.HasMore != (i < 2) {
			t.Errorf("page %d: more %v", i, p.HasMore)
		}
	}
	if rows != 3 {
		t.Errorf("%d rows at three machines", rows)
	}

	// So does a session of the console: the cookie belongs to the name that both have.
	link := strings.TrimSpace(succeed(t, database, "console", "link", "--workspace", "acme"))
	_, token, _ := strings.Cut(link, "/sign-in/")
	browser := &http.Client{Jar: testkit.Must(cookiejar.New(nil))(t), Timeout: 10 * time.Second}
	for _, c := range []struct{ method, address string }{{http.MethodPost, console1 + "/sign-in/" + token}, {http.MethodGet, console2 + "/keys"}} {
		resp, err := browser.Do(testkit.Must(http.NewRequestWithContext(t.Context(), c.method, c.address, http.NoBody))(t))
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusOK || strings.Contains(resp.Request.URL.Path, "sign-in") {
			t.Errorf("%s: %d at %s", c.address, resp.StatusCode, resp.Request.URL)
		}
	}
}

// TestRotation: what docs/operations/rotation.md says of keys, and how each is undone.
func TestRotation(t *testing.T) {
	t.Parallel()
	database := testkit.NewDatabase(t)
	if r := appendLines(t, database, noID("acme", 1)+noID("acme", 2)); r.code != cli.ExitDone {
		t.Fatalf("%+v", r)
	}
	const older, newer = "the key before that one", "the key after that one"
	with := func(keys, args string) result {
		t.Helper()
		c := command(t, database, strings.Fields(args)...)
		c.Env = append(c.Env, "LEDGERFEED_SECRET_KEY="+keys)
		return runCommand(t, c)
	}
	if r := with(older, "webhook create --workspace acme --url https://example.com/hook"); r.code != cli.ExitDone {
		t.Fatalf("%+v", r)
	}
	serving := command(t, database, "serve")
	serving.Env = append(serving.Env, "LEDGERFEED_SECRET_KEY="+newer+","+older)
	p := startProcess(t, serving)
	api := apiOf(p)
	succeed(t, database, "status", "--wait")
	p.await("for=console url=") // it has said which keys it has
	for i, step := range []struct{ keys, args, says string }{
		{newer + "," + older, "secret-key rotate", "the secrets of 1 webhook were encrypted again"},
		{newer, "secret-key check", "yes"},
		{older + "," + newer, "secret-key rotate", "the secrets of 1 webhook were encrypted again"}, // undone
		{older, "secret-key check", "yes"},
	} {
		if r := with(step.keys, step.args); r.code != cli.ExitDone || !strings.Contains(r.out+r.errOut, step.says) {
			t.Errorf("step %d: %+v", i, r)
		}
	}

	r := newReader(t, database, api, "acme", "clients:read")
	var first page
	if err := json.Unmarshal(r.get("/v1/clients?limit=1"), &first); err != nil {
		t.Fatal(err)
	}
	var list []struct{ ID string }
	if err := json.Unmarshal([]byte(succeed(t, database, "key", "list", "--workspace", "acme", "--json")), &list); err != nil || len(list) != 1 {
		t.Fatalf("%v, %v", list, err)
	}
	rotate := func(args ...string) reader {
		t.Helper()
		var made struct{ Key string }
		if err := json.Unmarshal([]byte(succeed(t, database, append([]string{"key", "rotate", list[0].ID, "--json"}, args...)...)), &made); err != nil {
			t.Fatal(err)
		}
		return reader{t: t, base: api, key: made.Key}
	}
	await := func(r reader, want int) {
		t.Helper()
		testkit.Eventually(t, func() error {
			if status, body := r.ask("/v1/clients?limit=1&cursor=" + first.NextCursor); status != want {
				return fmt.Errorf("%d, want %d: %s", status, want, body)
			}
			return nil
		})
	}
	second := rotate("--overlap", "24h")
	await(second, http.StatusOK) // with a cursor of the secret before
	await(r, http.StatusOK)
	third := rotate()
	await(third, http.StatusOK)
	await(r, http.StatusUnauthorized)
	await(second, http.StatusUnauthorized)
	succeed(t, database, "key", "revoke", list[0].ID)
	await(third, http.StatusUnauthorized)
}
