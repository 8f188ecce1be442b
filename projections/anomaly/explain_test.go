package anomaly_test

import (
	"strings"
	"testing"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/projections/anomaly"
)

// Each reason has a name in words, and a sentence of its own.
func TestReasonsAreExplained(t *testing.T) {
	t.Parallel()
	names, unknown := map[string]domain.Reason{}, anomaly.Explain("none")
	for _, r := range domain.Reasons() {
		name := anomaly.Name(r)
		if other, taken := names[name]; taken || name == string(r) || strings.Contains(name, "_") {
			t.Errorf("%s is called %q, like %q", r, name, other)
		}
		if names[name] = r; anomaly.Explain(r) == unknown {
			t.Errorf("%s is not explained", r)
		}
	}
	if got := anomaly.Name("newer"); got != "newer" {
		t.Errorf("a reason that this version does not know is called %q", got)
	}
}
