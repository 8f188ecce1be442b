package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/internal/cli"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
	"github.com/ledgerfeed/ledgerfeed/projections"
	"github.com/ledgerfeed/ledgerfeed/projections/replay"
)

// served is a database with two projected workspaces, agency-0 and agency-1.
func served(t *testing.T) (url string, conn *pgx.Conn) {
	t.Helper()
	url = testkit.NewDatabase(t)
	succeed(t, url, append([]string{"append"}, chunks(t, 2, 30)...)...)
	serving := startProcess(t, command(t, url, "serve", "--roles", "project", "--no-migrate"))
	succeed(t, url, "status", "--wait", "--timeout", "1m")
	if code := serving.stop(); code != cli.ExitDone {
		t.Fatalf("serve ended with %d:\n%s", code, serving.log)
	}
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(t.Context()) })
	return url, conn
}

func execute1(t *testing.T, conn *pgx.Conn, sql string, args ...any) {
	t.Helper()
	if tag, err := conn.Exec(t.Context(), sql, args...); err != nil || tag.RowsAffected() == 0 {
		t.Fatalf("%s: %v, %s", sql, err, tag)
	}
}

func TestVerifyAndRebuildCommands(t *testing.T) {
	t.Parallel()
	url, conn := served(t)
	out := succeed(t, url, "verify", "--workspace", "agency-0")
	_, chain, _ := strings.Cut(strings.SplitN(out, "\n", 2)[0], "chain ")
	if !strings.HasPrefix(out, "agency-0 is at position 360 of 360, chain ") || len(chain) != 64 {
		t.Fatalf("verify says: %s", out)
	}
	succeed(t, url, "verify", "--workspace", "agency-0", "--since-position", "360", "--chain", chain)
	if r := runCommand(t, command(t, url, "verify", "--workspace", "agency-0", "--since-position", "359", "--chain", chain)); r.code != cli.ExitFailed || !strings.Contains(r.errOut, "there is one difference") {
		t.Errorf("with a chain value of another position: %+v", r)
	}

	var id string
	if err := conn.QueryRow(t.Context(), `SELECT min(id) FROM time_entry WHERE workspace_id = 'agency-1'`).Scan(&id); err != nil {
		t.Fatal(err)
	}
	execute1(t, conn, `UPDATE time_entry SET status = 'lost' WHERE workspace_id = 'agency-1' AND id = $1`, id)
	execute1(t, conn, `UPDATE log_checkpoint SET rules = 0 WHERE workspace_id = 'agency-0'`)
	r := runCommand(t, command(t, url, "verify", "--json"))
	var v struct {
		Workspaces  []replay.Verification
		Differences []replay.Difference
	}
	if err := json.Unmarshal([]byte(r.out), &v); err != nil || r.code != cli.ExitFailed || len(v.Workspaces) != 2 || len(v.Differences) != 1 {
		t.Fatalf("exit %d, %v: %s", r.code, err, r.out)
	}
	if d := v.Differences[0]; d.WorkspaceID != "agency-1" || d.Resource != "time-entries" || d.ID != id || d.Field != "status" || *d.Stored != "lost" || *d.Folded == "" {
		t.Errorf("the difference is %+v", d)
	}
	if out := succeed(t, url, "status"); !strings.Contains(out, "1 workspace has rows made by other rules") {
		t.Errorf("status says: %s", out)
	}
	succeed(t, url, "rebuild", "invoices", "payments")
	if r := runCommand(t, command(t, url, "verify")); r.code != cli.ExitFailed {
		t.Errorf("a rebuild of other resources repaired it: %+v", r)
	}
	var b struct{ Workspaces []replay.Rebuilt }
	if err := json.Unmarshal([]byte(succeed(t, url, "rebuild", "--json")), &b); err != nil || len(b.Workspaces) != 2 {
		t.Fatalf("%v: %+v", err, b)
	}
	for _, w := range b.Workspaces {
		if want := map[string]int64{"agency-1": 1}[w.WorkspaceID]; w.Written != want || w.Deleted != 0 || w.Rules != projections.RulesVersion {
			t.Errorf("rebuilt %+v", w)
		}
	}
	succeed(t, url, "verify")

	execute1(t, conn, `ALTER TABLE event_log DISABLE TRIGGER event_log_append_only; UPDATE event_log SET created_at = created_at + interval '1 ms' WHERE workspace_id = 'agency-0' AND position = 5`)
	if r := runCommand(t, command(t, url, "rebuild")); r.code != cli.ExitFailed || !strings.Contains(r.out, "agency-0: refused: its log is not what was appended") {
		t.Errorf("rebuild from a log that is wrong: %+v", r)
	}
}

// A comparison with nothing proves nothing, and is not to look like a proof.
func TestVerifyAndRebuildOfALogThatIsNotProjected(t *testing.T) {
	t.Parallel()
	url := testkit.NewDatabase(t)
	succeed(t, url, "verify") // there is nothing to compare
	files := chunks(t, 1, 4)
	for _, f := range files[:3] {
		succeed(t, url, "append", f)
	}
	for _, verb := range []string{"verify", "rebuild"} {
		r := runCommand(t, command(t, url, verb))
		if r.code != cli.ExitFailed || !strings.Contains(r.out, "not projected yet, and compared with nothing: 36 entries in 1 workspace") ||
			!strings.Contains(r.errOut, "nothing was compared: none of the 36 entries in 1 workspace is projected yet") {
			t.Errorf("%s: %+v", verb, r)
		}
		if r := runCommand(t, command(t, url, verb, "--json")); r.code != cli.ExitFailed || !strings.Contains(r.out, `"head":36,`) {
			t.Errorf("%s --json: %+v", verb, r)
		}
	}
	serving := startProcess(t, command(t, url, "serve", "--roles", "project", "--no-migrate"))
	succeed(t, url, "status", "--wait", "--timeout", "1m")
	if code := serving.stop(); code != cli.ExitDone {
		t.Fatalf("serve ended with %d:\n%s", code, serving.log)
	}
	succeed(t, url, "append", files[3])
	for _, verb := range []string{"verify", "rebuild"} {
		if out := succeed(t, url, verb); !strings.Contains(out, "compared with nothing: 12 entries in 1 workspace") {
			t.Errorf("%s does not say that part of the log is not projected: %s", verb, out)
		}
	}
}

func TestExplainCommand(t *testing.T) {
	t.Parallel()
	url, conn := served(t)
	var id string
	if err := conn.QueryRow(t.Context(), `SELECT min(id) FROM invoice WHERE workspace_id = 'agency-0' AND type = 'invoice'`).Scan(&id); err != nil {
		t.Fatal(err)
	}
	out := succeed(t, url, "explain", "invoices", id, "--workspace", "agency-0")
	for _, part := range []string{"gross_amount", "invoice.recorded", "client_billing_status"} {
		if !strings.Contains(out, part) {
			t.Errorf("explain does not say %s:\n%s", part, out)
		}
	}
	if _, history, _ := strings.Cut(out, "History:\n"); !strings.Contains(history, "changed ") {
		t.Errorf("explain does not say which entries changed the row:\n%s", out)
	}
	var x replay.Explanation
	if err := json.Unmarshal([]byte(succeed(t, url, "explain", "invoices", id, "--workspace", "agency-0", "--json", "--as-of", fmt.Sprint(360))), &x); err != nil || x.Position != 360 || len(x.Fields) < 20 {
		t.Errorf("%v: %+v", err, x)
	}
	if r := runCommand(t, command(t, url, "explain", "invoices", id, "--workspace", "agency-0", "--as-of", "2001-01-01T00:00:00Z")); r.code != cli.ExitFailed || !strings.Contains(r.errOut, "no entry up to position 0") {
		t.Errorf("before its time: %+v", r)
	}

	// A row that is missing: the entry that had no effect, and what to do about it.
	line := `{"workspace_id":"missing","type":"time_entry.approved","data":{"time_entry_id":"te_9"}}`
	appending := command(t, url, "append", "--wait")
	appending.Stdin = strings.NewReader(line)
	serving := startProcess(t, command(t, url, "serve", "--roles", "project", "--no-migrate"))
	if r := runCommand(t, appending); r.code != cli.ExitDone {
		t.Fatalf("%+v", r)
	}
	serving.stop()
	out = succeed(t, url, "explain", "time-entries", "te_9", "--workspace", "missing")
	for _, part := range []string{"It is not there", "time_entry.approved", "unknown_object: The entry is about something that does not exist", "ledgerfeed anomaly show missing --position 1"} {
		if !strings.Contains(out, part) {
			t.Errorf("explain of a missing row does not say %q:\n%s", part, out)
		}
	}
	if json.Unmarshal([]byte(succeed(t, url, "explain", "time-entries", "te_9", "--workspace", "missing", "--json")), &x) != nil || len(x.Unapplied) != 1 || x.Unapplied[0].Position != 1 {
		t.Errorf("%+v", x)
	}
}

func TestQuarantineCommands(t *testing.T) {
	t.Parallel()
	url, conn := served(t)
	if out := succeed(t, url, "quarantine", "list"); !strings.Contains(out, "No workspace is quarantined") {
		t.Errorf("list says: %s", out)
	}
	for _, args := range [][]string{{"show", "nobody"}, {"retry", "agency-0"}, {"skip", "agency-0", "--reason", "x"}, {"retry", "nobody"}} {
		if r := runCommand(t, command(t, url, append([]string{"quarantine"}, args...)...)); r.code != cli.ExitFailed {
			t.Errorf("%v: %+v", args, r)
		}
	}
	c := command(t, url, "append")
	c.Stdin = strings.NewReader(`{"workspace_id":"agency-0","id":"poison","type":"client.recorded","data":{"client_id":"c","name":"n"}}`)
	if r := runCommand(t, c); r.code != cli.ExitDone {
		t.Fatalf("%+v", r)
	}
	execute1(t, conn, `UPDATE log_checkpoint SET quarantined = true, failures = 7, failed_to = 361, segment_max = 1, error = 'cannot do that', retry_at = '2100-01-01T00:00:00Z' WHERE workspace_id = 'agency-0' AND consumer = 'read_models'`)
	var list struct {
		Quarantined []struct {
			WorkspaceID string `json:"workspace_id"`
			Position    int64
			Error       string
			Behind      int64
		}
		Skipped []eventlog.Skip
	}
	if err := json.Unmarshal([]byte(succeed(t, url, "quarantine", "list", "--json")), &list); err != nil || len(list.Quarantined) != 1 || len(list.Skipped) != 0 {
		t.Fatalf("%v: %+v", err, list)
	}
	if q := list.Quarantined[0]; q.WorkspaceID != "agency-0" || q.Position != 361 || q.Error != "cannot do that" || q.Behind != 1 {
		t.Errorf("quarantined: %+v", q)
	}
	if out := succeed(t, url, "quarantine", "show", "agency-0"); !strings.Contains(out, `"id":"poison"`) || !strings.Contains(out, "cannot do that") {
		t.Errorf("show says: %s", out)
	}
	succeed(t, url, "quarantine", "retry", "agency-0")
	var retry *time.Time
	if err := conn.QueryRow(t.Context(), `SELECT retry_at FROM log_checkpoint WHERE workspace_id = 'agency-0'`).Scan(&retry); err != nil || retry != nil {
		t.Errorf("it is tried again at %v, %v", retry, err)
	}
	if r := runCommand(t, command(t, url, "quarantine", "skip", "agency-0")); r.code != cli.ExitUsage {
		t.Errorf("skip without a reason: %+v", r)
	}
	var skip eventlog.Skip
	if err := json.Unmarshal([]byte(succeed(t, url, "quarantine", "skip", "agency-0", "--reason", "sent by mistake", "--json")), &skip); err != nil || skip.EventID != "poison" || skip.Reason != "sent by mistake" {
		t.Errorf("%v: %+v", err, skip)
	}
	if out := succeed(t, url, "quarantine", "show", "agency-0"); !strings.Contains(out, "is not quarantined") || !strings.Contains(out, "sent by mistake") {
		t.Errorf("show says: %s", out)
	}
	if out := succeed(t, url, "status"); !strings.Contains(out, "agency-0: 1 entry was skipped") {
		t.Errorf("status says: %s", out)
	}
	succeed(t, url, "verify")
	if r := runCommand(t, command(t, url, "quarantine", "retry", "agency-0", "--position", "360")); r.code != cli.ExitFailed || !strings.Contains(r.errOut, "is not skipped") {
		t.Errorf("retry of an entry that was not skipped: %+v", r)
	}
	if out := succeed(t, url, "quarantine", "retry", "agency-0", "--position", "361"); !strings.Contains(out, "the entry at position 361 is restored: 2 rows written") {
		t.Errorf("retry of what was skipped says: %s", out)
	}
	want := []string{
		"command entry.retry at position 361: ", "command entry.skip at position 361: sent by mistake",
		fmt.Sprintf("command entry.restore at position 361: 2 rows written, 0 deleted; rules %[1]d, before %[1]d", projections.RulesVersion),
	}
	if lines := audited(t, url, "agency-0"); !slices.Equal(lines, want) {
		t.Errorf("audited %q, want %q", lines, want)
	}
	if out := succeed(t, url, "quarantine", "show", "agency-0"); !strings.Contains(out, "because: sent by mistake; restored on ") {
		t.Errorf("show says: %s", out)
	}
	succeed(t, url, "verify")
}

func TestReplayUsage(t *testing.T) {
	t.Parallel()
	url := testkit.NewDatabase(t)
	for _, args := range [][]string{
		{"rebuild", "invoice"},
		{"rebuild", "--workers", "0"},
		{"verify", "--memory", "0"},
		{"verify", "extra"},
		{"verify", "--verifier-keys", "keys"},
		{"verify", "--since-position", "1"},
		{"verify", "--workspace", "w", "--since-position", "1", "--chain", "abc"},
		{"explain", "invoices", "x"},
		{"explain", "credit_moves", "x", "--workspace", "w"},
		{"explain", "invoices", "x", "--workspace", "w", "--as-of", "yesterday"},
		{"quarantine"},
		{"quarantine", "skip"},
		{"quarantine", "retry", "w", "--position", "-1"},
	} {
		if r := runCommand(t, command(t, url, args...)); r.code != cli.ExitUsage {
			t.Errorf("%v: exit %d\n%s", args, r.code, r.errOut)
		}
	}
	for _, args := range [][]string{{"rebuild"}, {"verify"}, {"explain", "invoices", "x"}, {"quarantine", "show", "nobody"}} {
		if args[0] != "quarantine" {
			args = append(args, "--workspace", "nobody")
		}
		if r := runCommand(t, command(t, url, args...)); r.code != cli.ExitFailed || !strings.Contains(r.errOut, `there is no workspace "nobody"`) {
			t.Errorf("%v: %+v", args, r)
		}
	}
}

// Asked to stop, verify and rebuild stop at once and tell what they have changed.
func TestReplayIsInterrupted(t *testing.T) {
	t.Parallel()
	url, conn := served(t)
	reads := func(want bool) {
		t.Helper()
		testkit.Eventually(t, func() error {
			var sessions int
			err := conn.QueryRow(t.Context(), `
				SELECT count(*) FROM pg_stat_activity
				 WHERE datname = current_database() AND pid <> pg_backend_pid() AND query LIKE '%e.public_event, e.chain, %FROM event_log%'`).Scan(&sessions)
			if err == nil && sessions > 0 != want {
				err = fmt.Errorf("%d sessions read the log", sessions)
			}
			return err
		})
	}
	for _, verb := range []string{"verify", "rebuild"} {
		reads(false) // the sessions of the command before have ended
		p := startProcess(t, command(t, url, verb, "--rate", "20"))
		reads(true)
		if code := p.stop(); code != cli.ExitFailed || !strings.Contains(p.log.String(), "interrupted; ") {
			t.Errorf("%s ended with %d:\n%s", verb, code, p.log)
		}
	}
	succeed(t, url, "verify")
}

// The background verification runs in the role that projects unless it is turned
// off, as its metrics show.
func TestServeAudits(t *testing.T) {
	t.Parallel()
	url := testkit.NewDatabase(t)
	for _, every := range []string{"", "24h", "0"} {
		c := command(t, url, "serve", "--roles", "project", "--no-migrate")
		if every != "" {
			c.Env = append(c.Env, "LEDGERFEED_AUDIT_EVERY="+every)
		}
		serving := startProcess(t, c)
		reader := caller{url: strings.TrimSpace(serving.await("for=admin url="))}
		metrics, err := reader.get("/metrics", "")
		if err != nil {
			t.Fatal(err)
		}
		if on := bytes.Contains(metrics.body, []byte("\nledgerfeed_audit_differing_workspaces 0\n")); on != (every != "0") {
			t.Errorf("with LEDGERFEED_AUDIT_EVERY=%s the background verification runs: %t", every, on)
		}
		if code := serving.stop(); code != cli.ExitDone {
			t.Errorf("serve ended with %d:\n%s", code, serving.log)
		}
	}
}
