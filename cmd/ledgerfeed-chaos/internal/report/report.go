// Package report prints what a run did and what it found.
package report

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed-chaos/internal/check"
)

// Report is the outcome of a run.
type Report struct {
	Seed     uint64
	Took     time.Duration
	Faults   []check.Fault
	Longest  map[string]time.Duration // by kind, of a reader who asks any process
	Each     map[string]time.Duration // by kind, of a reader who asks one process
	Figures  []Figure
	Findings []check.Finding
	Counts   map[string]int // findings by rule
}

// Figure is one line of what was checked.
type Figure struct{ Name, Value string }

// Write writes the report as Markdown.
func (r *Report) Write(out io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "\nSeed %d, %d faults in %v.\n\n", r.Seed, len(r.Faults), r.Took.Round(time.Second))
	b.WriteString("| fault | times | not done | longest without an answer, any process | longest without an answer, one process |\n|---|---:|---:|---:|---:|\n")
	type row struct{ times, failed int }
	kinds := map[string]row{}
	for i := range r.Faults {
		k := kinds[r.Faults[i].Kind]
		k.times++
		if r.Faults[i].Err != "" {
			k.failed++
		}
		kinds[r.Faults[i].Kind] = k
	}
	for _, name := range slices.Sorted(maps.Keys(kinds)) {
		fmt.Fprintf(&b, "| %s | %d | %d | %s | %s |\n", name, kinds[name].times, kinds[name].failed, seconds(r.Longest[name]), seconds(r.Each[name]))
	}
	b.WriteString("\n| checked | |\n|---|---|\n")
	for _, f := range r.Figures {
		fmt.Fprintf(&b, "| %s | %s |\n", f.Name, f.Value)
	}
	if len(r.Findings) == 0 {
		b.WriteString("\nNothing was found.\n")
	} else {
		fmt.Fprintf(&b, "\nFOUND (seed %d):\n", r.Seed)
		for _, rule := range slices.Sorted(maps.Keys(r.Counts)) {
			fmt.Fprintf(&b, "  %d × %s\n", r.Counts[rule], rule)
		}
		for _, f := range r.Findings {
			fmt.Fprintf(&b, "- %s\n", shorten(f.String()))
		}
	}
	if _, err := io.WriteString(out, b.String()); err != nil {
		return fmt.Errorf("cannot write the report: %w", err)
	}
	return nil
}

func seconds(d time.Duration) string {
	if d == 0 {
		return "< 0.5 s"
	}
	return fmt.Sprintf("%.1f s", d.Seconds())
}

// mostText is how much of a finding is printed, in bytes.
const mostText = 600

func shorten(s string) string {
	if len(s) > mostText {
		return s[:mostText] + "…"
	}
	return s
}
