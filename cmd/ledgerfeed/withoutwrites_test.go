package main

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/internal/cli"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

// TestATimeWithoutWrites: a database that took no writes for a while is projected and
// delivered from again when it takes them, by the processes that were there all the time.
func TestATimeWithoutWrites(t *testing.T) {
	t.Parallel()
	testkit.Unpooled(t, "the connections that take no writes are the pooler's")
	url := testkit.NewDatabase(t)
	receiver := testkit.NewReceiver(t, nil)
	with := func(args ...string) *process {
		t.Helper()
		c := command(t, url, args...)
		c.Env = append(c.Env, "LEDGERFEED_WEBHOOK_ALLOW=127.0.0.0/8", "LEDGERFEED_WEBHOOK_CA_FILE="+testkit.CAFile(t))
		return startProcess(t, c)
	}
	appendOne := func(url string, n int) {
		t.Helper()
		c := command(t, url, "append")
		c.Stdin = strings.NewReader(fmt.Sprintf(`{"workspace_id":"acme","type":"invoice.reversed","data":{"invoice_id":"in_%d"}}`, n))
		if r := runCommand(t, c); r.code != cli.ExitDone {
			t.Fatalf("%+v", r)
		}
	}
	succeed(t, url, "workspace", "create", "--id", "acme")
	if code := with("webhook", "create", "--workspace", "acme", "--url", receiver.URL, "--events", "all").wait(); code != cli.ExitDone {
		t.Fatal("no webhook was made")
	}
	serving := with("serve")
	admin := strings.TrimSpace(serving.await("for=admin url="))
	appendOne(url, 1)
	receiver.Wait(t, 1)

	owner := testkit.Must(pgx.Connect(t.Context(), url))(t)
	defer owner.Close(t.Context())
	setDefault := func(setting string) {
		t.Helper()
		testkit.Must(owner.Exec(t.Context(), `DO $$ BEGIN EXECUTE format('ALTER DATABASE %I `+setting+`', current_database()); END $$`))(t)
	}
	setDefault("SET default_transaction_read_only = on")
	testkit.Must(owner.Exec(t.Context(), `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()`))(t)
	appendOne(url+"&default_transaction_read_only=off", 2) // without an entry there is nothing to claim
	serving.await("cannot claim entries")
	serving.await("cannot renew the lease for delivering")
	setDefault("RESET ALL")

	receiver.Wait(t, 2)
	appendOne(url, 3)
	receiver.Wait(t, 3)
	testkit.Eventually(t, func() error {
		if got, text := bodyOf(t, admin+"/readyz"); got != http.StatusOK {
			return fmt.Errorf("%d: %s", got, text)
		}
		return nil
	})
}
