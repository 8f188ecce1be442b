package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/ledgerfeed/ledgerfeed/internal/cli"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

// localCommand prepares the program on a PostgreSQL of its own.
func localCommand(t *testing.T, dir string, args ...string) *exec.Cmd {
	t.Helper()
	c := command(t, "", args...)
	c.Env = append(c.Env, "LEDGERFEED_DATA_DIR="+dir)
	return c
}

// localDir is a data directory that another account can reach, under which
// PostgreSQL runs for root.
func localDir(t *testing.T) string {
	t.Helper()
	base := testkit.Must(os.MkdirTemp("", "ledgerfeed-local-"))(t)
	t.Cleanup(func() { _ = os.RemoveAll(base) })
	if err := os.Chmod(base, 0o755); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(base, "data")
}

func succeedLocally(t *testing.T, dir string, args ...string) string {
	t.Helper()
	r := runProcess(t, localCommand(t, dir, args...))
	if r.code != cli.ExitDone {
		t.Fatalf("%v: exit %d\n%s%s", args, r.code, r.out, r.errOut)
	}
	return r.out
}

// TestSideBySide: commands share one PostgreSQL, whichever of them started it, and
// however it ends.
func TestSideBySide(t *testing.T) {
	t.Parallel()
	dir := localDir(t)
	succeedLocally(t, dir, "workspace", "create", "--id", "acme", "--name", "Acme") // alone: starts and stops it
	first := startProcess(t, localCommand(t, dir, "serve"))
	first.await("for=console")
	second := startProcess(t, localCommand(t, dir, "serve", "--roles", "api"))
	api := apiOf(second)
	list := succeedLocally(t, dir, "workspace", "list") // beside both
	if !strings.Contains(list, "acme") {
		t.Errorf("workspaces: %s", list)
	}
	if status := statusOf(t, api+"/v1/me"); status != http.StatusUnauthorized {
		t.Errorf("a request without a key is answered %d", status)
	}
	key := succeedLocally(t, dir, "key", "create", "--workspace", "acme", "--name", "k", "--scopes", "invoices:read", "--json")
	_, secret, _ := strings.Cut(key, `"key":"`)
	secret, _, _ = strings.Cut(secret, `"`)

	if code := first.stop(); code != cli.ExitDone {
		t.Errorf("the service that owned PostgreSQL ended with %d:\n%s", code, first.log)
	}
	if strings.Contains(first.log.String(), "waiting for other programs") {
		t.Errorf("it waited for a service that takes over:\n%s", first.log)
	}
	second.await("is back")
	testkit.Eventually(t, func() error {
		req := testkit.Must(http.NewRequestWithContext(t.Context(), http.MethodGet, api+"/v1/me", http.NoBody))(t)
		req.Header.Set("Authorization", "Bearer "+secret)
		resp, err := http.DefaultTransport.RoundTrip(req)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return fmt.Errorf("answered %s", resp.Status)
		}
		return nil
	})

	second.kill()
	if list := succeedLocally(t, dir, "workspace", "list"); !strings.Contains(list, "acme") {
		t.Errorf("workspaces after kill -9: %s", list)
	}
}

// startFollowing starts a command that uses the database until it is stopped.
func startFollowing(t *testing.T, dir string) *process {
	t.Helper()
	succeedLocally(t, dir, "workspace", "create", "--id", "acme", "--name", "Acme")
	c := localCommand(t, dir, "append")
	c.Stdin = strings.NewReader(`{"workspace_id":"acme","type":"client.recorded","data":{"client_id":"cl_1","name":"Blue Door Ltd"}}`)
	if r := runProcess(t, c); r.code != cli.ExitDone {
		t.Fatalf("append: exit %d\n%s", r.code, r.errOut)
	}
	follow := startProcess(t, localCommand(t, dir, "export", "--follow"))
	follow.await("client.recorded")
	return follow
}

// TestServiceWaitsForCommands: the end of the service that owns PostgreSQL does not
// cut off a command.
func TestServiceWaitsForCommands(t *testing.T) {
	t.Parallel()
	dir := localDir(t)
	serving := startProcess(t, localCommand(t, dir, "serve", "--roles", "project"))
	serving.await("for=admin")
	follow := startFollowing(t, dir)
	if err := serving.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	serving.await("waiting for other programs")
	if code := follow.stop(); code != cli.ExitDone {
		t.Errorf("the command ended with %d:\n%s", code, follow.log)
	}
	<-serving.done
	if code := serving.cmd.ProcessState.ExitCode(); code != cli.ExitDone {
		t.Errorf("serve ended with %d:\n%s", code, serving.log)
	}
}

// TestCommandSaysThatTheDatabaseHasStopped: a command whose service was killed says
// what happened.
func TestCommandSaysThatTheDatabaseHasStopped(t *testing.T) {
	t.Parallel()
	dir := localDir(t)
	serving := startProcess(t, localCommand(t, dir, "serve", "--roles", "project"))
	serving.await("for=admin")
	follow := startFollowing(t, dir)
	serving.kill()
	<-follow.done
	if code := follow.cmd.ProcessState.ExitCode(); code != cli.ExitFailed {
		t.Errorf("the command ended with %d", code)
	}
	for _, part := range []string{"the local PostgreSQL in " + dir + " has stopped", "rolled back as a whole", "run the command again"} {
		if !strings.Contains(follow.log.String(), part) {
			t.Errorf("%q is missing in:\n%s", part, follow.log)
		}
	}
}

// TestLastRecordOfAServer: when its PostgreSQL is killed, the last line of the log is one record with
// the cause and the advice, in the log's format.
func TestLastRecordOfAServer(t *testing.T) {
	t.Parallel()
	dir := localDir(t)
	c := localCommand(t, dir, "serve", "--roles", "project")
	c.Env = append(c.Env, "LEDGERFEED_LOG_FORMAT=json")
	serving := startProcess(t, c)
	serving.await(`"for":"admin"`)
	pid, _, _ := strings.Cut(read(t, filepath.Join(dir, "pgdata", "postmaster.pid")), "\n")
	if err := syscall.Kill(testkit.Must(strconv.Atoi(pid))(t), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-serving.done
	if code := serving.cmd.ProcessState.ExitCode(); code != cli.ExitFailed {
		t.Errorf("serve ended with %d", code)
	}
	var last struct{ Level, Error string }
	for line := range strings.Lines(serving.log.String()) {
		last.Level, last.Error = "", ""
		if err := json.Unmarshal([]byte(line), &last); err != nil {
			t.Errorf("no record: %s", line)
		}
	}
	if last.Level != "ERROR" || !strings.Contains(last.Error, "signal: killed") || !strings.Contains(last.Error, "Start the program again") {
		t.Errorf("the last record: %+v", last)
	}
}
