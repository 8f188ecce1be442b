//go:build full && unix

package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ledgerfeed/ledgerfeed/internal/cli"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit/replication"
)

// replicated is an installation that reads from a standby.
type replicated struct {
	t                *testing.T
	primary, standby *replication.Server
}

func newReplicated(t *testing.T) *replicated {
	t.Helper()
	primary := replication.Start(t)
	succeed(t, primary.URL(), "migrate")
	return &replicated{t, primary, primary.Replica()}
}

func (r *replicated) command(settings []string, args ...string) *exec.Cmd {
	c := command(r.t, r.primary.URL(), args...)
	c.Env = append(c.Env, append([]string{"LEDGERFEED_READ_DATABASE_URL=" + r.standby.URL()}, settings...)...)
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

// copyReads is how many answers came from the standby.
func copyReads(t *testing.T, admin string) (n int) {
	t.Helper()
	for line := range strings.Lines(string(reader{t: t, base: admin}.get("/metrics"))) {
		if value, found := strings.CutPrefix(strings.TrimSpace(line), "ledgerfeed_api_copy_reads_total "); found {
			n = testkit.Must(strconv.Atoi(value))(t)
		}
	}
	return n
}

// TestStandbysEndToEnd: with remote_apply a receiver that is told by a webhook finds on the
// standby what it is about, and is not told while the standby does not replay; while a standby is
// lost the primary answers, and readyz, status and doctor say so.
func TestStandbysEndToEnd(t *testing.T) {
	t.Parallel()
	r := newReplicated(t)
	r.append(1)
	r.primary.Set("synchronous_commit", "local")
	r.primary.Set("synchronous_standby_names", "*")
	read := make(chan int, 100)
	receiver := testkit.NewReceiver(t, func(int, http.ResponseWriter, *http.Request) { read <- 1 })
	settings := []string{"LEDGERFEED_PROJECT_COMMIT=remote_apply", "LEDGERFEED_WEBHOOK_ALLOW=127.0.0.0/8", "LEDGERFEED_WEBHOOK_CA_FILE=" + testkit.CAFile(t)}
	if done := runCommand(t, r.command(settings, "webhook", "create", "--workspace", "acme", "--url", receiver.URL, "--events", "invoice.issued")); done.code != cli.ExitDone {
		t.Fatalf("%+v", done)
	}
	serving := startProcess(t, r.command(settings, "serve"))
	api := apiOf(serving)
	admin := strings.TrimSpace(serving.await("for=admin url="))
	serving.await("answers are read from standbys")
	var made struct{ Key string }
	if err := json.Unmarshal([]byte(succeed(t, r.primary.URL(), "key", "create", "--workspace", "acme", "--name", "test", "--scopes", "invoices:read,clients:read", "--json")), &made); err != nil {
		t.Fatal(err)
	}
	found := func(n int, fromCopy int) {
		t.Helper()
		before := copyReads(t, admin)
		if status, text := (reader{t: t, base: api, key: made.Key}).ask("/v1/invoices/in_" + strconv.Itoa(n)); status != http.StatusOK {
			t.Errorf("what a webhook has told of is not there: %d %s", status, text)
		}
		if got := copyReads(t, admin) - before; got != fromCopy {
			t.Errorf("%d answers are those of the standby, want %d", got, fromCopy)
		}
	}
	r.append(2)
	<-read
	found(2, 1)
	r.standby.Pause()
	r.append(3)
	testkit.Throughout(t, 700*time.Millisecond, func() error {
		if len(read) > 0 {
			return fmt.Errorf("a webhook tells of what the standby does not show")
		}
		return nil
	})
	r.standby.Resume()
	<-read
	testkit.Eventually(t, func() error {
		if status, text := bodyOf(t, admin+"/readyz"); status != http.StatusOK || !strings.Contains(text, `"used":true`) {
			return fmt.Errorf("readyz: %d %s", status, text)
		}
		return nil
	})
	found(3, 1)
	if done := runCommand(t, r.command(settings, "status")); done.code != cli.ExitDone || !strings.Contains(done.out, "Answers are read from the standbys at ") {
		t.Errorf("status: %+v", done)
	}

	r.standby.Stop()
	r.primary.Set("synchronous_standby_names", "") // what an operator does
	r.append(4)
	<-read
	found(4, 0)
	testkit.Eventually(t, func() error {
		if status, text := bodyOf(t, admin+"/readyz"); status != http.StatusOK || !strings.Contains(text, "cannot be reached") {
			return fmt.Errorf("readyz without the standby: %d %s", status, text)
		}
		return nil
	})
	serving.await("answers are not read from standbys")
	if done := runCommand(t, r.command(nil, "status")); done.code != cli.ExitDone || !strings.Contains(done.out, "it cannot be reached") {
		t.Errorf("status without the standby: %+v", done)
	}
	if done := runCommand(t, r.command(nil, "doctor")); !strings.Contains(done.out, "answers are not read from the standbys at ") {
		t.Errorf("doctor without the standby: %+v", done)
	}
	if metrics := string(reader{t: t, base: admin}.get("/metrics")); !strings.Contains(metrics, "ledgerfeed_standby_used 0") {
		t.Error("no metric ledgerfeed_standby_used")
	}
}
