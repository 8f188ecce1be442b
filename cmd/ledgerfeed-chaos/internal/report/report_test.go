package report

import (
	"strings"
	"testing"
	"time"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed-chaos/internal/check"
)

func TestReport(t *testing.T) {
	t.Parallel()
	r := &Report{
		Seed: 42, Took: 90 * time.Second, Longest: map[string]time.Duration{"kill": 1200 * time.Millisecond},
		Faults:  []check.Fault{{Kind: "kill"}, {Kind: "kill", Err: "gone"}, {Kind: "cut"}},
		Figures: []Figure{{"entries", "5"}},
	}
	var out strings.Builder
	if err := r.Write(&out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"Seed 42, 3 faults in 1m30s", "| kill | 2 | 1 | 1.2 s | < 0.5 s |", "| cut | 1 | 0 |", "| entries | 5 |", "Nothing was found."} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing in\n%s", want, out.String())
		}
	}
	r.Findings, r.Counts = []check.Finding{{Rule: "rule", Text: strings.Repeat("x", 5000)}}, map[string]int{"rule": 9}
	out.Reset()
	if err := r.Write(&out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"FOUND (seed 42)", "9 × rule", "- rule: xxx", "…"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing in\n%s", want, out.String())
		}
	}
}
