package main

import (
	"context"
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/internal/cli"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

// Exit statuses are 0 done, 1 failed, 2 wrong usage (docs/contract/decisions.md,
// "Commands").
func TestExitStatuses(t *testing.T) {
	t.Parallel()
	url := testkit.NewDatabase(t)
	succeed(t, url, "workspace", "create", "--id", "w")
	for _, c := range []struct {
		args string
		code int
		says string
	}{
		{"--help", 0, ""},
		{"append --help", 0, ""},
		{"completion bash", 0, ""},
		{"version", 0, ""},
		{"--version", 0, ""},
		{"nonsense", 2, "nonsense"},
		{"append --nonsense", 2, "--nonsense"},
		{"append /nonexistent/file", 1, "/nonexistent/file"},
		{"types", 0, ""},
		{"types invoice.payed", 2, `there is no entry type "invoice.payed": ledgerfeed types lists all; did you mean invoice.paid?`},
		{"types no --json-schema", 2, `there is no entry type "no": ledgerfeed types lists all`},
		{"types invoice.paid invoice.sent", 2, "at most 1 arg"},
		{"export --workspace nobody", 1, `"nobody"`},
		{"export --from 0", 2, "--from"},
		{"export --from abc", 2, `--from is "abc": want a whole number`},
		{"status --timeout 5", 2, `--timeout is "5": want a time such as 90s`},
		{"export extra", 2, "extra"},
		{"status --workspace nobody", 1, `"nobody"`},
		{"workspace", 2, "create, list, move, set"},
		{"workspace create --id w", 1, `"w"`},
		{"workspace create --id no/good", 2, "--id"},
		{"workspace create --id x --notify-email nobody", 2, "--notify-email"},
		{"workspace set --id nobody --name n", 1, `"nobody"`},
		{"workspace set --id w", 2, "--name"},
		{"key create --workspace nobody --name n --scopes invoices:read", 1, "nobody"},
		{"key create --workspace w --name n --scopes everything:read", 2, "everything:read"},
		{"key create --workspace w --name n --scopes invoices:read,margin:read", 2, "pay:read"},
		{"key create --workspace w --name n --scopes invoices:read --expires yesterday", 2, "--expires"},
		{"key create --workspace w --name n --scopes invoices:read --rate-limit 0", 2, "--rate-limit"},
		{"key create --workspace w", 2, "--name"},
		{"key list --workspace nobody", 1, "nobody"},
		{"key revoke key_nobody", 1, "key_nobody"},
		{"key revoke service_abcdefgh_secret", 1, "ledgerfeed key revoke: there is no such key: want its id, which begins with key_, or its prefix"},
		{"key revoke", 2, ""},
		{"serve --roles api,nonsense", 2, "nonsense"},
	} {
		r := runCommand(t, command(t, url, strings.Fields(c.args)...))
		if r.code != c.code || !strings.Contains(r.errOut, c.says) {
			t.Errorf("%s: exit %d, want %d and %q in:\n%s%s", c.args, r.code, c.code, c.says, r.out, r.errOut)
		}
	}
}

// Every command and role refuses a wrong setting, all of them at once, also one
// that it does not use.
func TestWrongSettings(t *testing.T) {
	t.Parallel()
	for _, args := range []string{
		"serve --roles api", "serve --roles project", "serve --roles deliver", "serve --roles console",
		"status", "key list --workspace w", "webhook list --workspace w", "openapi", "bench log", "demo",
	} {
		c := command(t, "postgres://nobody@127.0.0.1:1/none", strings.Fields(args)...)
		c.Env = append(c.Env, "LEDGERFEED_BRAND=9x", "LEDGERFEED_WEBHOOK_TIMEOUT=-5s")
		r := runCommand(t, c)
		if r.code != cli.ExitUsage || strings.Count(r.errOut, "LEDGERFEED_BRAND") != 1 || strings.Count(r.errOut, "LEDGERFEED_WEBHOOK_TIMEOUT") != 1 {
			t.Errorf("%s: exit %d, want 2 and both settings:\n%s", args, r.code, r.errOut)
		}
	}
}

func TestWorkspaces(t *testing.T) {
	t.Parallel()
	url := testkit.NewDatabase(t)
	succeed(t, url, "workspace", "create", "--id", "b", "--name", "Blue Door", "--notify-email", "finance@blue.example")
	c := command(t, url, "append")
	c.Stdin = strings.NewReader(`{"workspace_id":"a","type":"client.recorded","data":{"client_id":"c","name":"n"}}`)
	if r := runCommand(t, c); r.code != cli.ExitDone {
		t.Fatalf("%+v", r)
	}
	succeed(t, url, "workspace", "set", "--id", "a", "--name", "Red Door")
	succeed(t, url, "workspace", "set", "--id", "b", "--notify-email", "")
	var list []struct {
		ID, Name    string
		NotifyEmail *string `json:"notify_email"`
	}
	if err := json.Unmarshal([]byte(succeed(t, url, "workspace", "list", "--json")), &list); err != nil {
		t.Fatal(err)
	}
	if len(list) != 2 || list[0].ID != "a" || list[0].Name != "Red Door" || list[1].Name != "Blue Door" || list[1].NotifyEmail != nil {
		t.Errorf("%+v", list)
	}
}

func TestKeys(t *testing.T) {
	t.Parallel()
	url := testkit.NewDatabase(t)
	succeed(t, url, "workspace", "create", "--id", "w")
	var made struct{ ID, Key, Prefix string }
	out := succeed(t, url, "key", "create", "--workspace", "w", "--name", "reporting", "--scopes", "invoices:read,pay:read", "--expires", "30d", "--json")
	if err := json.Unmarshal([]byte(out), &made); err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(made.Key, made.Prefix+"_") || made.ID == "" {
		t.Fatalf("%s", out)
	}
	list := succeed(t, url, "key", "list", "--workspace", "w", "--json")
	if strings.Contains(list, made.Key) || !strings.Contains(list, made.Prefix) || !strings.Contains(list, `"state":"live"`) {
		t.Errorf("%s", list)
	}
	var rotated struct{ ID, Key string }
	if err := json.Unmarshal([]byte(succeed(t, url, "key", "rotate", made.ID, "--overlap", "1h", "--json")), &rotated); err != nil {
		t.Fatal(err)
	}
	if rotated.ID != made.ID || rotated.Key == made.Key || rotated.Key == "" {
		t.Errorf("%+v", rotated)
	}
	succeed(t, url, "key", "set-limit", made.ID, "--rate-limit", "600")
	if out := succeed(t, url, "key", "revoke", made.ID, "--json"); !strings.Contains(out, `"state":"revoked"`) || !strings.Contains(out, `"rate_limit_per_minute":600`) {
		t.Errorf("%s", out)
	}
}

// Status shows lag, anomalies and positions, and waits.
func TestStatus(t *testing.T) {
	t.Parallel()
	url := testkit.NewDatabase(t)
	succeed(t, url, "append", fixture)
	type status struct {
		Projections []struct {
			Name       string
			Position   int64
			Head       int64
			LagEntries int64   `json:"lag_entries"`
			LagSeconds float64 `json:"lag_seconds"`
			Anomalies  int64
			Workspaces []struct {
				WorkspaceID string `json:"workspace_id"`
				Anomalies   []struct {
					Position int64
					EventID  string `json:"event_id"`
					Reason   string
				}
			}
		}
	}
	ask := func(args ...string) status {
		var s status
		if err := json.Unmarshal([]byte(succeed(t, url, append([]string{"status", "--json"}, args...)...)), &s); err != nil {
			t.Fatal(err)
		}
		return s
	}
	if s := ask().Projections[0]; s.Position != 0 || s.LagEntries != s.Head || s.Head == 0 {
		t.Fatalf("before: %+v", s)
	} else if s.LagSeconds <= 0 || s.LagSeconds > 600 { // the entries are of years, and have just been appended
		t.Errorf("lag before: %v s", s.LagSeconds)
	}
	if r := runCommand(t, command(t, url, "status", "--wait", "--timeout", "300ms")); r.code != cli.ExitFailed || !strings.Contains(r.errOut, "300ms") {
		t.Fatalf("waiting without a projector: %+v", r)
	}
	serving := startProcess(t, command(t, url, "serve", "--roles", "project"))
	after := ask("--wait").Projections[0]
	if after.Position != after.Head || after.LagEntries != 0 || after.Anomalies == 0 {
		t.Fatalf("after: %+v", after)
	}
	var expected map[string]struct {
		Anomalies []struct {
			Position int64
			EventID  string `json:"event_id"`
			Reason   string
		}
	}
	if err := json.Unmarshal([]byte(read(t, "../../domain/testdata/agency.expected.json")), &expected); err != nil {
		t.Fatal(err)
	}
	for _, w := range after.Workspaces {
		want := expected[w.WorkspaceID].Anomalies
		if len(w.Anomalies) != len(want) {
			t.Errorf("%s: %d anomalies, want %d", w.WorkspaceID, len(w.Anomalies), len(want))
			continue
		}
		for i := range want {
			if w.Anomalies[i] != want[i] {
				t.Errorf("%s: anomaly %+v, want %+v", w.WorkspaceID, w.Anomalies[i], want[i])
			}
		}
	}
	text := succeed(t, url, "status")
	_, table, found := strings.Cut(text, "LAST OBJECT")
	if !found || !strings.Contains(table, "unknown_object") || !regexp.MustCompile(` (invoice|time_entry|charge|credit) \w+\n`).MatchString(table) || !strings.Contains(text, "ledgerfeed anomaly list") {
		t.Errorf("the anomalies are not grouped:\n%s", text)
	}
	if code := serving.stop(); code != cli.ExitDone {
		t.Errorf("serve ended with %d:\n%s", code, serving.log)
	}
}

// TestLongWorkShowsProgress: append and export that take long say how far they are.
func TestLongWorkShowsProgress(t *testing.T) {
	t.Parallel()
	url := testkit.NewDatabase(t)
	succeed(t, url, "workspace", "create", "--id", "w")
	holder := testkit.Must(pgx.Connect(t.Context(), url))(t)
	t.Cleanup(func() { _ = holder.Close(context.WithoutCancel(t.Context())) })
	testkit.Must(holder.Exec(t.Context(), "BEGIN; LOCK TABLE event_log"))(t)
	c := command(t, url, "append")
	c.Stdin = strings.NewReader(noEffect("w", "a"))
	appending, exporting := startProcess(t, c), startProcess(t, command(t, url, "export"))
	appending.await("append: 0 of 1 entry, ")
	exporting.await("export: 0 entries, ")
	testkit.Must(holder.Exec(t.Context(), "ROLLBACK"))(t)
	for _, p := range []*process{appending, exporting} {
		if code := p.wait(); code != cli.ExitDone {
			t.Errorf("ended with %d:\n%s", code, p.log)
		}
	}
}
