package main

import (
	"strings"
	"testing"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed/internal/cli"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

// TestMigrateTellsBefore: --check and --dry-run say what is missing and change nothing.
func TestMigrateTellsBefore(t *testing.T) {
	t.Parallel()
	url := testkit.EmptyDatabase(t)
	for _, c := range []struct {
		args string
		code int
		says string
	}{
		{"migrate --check", cli.ExitFailed, "missing 00001_log.sql"},
		{"migrate --check --json", cli.ExitFailed, `{"missing":["00001_log.sql"`},
		{"migrate --dry-run", cli.ExitDone, "CREATE TABLE event_log"},
		{"migrate --check --dry-run", cli.ExitUsage, "check"},
		{"migrate --check", cli.ExitFailed, "ledgerfeed migrate"},
		{"migrate", cli.ExitDone, "applied 00001_log.sql"},
		{"migrate --check", cli.ExitDone, "up to date"},
		{"migrate --dry-run --json", cli.ExitDone, `{"missing":[]}`},
		{"migrate", cli.ExitDone, "up to date"},
	} {
		r := runCommand(t, command(t, url, strings.Fields(c.args)...))
		if r.code != c.code || !strings.Contains(r.out+r.errOut, c.says) {
			t.Errorf("%s: exit %d, want %d and %q in:\n%s%s", c.args, r.code, c.code, c.says, r.out, r.errOut)
		}
	}
}
