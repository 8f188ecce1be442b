package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ledgerfeed/ledgerfeed/internal/cli"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

// TestReadingMakesNoDatabase: commands that only read say that there is no database, and
// make neither a directory nor tables.
func TestReadingMakesNoDatabase(t *testing.T) {
	t.Parallel()
	empty := testkit.EmptyDatabase(t)
	for _, args := range []string{
		"status", "status --wait", "verify", "explain invoices in_1 --workspace acme", "export", "export --follow", "doctor", "migrate --check", "migrate --dry-run",
		"workspace list", "key list --workspace acme", "webhook list --workspace acme", "secret-key check",
		"anomaly list", "anomaly show acme", "quarantine list", "quarantine show acme",
	} {
		t.Run(args, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "data")
			c := command(t, "", strings.Fields(args)...)
			c.Env = append(c.Env, "DATABASE_URL=", "LEDGERFEED_DATA_DIR="+dir)
			r := runCommand(t, c)
			if r.code != cli.ExitFailed || !strings.Contains(r.errOut+r.out, "there is no database in "+dir+" yet") {
				t.Errorf("without a database: %+v", r)
			}
			if _, err := os.Stat(dir); !os.IsNotExist(err) {
				t.Errorf("the data directory was made (%v)", err)
			}
			if args == "doctor" || strings.HasPrefix(args, "migrate") {
				return // they are for a database without tables, too
			}
			if r := runCommand(t, command(t, empty, strings.Fields(args)...)); r.code != cli.ExitFailed || !strings.Contains(r.errOut+r.out, "has no tables of this program yet") {
				t.Errorf("without tables: %+v", r)
			}
		})
	}
}
