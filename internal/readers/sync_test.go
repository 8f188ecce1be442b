package readers

import (
	"errors"
	"strings"
	"testing"

	"github.com/ledgerfeed/ledgerfeed/internal/cli"
)

// TestSyncWrongUsage: what cannot be meant is refused with what is wanted.
func TestSyncWrongUsage(t *testing.T) {
	t.Parallel()
	key := t.TempDir() + "/key"
	write(t, key, "a-key")
	for args, want := range map[string]string{
		"":                        "want --url",
		"--url https://a.example": "want --to sqlite:FILE or --to postgres://…",
		"--url ftp://a.example --to sqlite:x --key-file " + key:              "--url: want the API's address",
		"--url https://a.example --to mysql://x --key-file " + key:           "--to: want sqlite:FILE or postgres://…",
		"--url https://a.example --to sqlite: --key-file " + key:             "--to: want sqlite:FILE or postgres://…",
		"--url https://a.example --to sqlite:x --schema a --key-file " + key: "--to: a schema is for PostgreSQL alone",
	} {
		got := run(t, syncCommand, strings.Fields(args)...)
		var usage *cli.UsageError
		if got.err == nil || !strings.Contains(got.err.Error(), want) || !errors.As(got.err, &usage) {
			t.Errorf("%q: %v, want %q", args, got.err, want)
		}
	}
}
