package main

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/ledgerfeed/ledgerfeed/internal/cli"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
	"github.com/ledgerfeed/ledgerfeed/migrations"
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
	// Who could not be forgotten is not on the list.
	if err := migrations.ApplyGrants(t.Context(), url); err != nil {
		t.Fatal(err)
	}
	auditor := url + "&options=-c%20role%3Dledgerfeed_auditor"
	if r := runCommand(t, command(t, auditor, "person", "forget", "--workspace", "acme", "client", "cl_1", "--list", list)); r.code != cli.ExitFailed || r.out != "" || !strings.Contains(r.errOut, "permission denied") {
		t.Errorf("forgotten by an auditor: %+v", r)
	}
	if kept := read(t, list); kept != "" {
		t.Errorf("the list has somebody who is not forgotten: %s", kept)
	}
	nowhere := filepath.Join(t.TempDir(), "none", "list")
	if r := runCommand(t, command(t, url, "person", "forget", "--workspace", "acme", "client", "cl_1", "--list", nowhere)); r.code != cli.ExitFailed || !strings.Contains(r.errOut, "nothing was changed") {
		t.Errorf("a list that cannot be kept: %+v", r)
	}
	if succeed(t, url, "export", "--chain") != before {
		t.Error("a failure changed the log")
	}
	count("--reason", "request 118", "--list", list)
	if receipt.Position != 6 || receipt.EndedAt == "" || !strings.Contains(receipt.Remains, "backups") {
		t.Errorf("%+v", receipt)
	}

	after := succeed(t, url, "export", "--chain")
	again := runCommand(t, command(t, url, "person", "forget", "--workspace", "acme", "client", "cl_1", "--list", list))
	if again.code != cli.ExitDone || !strings.Contains(again.errOut, "the client cl_1 of acme is forgotten already, by the entry "+receipt.EventID+" at position 6, of ") || !strings.Contains(again.errOut, "what remains: ") {
		t.Errorf("forgotten again: %+v", again)
	}
	if err := json.Unmarshal([]byte(again.out), &receipt); err != nil || receipt.Position != 6 || receipt.Values != 3 {
		t.Errorf("the receipt of somebody who is forgotten already is %s: %v", again.out, err)
	}
	if out := succeed(t, url, "person", "forget", "--workspace", "acme", "client", "cl_1", "--dry-run"); !strings.HasPrefix(out, "would delete 0 values and change 0 rows") {
		t.Error(out)
	}
	if now := succeed(t, url, "export", "--chain"); now != after {
		t.Errorf("somebody who is forgotten already was forgotten again:\n%s", now)
	}
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

	kept := read(t, list)
	if listed := succeed(t, url, "person", "list"); strings.Count(kept, "\n") != 1 || kept != listed {
		t.Errorf("kept %s, listed %s", kept, listed)
	}
	// A run that was interrupted before it wrote the line is run again.
	write(t, list, "")
	succeed(t, url, "person", "forget", "--workspace", "acme", "client", "cl_1", "--list", list)
	if now := read(t, list); now != kept {
		t.Errorf("after an interrupted run, the list has %s", now)
	}

	// An older backup brings everything back, and the list forgets it again.
	older := appended(t, ofAda)
	people := func(want string) {
		t.Helper()
		if r := runCommand(t, command(t, older, "doctor", "--after-restore", "--list", list)); !regexp.MustCompile(want).MatchString(r.out) {
			t.Errorf("doctor does not say %s:\n%s", want, r.out)
		}
	}
	people(`WARNING +restored people +0 people are forgotten; on the list .*, 1 person is back`)
	if out := succeed(t, older, "append", "--forgotten", list); !strings.Contains(out, "forgot 1 person again; 0 forgotten already\nforgotten again: the client cl_1 of acme\n") {
		t.Errorf("forgotten in an older backup: %s", out)
	}
	people(`OK +restored people +1 person is forgotten.*; so is everybody on the list `)
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

// TestForgottenAgain: people are counted and named, not the lines of the list, and a line does not
// mind values that a later line forgets.
func TestForgottenAgain(t *testing.T) {
	t.Parallel()
	line := func(id, at, client string) string {
		return `{"workspace_id":"acme","id":"` + id + `","created_at":"` + at + `","type":"client.forgotten","data":{"client_id":"` + client + `"}}` + "\n"
	}
	list := write1(t, line("f1", "2025-06-01T00:00:00Z", "cl_1")+line("f2", "2026-06-01T00:00:00Z", "cl_2")+line("f3", "2026-06-02T00:00:00Z", "cl_1"))
	older := appended(t, ofAda)
	again := func(want, file string) {
		t.Helper()
		if out := succeed(t, older, "append", "--forgotten", file); out != want {
			t.Errorf("says %s\nwant %s", out, want)
		}
	}
	again(`forgot 2 people again; 0 forgotten already
forgotten again: the client cl_1 of acme
forgotten again: the client cl_2 of acme
a serving process with the role project now changes the rows and deletes the values
`, list)
	again("forgot 0 people again; 2 forgotten already\n", list)
	again("forgot 0 people again; 2 forgotten already\n", write1(t, read(t, list)+read(t, list)))
	r := runCommand(t, command(t, older, "append", "--json", "--forgotten", write1(t, line("f4", "2026-06-03T00:00:00Z", "cl_2"))))
	if want := `"people":[{"workspace_id":"acme","kind":"client","id":"cl_2"}]`; !strings.Contains(r.out, want) {
		t.Errorf("%+v, want %s", r, want)
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
