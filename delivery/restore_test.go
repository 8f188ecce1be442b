package delivery_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/ledgerfeed/ledgerfeed/delivery"
	"github.com/ledgerfeed/ledgerfeed/delivery/dispatch"
	"github.com/ledgerfeed/ledgerfeed/delivery/policy"
	"github.com/ledgerfeed/ledgerfeed/internal/localpg"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
	"github.com/ledgerfeed/ledgerfeed/migrations"
)

// TestOlderBackupIsNoticed restores a backup under a running dispatcher, whose lease
// is in the backup and still lasts. What is appended then at positions that the
// dispatcher remembers as delivered is delivered.
func TestOlderBackupIsNoticed(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("/dev/shm", "delivery-restore-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o711); err != nil {
		t.Fatal(err)
	}
	data, backup := filepath.Join(dir, "data"), filepath.Join(dir, "backup")
	start := func() *localpg.Server {
		return testkit.Must(localpg.Open(t.Context(), localpg.Config{DataDir: data, Throwaway: true}))(t)
	}
	server := start()
	defer func() { _ = server.Close(context.WithoutCancel(t.Context())) }()
	if _, err := migrations.Up(t.Context(), server.URL()); err != nil {
		t.Fatal(err)
	}
	pool := testkit.Must(pg.Open(t.Context(), server.URL(), pg.Options{}))(t)
	t.Cleanup(pool.Close)
	b := setupOn(t, pool, policy.Settings{})
	rc := testkit.NewReceiver(t, nil)
	testkit.Must(b.store.Create(t.Context(), workspace, delivery.Definition{URL: rc.URL, Events: []string{"all"}}))(t)
	_, stop := b.dispatcher(func(c *dispatch.Config) { c.Renew = soon })
	defer stop() // before its server does
	b.append("invoice.reversed", 3)
	rc.Wait(t, 3)

	cp := func(from, to string) {
		t.Helper()
		if err := server.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := os.RemoveAll(to); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.Command("cp", "-a", from, to).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		server = start()
		pool.Reset() // its connections are of the server before
	}
	cp(filepath.Join(data, "pgdata"), backup)
	b.append("invoice.reversed", 5)
	rc.Wait(t, 8)
	cp(backup, filepath.Join(data, "pgdata"))

	fresh := b.append("invoice.reversed", 4)
	testkit.Eventually(t, func() error { return missing(rc, fresh) })
}

// missing complains about events that have not arrived.
func missing(rc *testkit.Receiver, events []string) error {
	arrived := map[string]bool{}
	for _, r := range rc.All() {
		arrived[r.Header.Get("Service-Event-Id")] = true
	}
	for _, id := range events {
		if !arrived[id] {
			return fmt.Errorf("%s has not arrived", id)
		}
	}
	return nil
}
