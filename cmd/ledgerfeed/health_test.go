package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed/internal/cli"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

// TestHealth: the command says what /readyz of the process beside it says.
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
		_, err := askReady(t.Context(), "http://"+admin+"/readyz")
		return err
	})
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
}

// A listener at all addresses is asked at the machine's own.
func TestReachable(t *testing.T) {
	t.Parallel()
	for listen, want := range map[string]string{
		":9090": "127.0.0.1:9090", "0.0.0.0:9090": "127.0.0.1:9090", "[::]:9090": "127.0.0.1:9090", "127.0.0.1:9090": "127.0.0.1:9090", "admin.internal:1": "admin.internal:1",
	} {
		if got := reachable(listen); got != want {
			t.Errorf("%s: %s, want %s", listen, got, want)
		}
	}
}
