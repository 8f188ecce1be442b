package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed/internal/service"
	"github.com/ledgerfeed/ledgerfeed/internal/cli"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

// TestHealth: the command says what /readyz of the process beside it says, and doctor
// whether there is one.
func TestHealth(t *testing.T) {
	t.Parallel()
	url := testkit.NewDatabase(t)
	serving := startProcess(t, command(t, url, "serve"))
	admin := strings.TrimPrefix(strings.TrimSpace(strings.TrimPrefix(serving.await("for=admin"), " url=")), "http://")
	health := func(address string) result {
		c := command(t, url, "health")
		c.Env = append(c.Env, "LEDGERFEED_ADMIN_LISTEN="+address)
		return runCommand(t, c)
	}
	testkit.Eventually(t, func() error {
		answer, err := service.Ask(t.Context(), admin)
		if err == nil && !answer.Ready {
			return fmt.Errorf("%+v", answer)
		}
		return err
	})
	doctor := func() string {
		c := command(t, url, "doctor")
		c.Env = append(c.Env, "LEDGERFEED_ADMIN_LISTEN="+admin)
		return runCommand(t, c).out
	}
	if found := doctor(); !strings.Contains(found, "the roles api, project, deliver, console are connected to the database") || !strings.Contains(found, "the process at "+admin+" is ready") {
		t.Errorf("doctor does not see the process:\n%s", found)
	}
	if r := health(admin); r.code != cli.ExitDone || r.out != "The process is ready.\n" {
		t.Errorf("%d %s%s", r.code, r.out, r.errOut)
	}
	pool := testkit.Must(pgxpool.New(t.Context(), url))(t)
	t.Cleanup(pool.Close)
	if _, err := pool.Exec(t.Context(), "ALTER TABLE invoice RENAME TO gone"); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, func() error {
		if r := health(admin); r.code != cli.ExitFailed || !strings.Contains(r.errOut, "the process is not ready: api: ") {
			return fmt.Errorf("exit %d: %s", r.code, r.errOut)
		}
		return nil
	})
	if code := serving.stop(); code != cli.ExitDone {
		t.Errorf("the process ended with %d", code)
	}
	if r := health(admin); r.code != cli.ExitFailed || !strings.Contains(r.errOut, "no process answers at LEDGERFEED_ADMIN_LISTEN") {
		t.Errorf("%d %s", r.code, r.errOut)
	}
	testkit.Eventually(t, func() error { // the server takes a moment to end its sessions
		if found := doctor(); !strings.Contains(found, "no process with the role api or project is connected to the database") || !strings.Contains(found, "none serves at "+admin) {
			return fmt.Errorf("doctor does not see that the process is gone:\n%s", found)
		}
		return nil
	})
}

// A listener at all addresses is asked at the machine's own.
func TestReachable(t *testing.T) {
	t.Parallel()
	for listen, want := range map[string]string{
		":9090": "127.0.0.1:9090", "0.0.0.0:9090": "127.0.0.1:9090", "[::]:9090": "127.0.0.1:9090", "127.0.0.1:9090": "127.0.0.1:9090", "admin.internal:1": "admin.internal:1",
	} {
		if got := service.AdminURL(listen); got != "http://"+want {
			t.Errorf("%s: %s, want %s", listen, got, want)
		}
	}
}
