package cli

import (
	"log/slog"
	"strings"
	"testing"
	"time"
)

func TestDurationsInTheLogAreText(t *testing.T) {
	t.Parallel()
	for format, want := range map[string][]string{
		"json": {`"retried_every":"500ms"`, `"of":{"took":"1m0s"}`, `"count":3`},
		"text": {"retried_every=500ms", "of.took=1m0s", "count=3"},
	} {
		var out strings.Builder
		NewLogger(&out, format, slog.LevelInfo).Info("m", "retried_every", 500*time.Millisecond, slog.Group("of", "took", time.Minute), "count", 3)
		for _, part := range want {
			if !strings.Contains(out.String(), part) {
				t.Errorf("%s: %q is missing in %s", format, part, out.String())
			}
		}
	}
}
