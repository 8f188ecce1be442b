package archtest

import (
	"go/ast"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestLinksInDocuments: a link in a document of the repository leads to a file
// that exists, and to a heading that is there. Files that a text names in
// backquotes exist too.
func TestLinksInDocuments(t *testing.T) {
	t.Parallel()
	documents := markdown(t)
	links := 0
	for _, name := range documents {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, target := range linksIn(string(text)) {
			links++
			if fault := linkFault(name, target); fault != "" {
				t.Errorf("%s: %s", name, fault)
			}
		}
	}
	if links == 0 {
		t.Error("no links found: the test does not see them")
	}
}

// brokenTable is the line below a table's head in the middle of another line, where wrapping has put
// it.
var brokenTable = regexp.MustCompile(`\S.*\| \|:?--`)

// TestTablesInDocuments: each row of a table has a line of its own.
func TestTablesInDocuments(t *testing.T) {
	t.Parallel()
	if !brokenTable.MatchString("   | a | b | |---|---| | c") || brokenTable.MatchString("| | |\n|---|---|") {
		t.Error("the pattern is wrong")
	}
	for _, name := range markdown(t) {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if line := brokenTable.FindString(string(text)); line != "" {
			t.Errorf("%s: a table in one line: %s", name, line)
		}
	}
}

// TestAlertsQuoteTheLog: what alerts.md quotes of the log is what the program logs, so that an
// operator who searches for it finds it.
func TestAlertsQuoteTheLog(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join(root, "docs", "operations", "alerts.md"))
	if err != nil {
		t.Fatal(err)
	}
	quotes := regexp.MustCompile(`"([a-z][^"]* [^"]*)"`).FindAllSubmatch(page, -1)
	if len(quotes) < 5 {
		t.Errorf("only %d quotes found: the test does not see them", len(quotes))
	}
	var literals strings.Builder
	for _, file := range tree(t) {
		if file.test() {
			continue
		}
		for node := range ast.Preorder(file.syntax) {
			if literal, ok := node.(*ast.BasicLit); ok && literal.Kind == token.STRING {
				literals.WriteString(literal.Value)
			}
		}
	}
	for _, quote := range quotes {
		if sentence := strings.Join(strings.Fields(string(quote[1])), " "); !strings.Contains(literals.String(), sentence) {
			t.Errorf("no text of the program has %q", sentence)
		}
	}
}

// TestREADMELeadsToEverything: each document is reached from README.md.
func TestREADMELeadsToEverything(t *testing.T) {
	t.Parallel()
	start := filepath.Join(root, "README.md")
	reached, open := map[string]bool{start: true}, []string{start}
	for len(open) > 0 {
		name := open[0]
		open = open[1:]
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, target := range linksIn(string(text)) {
			file, _, _ := strings.Cut(target, "#")
			full := filepath.Join(filepath.Dir(name), file)
			if info, err := os.Stat(full); err == nil && info.IsDir() {
				full = filepath.Join(full, "README.md") // which is what a visitor of the directory sees
			}
			if _, err := os.Stat(full); err == nil && filepath.Ext(full) == ".md" && !strings.Contains(target, "://") && !reached[full] {
				reached[full] = true
				open = append(open, full)
			}
		}
	}
	documents := markdown(t)
	if len(documents) == 0 {
		t.Error("no documents found")
	}
	for _, name := range documents {
		if !reached[name] {
			t.Errorf("no links lead from README.md to %s", name)
		}
	}
}

var alertLine = regexp.MustCompile(`(?m)- alert: (\w+)`)

// TestEveryAlertHasItsSection: an operator who gets an alert finds what to do.
func TestEveryAlertHasItsSection(t *testing.T) {
	t.Parallel()
	read := func(elements ...string) string {
		text, err := os.ReadFile(filepath.Join(append([]string{root}, elements...)...))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	page := read("docs", "operations", "alerts.md")
	alerts := alertLine.FindAllStringSubmatch(read("packaging", "prometheus", "ledgerfeed.rules.yaml"), -1)
	if len(alerts) == 0 {
		t.Error("no alerts found in the rules")
	}
	for _, m := range alerts {
		if !strings.Contains(page, "\n## "+m[1]+"\n") {
			t.Errorf("docs/operations/alerts.md has no section about %s", m[1])
		}
	}
}

// TestReadmesGoIsTheDemos: the Go lines that README shows are those that the demo runs.
func TestReadmesGoIsTheDemos(t *testing.T) {
	t.Parallel()
	readme, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	demo, err := os.ReadFile(filepath.Join(root, "cmd", "ledgerfeed", "internal", "demo", "product.go"))
	if err != nil {
		t.Fatal(err)
	}
	_, block, _ := strings.Cut(string(readme), "```go\n")
	block, _, found := strings.Cut(block, "```")
	words := func(text string) string { return strings.Join(strings.Fields(text), " ") }
	if !found || !strings.Contains(words(string(demo)), words(block)) {
		t.Errorf("product.go of the demo does not have these lines:\n%s", block)
	}
}

// markdown lists the documents: those at the top and those below docs.
func markdown(t *testing.T) []string {
	t.Helper()
	list, err := filepath.Glob(filepath.Join(root, "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	err = filepath.WalkDir(filepath.Join(root, "docs"), func(name string, _ fs.DirEntry, err error) error {
		if err == nil && filepath.Ext(name) == ".md" {
			list = append(list, name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

var (
	link = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	// pathLike matches a path of this repository in backquotes.
	pathLike  = regexp.MustCompile("`((?:\\.ci|cmd|delivery|docs|domain|eventlog|internal|migrations|packaging|projections|readapi)/[\\w./-]*)`")
	codeBlock = regexp.MustCompile("(?ms)^```.*?\n```")
)

func linksIn(text string) (targets []string) {
	text = codeBlock.ReplaceAllString(text, "")
	for _, m := range link.FindAllStringSubmatch(text, -1) {
		targets = append(targets, m[1])
	}
	for _, m := range pathLike.FindAllStringSubmatch(text, -1) {
		targets = append(targets, "/"+m[1])
	}
	return targets
}

// writtenByFull is a file that .ci/full writes: it need not be there yet.
const writtenByFull = "/.ci/full-passed"

// linkFault says what is wrong with a link of a document; empty: nothing. A target
// that begins with a slash is a path from the root.
func linkFault(document, target string) string {
	if strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") || target == writtenByFull {
		return ""
	}
	file, heading, _ := strings.Cut(target, "#")
	full := filepath.Join(filepath.Dir(document), file)
	switch {
	case strings.HasPrefix(file, "/"):
		full = filepath.Join(root, file)
	case file == "":
		full = document
	}
	if _, err := os.Stat(full); err != nil {
		return "leads to " + file + ", which does not exist"
	}
	if heading == "" {
		return ""
	}
	text, err := os.ReadFile(full)
	if err != nil {
		return err.Error()
	}
	if !slices.Contains(anchors(string(text)), heading) {
		return "leads to the heading #" + heading + " of " + full + ", which has none of that name"
	}
	return ""
}

var (
	headingLine = regexp.MustCompile(`(?m)^#+ +(.*)$`)
	notInAnchor = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// anchors are the names of a document's headings, as they stand in links.
func anchors(text string) (list []string) {
	for _, m := range headingLine.FindAllStringSubmatch(codeBlock.ReplaceAllString(text, ""), -1) {
		name := notInAnchor.ReplaceAllString(strings.ToLower(m[1]), "")
		list = append(list, strings.ReplaceAll(strings.TrimSpace(name), " ", "-"))
	}
	return list
}

func TestLinkFaults(t *testing.T) {
	t.Parallel()
	document := filepath.Join(root, "README.md")
	for target, want := range map[string]string{
		"docs/design.md":                "",
		"docs/contract/log.md#an-entry": "",
		"docs/nothing.md":               "does not exist",
		"docs/contract/log.md#no":       "none of that name",
		"https://example.com/x":         "",
		"/delivery":                     "",
		"/delivery/nothing.go":          "does not exist",
	} {
		if got := linkFault(document, target); (want == "") != (got == "") || !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", target, got, want)
		}
	}
}
