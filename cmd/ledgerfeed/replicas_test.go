//go:build full && unix

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed/internal/cli"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit/replication"
)

// replicated is an installation that reads from a replica.
type replicated struct {
	t                *testing.T
	primary, replica *replication.Server
}

func newReplicated(t *testing.T) *replicated {
	t.Helper()
	primary := replication.Start(t)
	succeed(t, primary.URL(), "migrate")
	return &replicated{t, primary, primary.Replica()}
}

func (r *replicated) command(settings []string, args ...string) *exec.Cmd {
	c := command(r.t, r.primary.URL(), args...)
	c.Env = append(c.Env, append([]string{"LEDGERFEED_READ_DATABASE_URL=" + r.replica.URL()}, settings...)...)
	return c
}

func (r *replicated) append(n int) {
	c := r.command(nil, "append")
	c.Stdin = strings.NewReader(fmt.Sprintf(`{"workspace_id":"acme","type":"invoice.recorded","data":{"invoice_id":"in_%[1]d","number":"%[1]d","client_id":"cl_1","contractor_id":"co_1","period":"2026-10","gross_amount":"10.00","currency":"EUR"}}`+"\n"+
		`{"workspace_id":"acme","type":"invoice.issued","data":{"invoice_id":"in_%[1]d","invoice_number":"%[1]d","amount":"10.00"}}`+"\n", n))
	if done := runCommand(r.t, c); done.code != cli.ExitDone {
		r.t.Fatalf("%+v", done)
	}
}

// replicaReads is how many answers came from replicas.
func replicaReads(t *testing.T, admin string) (n int) {
	t.Helper()
	for line := range strings.Lines(string(reader{t: t, base: admin}.get("/metrics"))) {
		if name, value, _ := strings.Cut(strings.TrimSpace(line), " "); strings.HasPrefix(name, "ledgerfeed_replica_reads_total{") && !strings.Contains(name, "primary") {
			n += testkit.Must(strconv.Atoi(value))(t)
		}
	}
	return n
}

// TestReplicasEndToEnd: a receiver that is told by a webhook finds on any server what it is
// about, while a replica does not replay, too; one that is lost delays webhooks and
// answers by no more than the setting says, and readyz, status and doctor name it.
func TestReplicasEndToEnd(t *testing.T) {
	t.Parallel()
	r := newReplicated(t)
	r.append(1)
	read := make(chan int, 100)
	receiver := testkit.NewReceiver(t, func(int, http.ResponseWriter, *http.Request) { read <- 1 })
	settings := []string{"LEDGERFEED_READ_MAX_LAG=8s", "LEDGERFEED_WEBHOOK_ALLOW=127.0.0.0/8", "LEDGERFEED_WEBHOOK_CA_FILE=" + testkit.CAFile(t)}
	if done := runCommand(t, r.command(settings, "webhook", "create", "--workspace", "acme", "--url", receiver.URL, "--events", "invoice.issued")); done.code != cli.ExitDone {
		t.Fatalf("%+v", done)
	}
	serving := startProcess(t, r.command(settings, "serve"))
	api := apiOf(serving)
	admin := strings.TrimSpace(serving.await("for=admin url="))
	console := strings.TrimSpace(serving.await("for=console url="))
	serving.await("a replica is read from")
	var made struct{ Key string }
	if err := json.Unmarshal([]byte(succeed(t, r.primary.URL(), "key", "create", "--workspace", "acme", "--name", "test", "--scopes", "invoices:read,clients:read", "--json")), &made); err != nil {
		t.Fatal(err)
	}
	found := func(n int) {
		t.Helper()
		if status, text := (reader{t: t, base: api, key: made.Key}).ask("/v1/invoices/in_" + strconv.Itoa(n)); status != http.StatusOK {
			t.Errorf("what a webhook has told of is not there: %d %s", status, text)
		}
	}
	r.append(2)
	<-read
	found(2)
	_, token, _ := strings.Cut(strings.TrimSpace(succeed(t, r.primary.URL(), "console", "link", "--workspace", "acme")), "/sign-in/")
	browser := &http.Client{Jar: testkit.Must(cookiejar.New(nil))(t), Timeout: 30 * time.Second}
	for _, c := range []struct{ method, path string }{{http.MethodPost, "/sign-in/" + token}, {http.MethodGet, "/events"}, {http.MethodGet, "/events?about=in_2"}} {
		before := replicaReads(t, admin)
		resp, err := browser.Do(testkit.Must(http.NewRequestWithContext(t.Context(), c.method, console+c.path, http.NoBody))(t))
		if err != nil {
			t.Fatal(err)
		}
		text := string(testkit.Must(io.ReadAll(resp.Body))(t))
		_ = resp.Body.Close()
		if strings.HasPrefix(c.path, "/events") && (resp.StatusCode != http.StatusOK || !strings.Contains(text, "in_2") || replicaReads(t, admin) != before+1) {
			t.Errorf("%s: %d, and read from a replica %v times, before %v: %s", c.path, resp.StatusCode, replicaReads(t, admin), before, text)
		}
	}
	r.replica.Pause()
	r.append(3)
	succeed(t, r.primary.URL(), "status", "--wait")
	testkit.Throughout(t, 700*time.Millisecond, func() error {
		if len(read) > 0 {
			return fmt.Errorf("a webhook tells of what the replica does not show")
		}
		return nil
	})
	r.replica.Resume()
	<-read
	found(3)
	if status, text := bodyOf(t, admin+"/readyz"); status != http.StatusOK || !strings.Contains(text, `"used":true`) {
		t.Errorf("readyz: %d %s", status, text)
	}
	if done := runCommand(t, r.command(settings, "status")); done.code != cli.ExitDone || !strings.Contains(done.out, "REPLICA") || !strings.Contains(done.out, "yes") {
		t.Errorf("status: %+v", done)
	}

	r.replica.Stop()
	began := time.Now()
	r.append(4)
	<-read
	if took := time.Since(began); took < 7*time.Second {
		t.Errorf("the webhook did not wait for a replica that others may read from: %v", took)
	}
	found(4)
	if status, text := bodyOf(t, admin+"/readyz"); status != http.StatusOK || !strings.Contains(text, "cannot be reached") {
		t.Errorf("readyz without the replica: %d %s", status, text)
	}
	serving.await("a replica is not read from")
	short := []string{"LEDGERFEED_READ_MAX_LAG=500ms"}
	if done := runCommand(t, r.command(short, "status")); done.code != cli.ExitDone || !strings.Contains(done.out, "no: it cannot be reached") {
		t.Errorf("status without the replica: %+v", done)
	}
	if done := runCommand(t, r.command(short, "doctor")); !strings.Contains(done.out, "is not read from: it cannot be reached") {
		t.Errorf("doctor without the replica: %+v", done)
	}
	metrics := string(reader{t: t, base: admin}.get("/metrics"))
	for _, name := range []string{`ledgerfeed_replica_used{replica=`, `ledgerfeed_replica_reads_total{server="primary"}`, `ledgerfeed_replica_awaited_total{ended="timeout"} `} {
		if !strings.Contains(metrics, name) {
			t.Errorf("no metric %s", name)
		}
	}
}
