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

var typeScriptCode = regexp.MustCompile("(?s)```ts\n(.*?)```")

// TestTheReadmeOfTypeScriptShowsTheSamples: the code of the README is that of the samples, which run.
func TestTheReadmeOfTypeScriptShowsTheSamples(t *testing.T) {
	t.Parallel()
	flat := func(code string) string { return regexp.MustCompile(`(?m)^\s+`).ReplaceAllString(code, "") }
	samples := flat(string(testkit.Must(os.ReadFile("typescript/test/samples.ts"))(t)))
	shown := typeScriptCode.FindAllStringSubmatch(string(testkit.Must(os.ReadFile("typescript/README.md"))(t)), -1)
	if len(shown) < 5 {
		t.Errorf("the README shows %d pieces of code", len(shown))
	}
	for _, m := range shown {
		if !strings.Contains(samples, flat(m[1])) {
			t.Errorf("no sample has\n%s", m[1])
		}
	}
}
