package client_test

import (
	"html"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

var goCode = regexp.MustCompile(`(?s)data-language="Go"><code>(.*?)</code>`)

// TestTheGuideShowsTheExamples: the Go lines of the guide are lines of the examples, which run.
func TestTheGuideShowsTheExamples(t *testing.T) {
	t.Parallel()
	examples := string(testkit.Must(os.ReadFile("example_test.go"))(t))
	guide := string(testkit.Must(os.ReadFile("../reference/pages/guides/go-client.html"))(t))
	shown := goCode.FindAllStringSubmatch(guide, -1)
	if len(shown) < 5 {
		t.Errorf("the guide shows %d pieces of code", len(shown))
	}
	for _, m := range shown {
		code := "\n" + html.UnescapeString(m[1]) + "\n"
		if !strings.Contains(strings.ReplaceAll(examples, "\n\t", "\n"), code) { // the body of a function is indented
			t.Errorf("no example has\n%s", code)
		}
	}
}
