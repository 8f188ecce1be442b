//go:build full

package statement_test

import (
	"os"
	"strings"
	"testing"

	"github.com/ledgerfeed/ledgerfeed/delivery/statement"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

// TestTheDocumentedForm: the example of the documentation is a statement, its sum is that
// of its lines, and each kind of line is explained.
func TestTheDocumentedForm(t *testing.T) {
	t.Parallel()
	page := string(testkit.Must(os.ReadFile("../../docs/statements.md"))(t))
	_, example, _ := strings.Cut(page, "```\n"+name+"\n")
	example, _, _ = strings.Cut(example, "\n\n— ")
	s, err := statement.Parse(name + "\n" + example + "\n")
	if err != nil {
		t.Fatal(err)
	}
	_, listed, _ := strings.Cut(s.Text(), "\nlisted 3\n")
	if got := hexSum(listed); got != s.UndeliveredSum.String() {
		t.Errorf("the sum of\n%sis %s", listed, got)
	}
	for line := range strings.SplitSeq(example, "\n") {
		key, _, _ := strings.Cut(line, " ")
		if line != "webhook statement v1" && !strings.Contains(page, "`"+key+"`") {
			t.Errorf("no row for %s", key)
		}
	}
}
