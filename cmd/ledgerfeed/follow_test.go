package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/internal/badnetwork"
	"github.com/ledgerfeed/ledgerfeed/internal/cli"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
	"github.com/ledgerfeed/ledgerfeed/internal/witness/witnesstest"
)

// feed is all events that the reader sees, as lines of the bytes in which it gets them.
func (r reader) feed() string {
	r.t.Helper()
	var lines strings.Builder
	for cursor := ""; ; {
		var page struct {
			Data       []json.RawMessage
			HasMore    bool   `json:"has_more"`
			NextCursor string `json:"next_cursor"`
		}
		if err := json.Unmarshal(r.get("/v1/events?limit=100"+cursor), &page); err != nil {
			r.t.Fatal(err)
		}
		for _, event := range page.Data {
			lines.Write(event)
			lines.WriteByte('\n')
		}
		if cursor = "&cursor=" + page.NextCursor; !page.HasMore {
			return lines.String()
		}
	}
}

// TestFollowProvesTheFeed: ledgerfeed-reader follow proves the feed of a running service, for keys
// with and without pay:read, while the feed grows and across a restart of the service; an
// entry that was changed behind its back is found.
func TestFollowProvesTheFeed(t *testing.T) {
	t.Parallel()
	url, dir := testkit.NewDatabase(t), t.TempDir()
	signing, _ := newSigningKey(t)
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if text != "" {
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		return path
	}
	with := []string{"LEDGERFEED_SIGNING_KEY=" + signing, "LEDGERFEED_BASE_URL=https://api.example.com", "LEDGERFEED_RETENTION=20000h"}
	serve := func() *process {
		t.Helper()
		c := command(t, url, "serve", "--roles", "api,project")
		c.Env = append(c.Env, with...)
		return startProcess(t, c)
	}
	serving := serve()
	// The state is of the address of a service, which another process has after it was killed.
	link := testkit.Must(badnetwork.Listen(t.Context(), strings.TrimPrefix(apiOf(serving), "http://")))(t)
	t.Cleanup(func() { _ = link.Close() })
	base := "http://" + link.Address()
	succeed(t, url, "workspace", "create", "--id", "agency")
	show := command(t, "", "signing-key", "show")
	show.Env = append(show.Env, with...)
	verifiers := file("keys", runCommand(t, show).out)

	readers := map[string]reader{}
	for tree, scopes := range map[string]string{"events": "events:read", "events-with-pay": "events:read,pay:read"} {
		readers[tree] = newReader(t, url, base, "agency", scopes)
		file("key-"+tree, readers[tree].key)
	}
	follow := func(tree, state string) result {
		t.Helper()
		return runReader(t, "follow", "--url", base, "--key-file", file("key-"+tree, ""), "--origin", "api.example.com/agency/"+tree,
			"--verify", "--verifier-keys", verifiers, "--state", file(state, ""), "--out", file(state+".ndjson", ""), "--once")
	}
	proven := func(tree string) int {
		t.Helper()
		r := follow(tree, tree)
		if r.code != cli.ExitDone || !strings.Contains(r.errOut, "in the tree api.example.com/agency/"+tree+" of size ") {
			t.Fatalf("%s: %+v", tree, r)
		}
		have, want := string(testkit.Must(os.ReadFile(file(tree+".ndjson", "")))(t)), readers[tree].feed()
		if have != want {
			t.Fatalf("%s: other events than the feed shows: %d bytes, want %d", tree, len(have), len(want))
		}
		return strings.Count(have, "\n")
	}

	if err := appendHistory(t.Context(), url, 3000); err != nil {
		t.Fatal(err)
	}
	succeed(t, url, "status", "--wait")
	n, withPay := proven("events"), proven("events-with-pay")
	if n < 300 || withPay <= n {
		t.Fatalf("%d events without payouts, %d with: too few", n, withPay)
	}
	var more strings.Builder
	for i := range 300 {
		fmt.Fprintf(&more, `{"workspace_id":"agency","id":"evt_more_%d","type":"invoice.reversed","data":{"invoice_id":"in_%[1]d"}}`+"\n", i)
	}
	succeed(t, url, "append", file("more", more.String()))
	succeed(t, url, "status", "--wait")
	// A witness accepts the service's checkpoints, and its tiles as the proof of growth.
	witness := witnesstest.New(t, "witness.example.com/w1")
	address, _ := witness.Listen(t, "127.0.0.1:0")
	ofLog := command(t, "", "signing-key", "show", "--name", "api.example.com/agency/events")
	ofLog.Env = append(ofLog.Env, with...)
	witness.Know(t, strings.TrimSpace(runCommand(t, ofLog).out))
	cosign := func() {
		t.Helper()
		r := runReader(t, "witness", "submit", "--state", file("events", ""), "--key-file", file("key-events", ""), "--witness", "http://"+address, "--witness-key", witness.VerifierKey)
		if r.code != cli.ExitDone || !strings.HasPrefix(r.out, "api.example.com/agency/events\n") || !strings.Contains(r.out, "\n— witness.example.com/w1 ") {
			t.Fatalf("%+v", r)
		}
	}
	cosign()
	var note string
	testkit.Eventually(t, func() error { // the tree comes after what is visible
		if note = string(readers["events"].get("/v1/events/checkpoint")); !strings.Contains(note, "\nposition 3300\n") {
			return fmt.Errorf("the checkpoint is %s", note)
		}
		return nil
	})
	kept := file("kept.note", note)
	serving.kill()
	link.Point(strings.TrimPrefix(apiOf(serve()), "http://"))
	if more := proven("events"); more != n+300 {
		t.Errorf("%d events, want %d", more, n+300)
	}
	cosign()

	if out := succeed(t, url, "verify", "--checkpoint", kept, "--verifier-keys", verifiers); !strings.HasPrefix(out, kept+": the log gives the tree api.example.com/agency/events of size ") {
		t.Errorf("a kept checkpoint: %s", out)
	}
	older := testkit.NewDatabase(t) // as from a backup that was made before
	if err := appendHistory(t.Context(), older, 100); err != nil {
		t.Fatal(err)
	}
	against := func(database string, args ...string) result {
		t.Helper()
		c := command(t, database, append([]string{"verify", "--checkpoint", kept}, args...)...)
		c.Env = append(c.Env, with...) // has the key
		return runCommand(t, c)
	}
	if r := against(older); r.code != cli.ExitFailed || !strings.Contains(r.out, "position: stored 100, folded 3300") || !strings.Contains(r.out, "the log does NOT give the tree api.example.com/agency/events") {
		t.Errorf("an older log: %+v", r)
	}
	if r := against(url, "--workspace", "another"); r.code != cli.ExitUsage || !strings.Contains(r.errOut, "is of the workspace agency, not another") {
		t.Errorf("with another workspace: %+v", r)
	}

	conn := testkit.Must(pgx.Connect(t.Context(), url))(t)
	defer conn.Close(t.Context())
	execute1(t, conn, `ALTER TABLE event_log DISABLE TRIGGER event_log_append_only;
		UPDATE event_log SET public_event = replace(public_event, 'in_17"', 'in_18"') WHERE workspace_id = 'agency' AND id = 'evt_more_17'`)
	if r := follow("events", "another"); r.code != cli.ExitFailed || !strings.Contains(r.errOut, "evt_more_17") {
		t.Errorf("an event that was changed: %+v", r)
	}
	if r := against(url); r.code != cli.ExitFailed || !strings.Contains(r.out, "the log does NOT give the tree api.example.com/agency/events") {
		t.Errorf("a kept checkpoint, and an event that was changed: %+v", r)
	}
}
