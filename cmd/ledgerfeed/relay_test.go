package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/ledgerfeed/ledgerfeed/internal/cli"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit/natscluster"
)

// TestSecondRegion runs the commands of docs/operations/ingest.md: a log is relayed to a
// second installation, whose processes are killed meanwhile, and the logs are equal.
func TestSecondRegion(t *testing.T) {
	t.Parallel()
	home, away, cluster := testkit.NewDatabase(t), testkit.NewDatabase(t), natscluster.Start(t, 1)
	serve := func(url, roles string, settings ...string) *process {
		c := command(t, url, "serve", "--roles", roles)
		c.Env = append(c.Env, settings...)
		return startProcess(t, c)
	}
	relaying := serve(home, "project,relay", "LEDGERFEED_RELAY_URL="+cluster.URL()+"/?replicas=1&form=entries")
	ingesting := serve(away, "project,ingest", "LEDGERFEED_INGEST_URL="+cluster.URL()+"/?trust=relay")
	for part := range 3 {
		var lines strings.Builder
		for i := range 200 {
			fmt.Fprintf(&lines, `{"workspace_id":"acme","type":"client.recorded","data":{"client_id":"c%d","name":"Client %d"}}`+"\n", i, part)
		}
		if r := appendLines(t, home, lines.String()); r.code != cli.ExitDone {
			t.Fatalf("append: %s", r.errOut)
		}
		switch part {
		case 0:
			relaying.await("the relay goes on")
			relaying.kill()
			relaying = serve(home, "project,relay", "LEDGERFEED_RELAY_URL="+cluster.URL()+"/?form=entries")
		case 1:
			ingesting.await("messages can be ingested")
			ingesting.kill()
			ingesting = serve(away, "project,ingest", "LEDGERFEED_INGEST_URL="+cluster.URL()+"?trust=relay")
		}
	}
	want := succeed(t, home, "export", "--chain", "--workspace", "acme")
	testkit.Eventually(t, func() error {
		if r := runCommand(t, command(t, away, "export", "--chain", "--workspace", "acme")); r.out != want {
			return fmt.Errorf("the second region holds %d of %d lines; logged:\n%s", strings.Count(r.out, "\n"), strings.Count(want, "\n"), ingesting.log)
		}
		return nil
	})
	succeed(t, away, "status", "--wait")
	if text := succeed(t, away, "verify"); strings.Contains(text, "differs") {
		t.Error(text)
	}
	testkit.Eventually(t, func() error {
		text := succeed(t, home, "status")
		if !strings.Contains(text, "relay  600       600      0    0.0      0") {
			return fmt.Errorf("status:\n%s", text)
		}
		return nil
	})
	for name, p := range map[string]*process{"relay": relaying, "ingest": ingesting} {
		if code := p.stop(); code != cli.ExitDone {
			t.Errorf("%s ended with %d:\n%s", name, code, p.log)
		}
	}
}

func TestRolesThatNeedAnAddress(t *testing.T) {
	t.Parallel()
	for role, want := range map[string]string{"relay": "needs LEDGERFEED_RELAY_URL", "ingest": "needs LEDGERFEED_INGEST_URL", "ingest-api": "needs LEDGERFEED_INGEST_LISTEN"} {
		r := runCommand(t, command(t, "", "serve", "--roles", role))
		if r.code != cli.ExitUsage || !strings.Contains(r.errOut, want) {
			t.Errorf("%s: exit %d, %s", role, r.code, r.errOut)
		}
	}
}
