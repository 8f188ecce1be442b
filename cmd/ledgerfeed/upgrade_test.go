package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed/internal/operate"
	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/internal/cli"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
	"github.com/ledgerfeed/ledgerfeed/projections"
)

// asNextProgram is the value of asProgram that makes this test binary the next
// version of the program, with one different rule.
const asNextProgram = "next"

func nextProgram() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	env := &operate.Env{Env: cli.Env{In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr, Clock: time.Now}, Rules: nextRules()}
	return env.Execute(ctx, rootCommand(env), os.Args[1:])
}

// nextRules show the name of an invoice's plan in capitals.
func nextRules() projections.Rules {
	return projections.Rules{Version: projections.RulesVersion + 1, Apply: func(s *domain.State, e *domain.Entry) {
		s.Apply(e)
		var about struct {
			ID string `json:"invoice_id"`
		}
		if e.Type != "invoice.recorded" || json.Unmarshal([]byte(e.Data), &about) != nil {
			return
		}
		if r := s.Invoices.Get(about.ID); r != nil && r.Position == e.Position {
			r.PlanName = strings.ToUpper(r.PlanName)
		}
	}}
}

// next makes a command one of the next version.
func next(c *exec.Cmd) *exec.Cmd {
	c.Env = append(c.Env, asProgram+"="+asNextProgram)
	return c
}

// caller calls the API of a running process.
type caller struct {
	url, key string
	client   http.Client
}

// newCaller makes a key for a workspace.
func newCaller(t *testing.T, database, api, workspaceID string) *caller {
	t.Helper()
	var made struct{ Key string }
	out := succeed(t, database, "key", "create", "--json", "--workspace", workspaceID, "--name", "r", "--rate-limit", "1000000", "--scopes",
		"invoices:read,time_entries:read,clients:read,credits:read,contractors:read,payments:read,events:read,pay:read,margin:read")
	if err := json.Unmarshal([]byte(out), &made); err != nil {
		t.Fatalf("%s: %v", out, err)
	}
	return &caller{url: api, key: made.Key}
}

// answer is a response, read whole.
type answer struct {
	status int
	etag   string
	body   []byte
}

func (r *caller) get(path, etag string) (answer, error) {
	request, err := http.NewRequestWithContext(context.Background(), http.MethodGet, r.url+path, http.NoBody)
	if err != nil {
		return answer{}, err
	}
	request.Header.Set("Authorization", "Bearer "+r.key)
	if etag != "" {
		request.Header.Set("If-None-Match", etag)
	}
	response, err := r.client.Do(request)
	if err != nil {
		return answer{}, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return answer{response.StatusCode, response.Header.Get("ETag"), body}, err
}

func apiOf(p *process) string {
	line := p.await("for=api url=")
	return strings.TrimSpace(line)
}

// The procedure of an upgrade without downtime, with two builds that differ in
// one rule: readers never see an error, and after the rebuild they see the new
// rule in every row, also in requests with an ETag from before.
func TestUpgradeToOtherRules(t *testing.T) {
	t.Parallel()
	url := testkit.NewDatabase(t)
	files := chunks(t, 2, 40)
	old := startProcess(t, command(t, url, "serve", "--roles", "api,project", "--no-migrate"))
	succeed(t, url, append([]string{"append"}, files[:20]...)...)
	succeed(t, url, "status", "--wait", "--timeout", "1m")
	r := newCaller(t, url, apiOf(old), "agency-0")
	before, err := r.get("/v1/invoices", "")
	if err != nil || before.status != http.StatusOK || before.etag == "" {
		t.Fatalf("%+v, %v", before, err)
	}

	var reads, wrong atomic.Int64
	var balancer sync.Mutex // guards current: the process that gets the next request
	current := r
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
			}
			balancer.Lock()
			a, err := current.get("/v1/invoices?limit=100", "")
			balancer.Unlock()
			if reads.Add(1); err != nil || a.status != http.StatusOK {
				wrong.Add(1)
				t.Errorf("a reader got %d, %v: %s", a.status, err, a.body)
			}
		}
	}()

	// A process of the new version beside the old one, then without it.
	renewed := startProcess(t, next(command(t, url, "serve", "--roles", "api,project")))
	fresh := *r
	fresh.url = apiOf(renewed)
	balancer.Lock()
	current = &fresh
	balancer.Unlock()
	if code := old.stop(); code != cli.ExitDone {
		t.Fatalf("the old version ended with %d:\n%s", code, old.log)
	}
	succeed(t, url, append([]string{"append"}, files[20:]...)...)
	status := func() (v struct{ Projections []projections.Status }) {
		c := next(command(t, url, "status", "--json", "--wait", "--timeout", "1m"))
		if err := json.Unmarshal([]byte(runCommand(t, c).out), &v); err != nil {
			t.Fatal(err)
		}
		return v
	}
	if s := status().Projections[0]; s.OtherRules != 2 || s.Rules != nextRules().Version || s.Workspaces[0].Rules != projections.RulesVersion {
		t.Errorf("before the rebuild the status is %+v", s)
	}
	if c := runCommand(t, next(command(t, url, "verify"))); c.code != cli.ExitFailed || !strings.Contains(c.out, "plan_name") {
		t.Errorf("verify before the rebuild: exit %d\n%s%s", c.code, c.out, c.errOut)
	}
	at, err := fresh.get("/v1/invoices", "")
	if err != nil {
		t.Fatal(err)
	}
	if c := runCommand(t, next(command(t, url, "rebuild"))); c.code != cli.ExitDone {
		t.Fatalf("rebuild: exit %d\n%s%s", c.code, c.out, c.errOut)
	}
	if s := status().Projections[0]; s.OtherRules != 0 {
		t.Errorf("after the rebuild the status is %+v", s)
	}
	if c := runCommand(t, next(command(t, url, "verify"))); c.code != cli.ExitDone {
		t.Errorf("verify after the rebuild: exit %d\n%s%s", c.code, c.out, c.errOut)
	}
	after, err := fresh.get("/v1/invoices", at.etag)
	if err != nil || after.status != http.StatusOK || bytes.Equal(after.body, at.body) {
		t.Errorf("with an ETag from before the rebuild: %d, %v", after.status, err)
	}
	if again, err := fresh.get("/v1/invoices", after.etag); err != nil || again.status != http.StatusNotModified {
		t.Errorf("with the ETag of just now: %d, %v", again.status, err)
	}
	close(stop)
	<-stopped
	if reads.Load() < 10 || wrong.Load() > 0 {
		t.Errorf("%d of %d reads went wrong", wrong.Load(), reads.Load())
	}
}
