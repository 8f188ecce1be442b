//go:build full

package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed/internal/cli"
	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed/internal/service"
	"github.com/ledgerfeed/ledgerfeed/internal/sizing"
)

// TestConnectionsOfRoles: the costs have the sizes of the pools that processes open.
func TestConnectionsOfRoles(t *testing.T) {
	t.Parallel()
	want := map[string]int{sizing.AllRoles: service.Connections(service.Roles()...)}
	for _, r := range service.Roles() {
		want[r] = service.Connections(r)
	}
	for _, r := range sizing.Roles() {
		if r.Connections != want[r.Name] {
			t.Errorf("%s has %d connections, the costs say %d", r.Name, want[r.Name], r.Connections)
		}
		delete(want, r.Name)
	}
	if len(want) > 0 {
		t.Errorf("without costs: %v", want)
	}
}

// TestSize: no database is needed, and none is made.
func TestSize(t *testing.T) {
	t.Parallel()
	r := runCommand(t, command(t, "postgres://127.0.0.1:1/none", "size", "--entries-per-day", "1e5", "--years", "2"))
	if r.code != cli.ExitDone || r.errOut != "" {
		t.Fatalf("%+v", r)
	}
	for _, want := range []string{"100 thousand entries a day", "DISK after 2 years", "with 73.1 million entries", "wal_compression lz4", "22 GiB a day", "every 1m0s (archive_timeout), also when idle", "compress them in archive_command", "2 × all", "max_connections 126 or more"} {
		if !strings.Contains(r.out, want) {
			t.Errorf("no %q in\n%s", want, r.out)
		}
	}
	r = runCommand(t, command(t, "postgres://127.0.0.1:1/none", "size", "--entries-per-day", "1e5", "--processes", "api=3, project=1", "--retention", "7d", "--archive-timeout", "1h", "--json"))
	var e sizing.Estimate
	if err := json.Unmarshal([]byte(r.out), &e); err != nil {
		t.Fatalf("%v in\n%s%s", err, r.out, r.errOut)
	}
	if e.RetentionDays != 7 || e.Connections != 3*service.Connections(service.RoleAPI)+service.Connections(service.RoleProject) || len(e.Memory) != 2 || e.Database <= 0 || e.WAL.ArchivedCompressed != max(e.WAL.Compressed, 24*16<<20) {
		t.Errorf("%+v", e)
	}
}
