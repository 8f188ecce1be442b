package web

import (
	"fmt"
	"io/fs"
	"regexp"
	"strings"
	"testing"
)

// TestDataAttributesAreRead: the script or the style sheet reads each data- attribute of the pages. One
// that neither reads is misspelt: "Since (UTC)" once stayed above a time in the reader's own zone.
func TestDataAttributesAreRead(t *testing.T) {
	t.Parallel()
	var readers string
	for _, name := range []string{"assets/console.js", "assets/console.css"} {
		text, err := assetFiles.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		readers += string(text)
	}
	camel := regexp.MustCompile(`-[a-z]`)
	files, err := fs.Glob(pageFiles, "pages/*.html")
	if err != nil {
		t.Fatal(err)
	}
	attributes := regexp.MustCompile(`[\s"}]data-([a-z-]+)`)
	found := 0
	for _, file := range files {
		page, err := pageFiles.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range attributes.FindAllStringSubmatch(string(page), -1) {
			found++
			member := camel.ReplaceAllStringFunc(m[1], func(s string) string { return strings.ToUpper(s[1:]) })
			read := regexp.MustCompile(fmt.Sprintf(`\[data-%s[\]=]|attr\(data-%[1]s\)|dataset\.%s\b`, m[1], member))
			if !read.MatchString(readers) {
				t.Errorf("%s has data-%s, which neither console.js nor console.css reads", file, m[1])
			}
		}
	}
	if found < 20 {
		t.Errorf("only %d attributes were found", found)
	}
}
