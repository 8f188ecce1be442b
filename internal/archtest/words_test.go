package archtest

import (
	"go/ast"
	"go/token"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// counted is a count in a text with a word after it that is wrong for one.
var counted = regexp.MustCompile(`%[ds] (?:of (?:the )?%[ds] )?(?:[a-z]+ )?(?:entries|events|rows|lines|webhooks|workspaces|keys|secrets|messages|deliveries|attempts|requests|` +
	`failures|differences|anomalies|errors|warnings|faults|parameters|settings|migrations|connections|processes|nodes|replicas|sessions|times|days|hours|minutes|seconds|are)\b`)

// bound is what stands before a number that is a bound, and so never one.
var bound = regexp.MustCompile(`(?i:at most|at least|up to|more than|longer than|newest|first|to|with|has) $`)

// TestCountsHaveTheirWords: what people read says "1 webhook fails" and "2 webhooks fail". A count and its
// word come from package texts, not from one format for all numbers.
func TestCountsHaveTheirWords(t *testing.T) {
	t.Parallel()
	// Counts that are never one where the text is written.
	never := []string{
		"%d settings are wrong:", "%d lines have a wrong form", "and %d more faults", "the process ended %d times in a row", "there are %d signing keys: want one",
		"also after %d attempts", "of %d connections %s in use", "of the %d connections to the database that it may have",
	}
	for _, f := range tree(t) {
		if f.test() || toTools.MatchString(f.path) {
			continue
		}
		ast.Inspect(f.syntax, func(n ast.Node) bool {
			text, ok := n.(*ast.BasicLit)
			if !ok || text.Kind != token.STRING {
				return true
			}
			format, err := strconv.Unquote(text.Value)
			if err != nil || slices.ContainsFunc(never, func(text string) bool { return strings.Contains(format, text) }) {
				return true
			}
			for _, at := range counted.FindAllStringIndex(format, -1) {
				if !bound.MatchString(format[:at[0]]) && strings.HasPrefix(format[at[0]:], "%d") {
					t.Errorf("%s: %q: want texts.Count or texts.Plural for %q", f.set.Position(text.Pos()), format, format[at[0]:at[1]])
				}
			}
			return true
		})
	}
}

// toTools is what only those who work on the program see, and what goes with the next version.
var toTools = regexp.MustCompile(`^(cmd/ledgerfeed-(bench|chaos|image)/|docs/|projections/projectionstest/|internal/testkit/|internal/badnetwork/|cmd/ledgerfeed/(size|bench)\.go|cmd/ledgerfeed/internal/supportbundle/|internal/witness/)`)
