package main

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/internal/cli"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

// TestQuarantineOfARelay: a relay that cannot send an entry can be told to skip it, and no
// other consumer skips it then.
func TestQuarantineOfARelay(t *testing.T) {
	t.Parallel()
	url := testkit.NewDatabase(t)
	c := command(t, url, "append")
	c.Stdin = strings.NewReader(`{"workspace_id":"acme","id":"poison","type":"invoice.reversed","data":{"invoice_id":"in_1"}}` + "\n")
	if r := runCommand(t, c); r.code != cli.ExitDone {
		t.Fatalf("%+v", r)
	}
	conn := testkit.Must(pgx.Connect(t.Context(), url))(t)
	defer conn.Close(t.Context())
	execute1(t, conn, `INSERT INTO log_checkpoint (workspace_id, consumer, quarantined, failures, failed_to, segment_max, error, retry_at)
		VALUES ('acme', 'relay:east', true, 7, 1, 1, 'no response from stream', '2100-01-01T00:00:00Z')`)
	if out := succeed(t, url, "quarantine", "list"); !strings.Contains(out, "relay:east") || !strings.Contains(out, "no response from stream") {
		t.Errorf("list:\n%s", out)
	}
	if out := succeed(t, url, "quarantine", "show", "acme", "--consumer", "relay:east"); !strings.Contains(out, "poison") {
		t.Errorf("show:\n%s", out)
	}
	if r := runCommand(t, command(t, url, "quarantine", "skip", "acme", "--reason", "x", "--consumer", "relay:west")); r.code != cli.ExitUsage || !strings.Contains(r.errOut, "relay:east") {
		t.Errorf("a relay that there is not: %+v", r)
	}
	if r := runCommand(t, command(t, url, "quarantine", "skip", "acme", "--reason", "x")); r.code != cli.ExitFailed {
		t.Errorf("the read models do not wait: %+v", r)
	}
	if out := succeed(t, url, "quarantine", "skip", "acme", "--reason", "cannot be sent", "--consumer", "relay:east"); !strings.Contains(out, "skipped by relay:east in acme at position 1, poison") {
		t.Errorf("skip:\n%s", out)
	}
	var position int64
	if err := conn.QueryRow(t.Context(), `SELECT position FROM log_checkpoint WHERE consumer = 'relay:east'`).Scan(&position); err != nil || position != 1 {
		t.Errorf("the relay is at %d, %v", position, err)
	}
}
