//go:build outside && unix

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ledgerfeed/ledgerfeed/internal/cli"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

// TestRestoreDrillOfItsOwnServer dumps the program's own PostgreSQL, loses it, and restores it with
// the commands of docs/operations/backup.md.
func TestRestoreDrillOfItsOwnServer(t *testing.T) {
	t.Parallel()
	dir := localDir(t)
	above := filepath.Dir(dir)
	page := &backupPage{t, read(t, "../../docs/operations/backup.md"), strings.NewReplacer(
		"/backup/", filepath.Join(above, "backup")+"/", "/elsewhere/", filepath.Join(above, "lost")+"/", ".ledgerfeed", filepath.Base(dir))}
	bin := t.TempDir()
	if err := os.Symlink(testkit.Must(os.Executable())(t), filepath.Join(bin, "ledgerfeed")); err != nil {
		t.Fatal(err)
	}
	asWritten := func(script string) {
		t.Helper()
		c := localCommand(t, dir)
		c.Path, c.Args, c.Dir = testkit.Must(exec.LookPath("bash"))(t), []string{"bash", "-euc", script}, above
		c.Env = append(c.Env, "PATH="+bin+":/usr/bin:/bin")
		if r := runProcess(t, c); r.code != 0 {
			t.Fatalf("exit %d\n%s%s", r.code, r.out, r.errOut)
		}
	}

	succeedLocally(t, dir, "workspace", "create", "--id", "acme", "--name", "Acme")
	succeedLocally(t, dir, "webhook", "create", "--workspace", "acme", "--url", "https://hooks.example.com/", "--events", "all")
	serving := startProcess(t, localCommand(t, dir, "serve"))
	serving.await("for=console")
	add := localCommand(t, dir, "append")
	add.Stdin = strings.NewReader(`{"workspace_id":"acme","type":"client.recorded","data":{"client_id":"cl_1","name":"Blue Door Ltd"}}`)
	if r := runProcess(t, add); r.code != cli.ExitDone {
		t.Fatalf("%+v", r)
	}
	asWritten("mkdir backup; export PGHOST=" + dir + "/run PGUSER=ledgerfeed\n" + page.block("## A dump", 0))
	if code := serving.stop(); code != cli.ExitDone {
		t.Fatalf("serve ended with %d:\n%s", code, serving.log)
	}
	log := succeedLocally(t, dir, "export")

	asWritten("mv " + dir + " lost")
	asWritten(page.block("### Into the program's own PostgreSQL", 0))
	if got := succeedLocally(t, dir, "export"); got != log {
		t.Errorf("the restored log is\n%swant\n%s", got, log)
	}
	for _, check := range [][]string{{"verify"}, {"secret-key", "check"}, {"doctor", "--after-restore"}} {
		succeedLocally(t, dir, check...)
	}
}
