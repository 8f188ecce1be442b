package archtest

import (
	"bufio"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestCitationsOfTheContract: a comment that cites a contract names its file in
// docs/contract and a section that exists there.
func TestCitationsOfTheContract(t *testing.T) {
	t.Parallel()
	sections := map[string][]string{}
	for _, name := range []string{"service", "decisions", "log"} {
		sections[name] = readSections(t, filepath.Join(root, "docs", "contract", name+".md"))
	}
	var found int
	for _, file := range tree(t) {
		if file.folder() == "internal/archtest" {
			continue
		}
		for _, group := range file.syntax.Comments {
			text := strings.Join(strings.Fields(group.Text()), " ")
			for _, c := range citations(text) {
				found++
				if fault := c.fault(sections); fault != "" {
					t.Errorf("%s: %s", file.set.Position(group.Pos()), fault)
				}
			}
		}
	}
	if found == 0 {
		t.Error("no citations found: the test does not see them")
	}
}

// citation is one mention of a contract.
type citation struct{ folder, name, section string }

// mention matches a contract's file name, with the section that follows.
var mention = regexp.MustCompile(`([\w./-]*/)?\b(service|decisions|log)\.md(?:, "([^"]+)")?`)

func citations(text string) (list []citation) {
	for _, m := range mention.FindAllStringSubmatch(text, -1) {
		list = append(list, citation{folder: m[1], name: m[2], section: m[3]})
	}
	return list
}

// fault says what is wrong with a citation; empty: nothing.
func (c citation) fault(sections map[string][]string) string {
	switch {
	case c.folder != "docs/contract/":
		return c.name + ".md is cited without its folder, docs/contract/"
	case c.section == "":
		return c.name + `.md is cited without a section: want docs/contract/` + c.name + `.md, "Section"`
	}
	for _, s := range sections[c.name] {
		if s == c.section || strings.HasPrefix(s, c.section) && strings.ContainsAny(s[len(c.section):][:1], ` ,.:"`) {
			return ""
		}
	}
	return c.name + `.md has no section "` + c.section + `"`
}

// leads matches what a section may begin with: a heading, an item of a list, a
// row of a table.
var leads = regexp.MustCompile(`^(?:#+ |[-*] |\d+\. |\| )?(?:\*\*|"|` + "`" + `)?`)

// readSections gives the lines of a contract without their marks: a section may
// be cited by a heading, or by the words that an item or a paragraph begins with.
func readSections(t *testing.T, name string) (list []string) {
	t.Helper()
	file, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		line := strings.TrimSpace(lines.Text())
		if text := line[len(leads.FindString(line)):]; text != "" {
			list = append(list, text)
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return list
}

func TestCitationFaults(t *testing.T) {
	t.Parallel()
	sections := map[string][]string{"log": {"An entry", `Forms used below: *id*`}, "service": {"Limits"}, "decisions": nil}
	for text, want := range map[string]string{
		`see docs/contract/log.md, "An entry"`:       "",
		`(docs/contract/log.md, "Forms used below")`: "",
		`docs/contract/log.md, "Form"`:               `no section "Form"`,
		`docs/contract/service.md, "An entry"`:       `no section "An entry"`,
		`docs/contract/log.md says`:                  "without a section",
		`log.md, "An entry"`:                         "without its folder",
		`spec/log.md, "An entry"`:                    "without its folder",
	} {
		list := citations(text)
		if len(list) != 1 {
			t.Errorf("%s: %d citations", text, len(list))
			continue
		}
		if got := list[0].fault(sections); (want == "") != (got == "") || !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}
