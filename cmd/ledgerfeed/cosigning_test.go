package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ledgerfeed/ledgerfeed/internal/cli"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
	"github.com/ledgerfeed/ledgerfeed/internal/witness/witnesstest"
)

// TestWitnessesCosignTheFeed: a service that names a witness serves its cosignature with the
// checkpoint, goes on without it while the witness is away, and has it again afterwards.
func TestWitnessesCosignTheFeed(t *testing.T) {
	t.Parallel()
	url, dir := testkit.NewDatabase(t), t.TempDir()
	key, _ := newSigningKey(t)
	signs := []string{"LEDGERFEED_SIGNING_KEY=" + key, "LEDGERFEED_BASE_URL=https://api.example.com"}
	witness := witnesstest.New(t, "witness.example.com/w1")
	verifier := witness.VerifierKey
	ofLog := command(t, "", "signing-key", "show", "--name", "api.example.com/acme/events")
	ofLog.Env = append(ofLog.Env, signs...)
	logs := filepath.Join(dir, "logs")
	shown := runCommand(t, ofLog).out
	if err := os.WriteFile(logs, []byte(shown), 0o600); err != nil {
		t.Fatal(err)
	}
	witness.Know(t, strings.TrimSpace(shown))
	listen, stop := witness.Listen(t, "127.0.0.1:0")
	c := command(t, url, "serve", "--roles", "api,project")
	c.Env = append(append(c.Env, signs...), "LEDGERFEED_WITNESSES="+verifier+"=http://"+listen)
	serving := startProcess(t, c)
	succeed(t, url, "workspace", "create", "--id", "acme")
	reads := newReader(t, url, apiOf(serving), "acme", "events:read")
	appended := 0
	checkpoint := func(cosigned bool) {
		t.Helper()
		entry := filepath.Join(dir, fmt.Sprint("entry", appended))
		if err := os.WriteFile(entry, fmt.Appendf(nil, `{"workspace_id":"acme","type":"invoice.reversed","data":{"invoice_id":"in_%d"}}`+"\n", appended), 0o600); err != nil {
			t.Fatal(err)
		}
		succeed(t, url, "append", entry)
		appended++
		testkit.Eventually(t, func() error {
			note := string(reads.get("/v1/events/checkpoint"))
			if !strings.HasPrefix(note, fmt.Sprintf("api.example.com/acme/events\n%d\n", appended)) || strings.Contains(note, "\n— witness.example.com/w1 ") != cosigned {
				return fmt.Errorf("cosigned: want %v: %s\n%s", cosigned, note, serving.log)
			}
			return nil
		})
	}
	checkpoint(true)
	checkpoint(true)
	keyFile := filepath.Join(dir, "api-key")
	if err := os.WriteFile(keyFile, []byte(reads.key), 0o600); err != nil {
		t.Fatal(err)
	}
	follow := func(more ...string) result {
		return runReader(t, append([]string{"follow", "--url", apiOf(serving), "--key-file", keyFile, "--origin", "api.example.com/acme/events",
			"--verify", "--verifier-keys", logs, "--state", filepath.Join(dir, "followed"), "--once"}, more...)...)
	}
	if r := follow("--witness", verifier); r.code != cli.ExitDone || strings.Count(r.out, "\n") != 2 || !strings.Contains(r.errOut, ", cosigned by witness.example.com/w1, which extends") {
		t.Errorf("a follower who asks for the cosignature: %+v", r)
	}
	stop()
	checkpoint(false)
	if r := follow("--proof-timeout", "1s"); r.code != cli.ExitFailed || r.out != "" || !strings.Contains(r.errOut, "needs the cosignatures of 1 of the witnesses witness.example.com/w1, and has none") {
		t.Errorf("a follower whose state asks for the cosignature, which is not there: %+v", r)
	}
	witness.Listen(t, listen)
	checkpoint(true)
	if r := follow(); r.code != cli.ExitDone || strings.Count(r.out, "\n") != 2 {
		t.Errorf("a follower, now that it is there: %+v", r)
	}

	without := command(t, url, "serve", "--roles", "project")
	without.Env = append(without.Env, "LEDGERFEED_WITNESSES="+verifier+"=http://"+listen)
	if r := runCommand(t, without); r.code != cli.ExitFailed || !strings.Contains(r.errOut, "LEDGERFEED_WITNESSES: witnesses cosign what the service signs") {
		t.Errorf("without a key that signs: %+v", r)
	}
}
