package readers

import (
	"errors"
	"strings"
	"testing"

	"github.com/ledgerfeed/ledgerfeed/internal/cli"
)

// TestMCPWrongUsage: what cannot be meant is refused with what is wanted.
func TestMCPWrongUsage(t *testing.T) {
	t.Parallel()
	key := t.TempDir() + "/key"
	write(t, key, "a-key")
	for args, want := range map[string]string{
		"":                        "want --url",
		"--url https://a.example": "want an API key",
		"--url http://a.example --key-file " + key: "--url: a.example would carry the key in plain text",
	} {
		got := run(t, mcpCommand, strings.Fields(args)...)
		var usage *cli.UsageError
		if got.err == nil || !strings.Contains(got.err.Error(), want) || !errors.As(got.err, &usage) {
			t.Errorf("%q: %v, want %q", args, got.err, want)
		}
	}
}
