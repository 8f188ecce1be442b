//go:build full

package witness_test

import (
	"strings"
	"testing"

	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
	"github.com/ledgerfeed/ledgerfeed/internal/witness"
)

// TestLogs: several keys of a name are one log's, and a wrong line is named.
func TestLogs(t *testing.T) {
	t.Parallel()
	a, b := testkit.Must(newKeys(t).Verifiers(origin))(t)[0], testkit.Must(newKeys(t).Verifiers(origin))(t)[0]
	other := testkit.Must(newKeys(t).Verifiers("other.example.com/log"))(t)[0]
	logs := testkit.Must(witness.ParseLogs("# logs\n\n" + strings.Join([]string{a, b, a, other}, "\n")))(t)
	if len(logs) != 2 || len(logs[origin]) != 2 {
		t.Errorf("%v", logs)
	}
	for _, c := range []struct{ text, want string }{{"", "no verifier key"}, {a + "\nnonsense", "line 2"}} {
		if _, err := witness.ParseLogs(c.text); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
}
