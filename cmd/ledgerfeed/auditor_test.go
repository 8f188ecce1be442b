package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
	"github.com/ledgerfeed/ledgerfeed/migrations"
)

// TestAsTheAuditor: the commands that docs/operations/roles.md promises to the role that
// only reads need no more than its rights.
func TestAsTheAuditor(t *testing.T) {
	t.Parallel()
	url := testkit.NewDatabase(t)
	serving := startProcess(t, command(t, url, "serve", "--roles", "project"))
	serving.await("for=admin")
	const recorded = `{"workspace_id":"w","type":"contractor.recorded","data":{"contractor_id":"co_1","name":"Rosa"}}` + "\n"
	if r := appendLines(t, url, recorded+noEffect("w", "a"), "--wait"); r.code != 0 {
		t.Fatalf("%+v", r)
	}
	serving.stop()
	if err := migrations.ApplyGrants(t.Context(), url); err != nil {
		t.Fatal(err)
	}
	auditor := url + "&options=-c%20role%3Dledgerfeed_auditor"
	for _, args := range [][]string{
		{"verify"}, {"export", "--workspace", "w", "--out", filepath.Join(t.TempDir(), "w.ndjson")},
		{"anomaly", "list"}, {"explain", "contractors", "co_1", "--workspace", "w"},
	} {
		if r := runCommand(t, command(t, auditor, args...)); r.code != 0 {
			t.Errorf("%v: exit %d\n%s%s", args, r.code, r.out, r.errOut)
		}
	}
	// What the role may not read is left out in words.
	for args, says := range map[string]string{
		"status --wait":   "This account of PostgreSQL may not read webhooks, which are left out.",
		"status --json":   `"delivery":[],"relays":[],"not_readable":["webhooks"]`,
		"migrate --check": "up to date",
	} {
		if r := runCommand(t, command(t, auditor, strings.Fields(args)...)); r.code != 0 || !strings.Contains(r.out, says) {
			t.Errorf("%s: exit %d\n%s%s", args, r.code, r.out, r.errOut)
		}
	}
}
