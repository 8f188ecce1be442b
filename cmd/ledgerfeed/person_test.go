package main

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ledgerfeed/ledgerfeed/internal/cli"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

const ofAda = `{"workspace_id":"acme","id":"e1","created_at":"2026-01-01T00:00:00.000Z","type":"client.recorded","data":{"client_id":"cl_1","name":"Ada Moreau","contacts":[{"email":"ada@example.com"}]}}
{"workspace_id":"acme","id":"e2","created_at":"2026-01-01T00:00:00.000Z","type":"client.recorded","data":{"client_id":"cl_2","name":"Bob"}}
{"workspace_id":"acme","id":"e3","created_at":"2026-01-01T00:00:00.000Z","type":"contractor.recorded","data":{"contractor_id":"co_1","name":"Rosa Tran"}}
{"workspace_id":"acme","id":"e4","created_at":"2026-01-01T00:00:00.000Z","type":"time_entry.recorded","data":{"time_entry_id":"te_1","work_date":"2026-10-01","client_id":"cl_1","contractor_id":"co_1","service":"Care","description":"at Ada's home","hours":1,"period":"2026-10","currency":"EUR"}}
{"workspace_id":"acme","id":"e5","created_at":"2026-01-01T00:00:00.000Z","type":"client.recorded","data":{"client_id":"cl_1","name":"Ada Lovelace"}}
`

// TestForgetAPerson finds, exports and forgets a client as an operator does, and restores the log
// elsewhere.
func TestForgetAPerson(t *testing.T) {
	t.Parallel()
	url := testkit.NewDatabase(t)
	c := command(t, url, "append", "--create-workspace")
	c.Stdin = strings.NewReader(ofAda)
	if r := runCommand(t, c); r.code != cli.ExitDone {
		t.Fatalf("%+v", r)
	}
	named := command(t, url, "append", "--check", write1(t, `{"workspace_id":"acme","type":"invoice.sent","data":{"invoice_id":"in_1","client_id":"Ada-Moreau"}}`))
	if r := runCommand(t, named); r.code != cli.ExitDone || !strings.Contains(r.errOut, "1 line has an id or a number that looks like a name, an email address or a telephone number, such as client_id Ada-Moreau") {
		t.Errorf("%+v", r)
	}
	serving := startProcess(t, command(t, url, "serve", "--roles", "api,project"))
	api := strings.TrimSpace(serving.await("for=api url="))
	reader := newCaller(t, url, api, "acme")
	before := succeed(t, url, "export", "--chain")

	if out := succeed(t, url, "person", "find", "--workspace", "acme", "ADA@example"); !strings.Contains(out, "client  cl_1") || strings.Contains(out, "cl_2") {
		t.Errorf("found %s", out)
	}
	if out := succeed(t, url, "person", "export", "--workspace", "acme", "client", "cl_1"); strings.Count(out, "\n") != 3 || !strings.Contains(out, "at Ada's home") || strings.Contains(out, "Rosa") {
		t.Errorf("exported %s", out)
	}
	for _, args := range [][]string{
		{"person", "forget", "--workspace", "acme", "client", "cl_9"},
		{"person", "forget", "--workspace", "acme", "person", "cl_1"},
		{"person", "forget", "client", "cl_1"},
		{"person", "export", "--workspace", "none", "client", "cl_1"},
	} {
		if r := runCommand(t, command(t, url, args...)); r.code == cli.ExitDone || r.out != "" {
			t.Errorf("%v: %+v", args, r)
		}
	}
	var receipt struct {
		Position, Values, Rows int
		EventID                string `json:"event_id"`
		EndedAt                string `json:"ended_at"`
		Remains                string
	}
	count := func(args ...string) {
		t.Helper()
		receipt.Position, receipt.EndedAt = 0, ""
		out := succeed(t, url, append([]string{"person", "forget", "--json", "--workspace", "acme", "client", "cl_1"}, args...)...)
		if err := json.Unmarshal([]byte(out), &receipt); err != nil || receipt.Values != 3 || receipt.Rows != 2 {
			t.Fatalf("%s: %v", out, err)
		}
	}
	count("--dry-run")
	if succeed(t, url, "export", "--chain") != before {
		t.Error("a dry run changed the log")
	}
	list := filepath.Join(t.TempDir(), "forgotten.ndjson")
	count("--reason", "request 118", "--list", list)
	if receipt.Position != 6 || receipt.EndedAt == "" || !strings.Contains(receipt.Remains, "backups") {
		t.Errorf("%+v", receipt)
	}

	after := succeed(t, url, "export", "--chain")
	if strings.Contains(after, "Ada") || strings.Contains(after, "ada@") || !strings.Contains(after, "Rosa Tran") || !strings.Contains(after, `"name":"Bob"`) {
		t.Errorf("the log still has\n%s", after)
	}
	lines := strings.Split(before, "\n")
	for i, line := range strings.Split(after, "\n")[:5] {
		if chainOf(t, line) != chainOf(t, lines[i]) {
			t.Errorf("line %d was %s and is %s", i+1, lines[i], line)
		}
	}
	for path, want := range map[string]string{
		"/v1/clients/cl_1":      `"name":null`,
		"/v1/time-entries/te_1": `"client":{"id":"cl_1","name":null}`,
		"/v1/clients/cl_2":      `"name":"Bob"`,
	} {
		if a, err := reader.get(path, ""); err != nil || !strings.Contains(string(a.body), want) || strings.Contains(string(a.body), "Ada") {
			t.Errorf("%s: %s, %v", path, a.body, err)
		}
	}
	succeed(t, url, "verify")

	if kept, listed := read(t, list), succeed(t, url, "person", "list"); strings.Count(kept, "\n") != 1 || strings.Count(listed, "\n") != 1 || kept[:100] != listed[:100] {
		t.Errorf("kept %s, listed %s", kept, listed)
	}

	// An older backup brings everything back, and the list forgets it again.
	older := appended(t, ofAda)
	if out := succeed(t, older, "append", "--forgotten", list); !strings.Contains(out, "forgot 1 person again") {
		t.Errorf("forgotten in an older backup: %s", out)
	}
	startProcess(t, command(t, older, "serve", "--roles", "project"))
	testkit.Eventually(t, func() error {
		if out := succeed(t, older, "person", "export", "--workspace", "acme", "client", "cl_1"); out != "" {
			return errors.New("still there: " + out)
		}
		return nil
	})
	// An old line does not forget a client who was recorded again since.
	c = command(t, older, "append")
	c.Stdin = strings.NewReader(`{"workspace_id":"acme","id":"e6","type":"client.recorded","data":{"client_id":"cl_1","name":"Ada again"}}`)
	if r := runCommand(t, c); r.code != cli.ExitDone {
		t.Fatalf("%+v", r)
	}
	if r := runCommand(t, command(t, older, "append", "--forgotten", write1(t, strings.Replace(read(t, list), `"id":"evt_`, `"id":"old_`, 1)))); r.code == cli.ExitDone || !strings.Contains(r.errOut, "has newer values") {
		t.Errorf("an old line: %+v", r)
	}
	if r := runCommand(t, command(t, older, "append", "--forgotten", list)); r.code == cli.ExitDone || !strings.Contains(r.errOut, "has newer values") {
		t.Errorf("the list again, after a producer offered a value again: %+v", r)
	}
	if r := runCommand(t, command(t, older, "append", "--forgotten", write1(t, ofAda))); r.code == cli.ExitDone || !strings.Contains(r.errOut, "line 1") {
		t.Errorf("a list of others: %+v", r)
	}

	// The whole log, and a copy without the values of anybody, come to the same chain elsewhere.
	for _, args := range [][]string{{"export"}, {"export", "--without-values"}} {
		file := filepath.Join(t.TempDir(), "log.ndjson")
		if err := os.WriteFile(file, []byte(succeed(t, url, args...)), 0o600); err != nil {
			t.Fatal(err)
		}
		there := testkit.NewDatabase(t)
		if r := runCommand(t, command(t, there, "append", "--create-workspace", file)); r.code == cli.ExitDone || !strings.Contains(r.errOut, "stored in place of data") {
			t.Errorf("%v appended as it is: %+v", args, r)
		}
		succeed(t, there, "append", "--restore", file)
		if out := succeed(t, there, "append", "--forgotten", list); !strings.Contains(out, "forgot 0 people again; 1 forgotten already") {
			t.Errorf("forgotten in the restored log: %s", out)
		}
		if restored := succeed(t, there, "export", "--chain"); len(args) == 1 && restored != after {
			t.Errorf("restored\n%s\nwant\n%s", restored, after)
		} else if last(restored) != last(after) {
			t.Errorf("restored\n%s\nwant\n%s", last(restored), last(after))
		}
	}
}

func write1(t *testing.T, text string) (file string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "list")
	write(t, file, text)
	return file
}

func last(lines string) string {
	list := strings.Split(strings.TrimSpace(lines), "\n")
	return list[len(list)-1]
}

func chainOf(t *testing.T, line string) (chain struct {
	Position int
	Chain    string
	Stored   string
},
) {
	t.Helper()
	var of struct {
		Position int
		Chain    string
		Stored   json.RawMessage
	}
	if err := json.Unmarshal([]byte(line), &of); err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	chain.Position, chain.Chain, chain.Stored = of.Position, of.Chain, string(of.Stored)
	return chain
}
