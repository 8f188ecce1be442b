package archtest

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// rooms says who may import whom ("Rooms" in docs/design.md). A room may
// always import itself and, but for domain and docs, other people's modules.
//
//nolint:gochecknoglobals // a definition, never changed
var rooms = map[string][]string{
	"domain":         {},
	"eventlog":       {"domain", "internal"},
	"projections":    {"domain", "eventlog", "internal"},
	"access":         {"domain", "internal"},
	"readapi":        {"domain", "access", "eventlog", "internal"},
	"delivery":       {"domain", "eventlog", "internal"},
	"console":        {"domain", "access", "delivery", "eventlog", "internal"},
	"migrations":     {"internal"},
	"cmd/ledgerfeed": {"domain", "eventlog", "projections", "access", "readapi", "delivery", "console", "migrations", "internal"},
	"internal":       {"domain"},
	"docs":           {}, // examples for others, who have none of the rooms
}

// inTests is what a test may import besides: the schema, for a database of
// its own, and what makes one.
//
//nolint:gochecknoglobals // a definition, never changed
var inTests = []string{"internal", "migrations"}

// roomOf gives the room that a folder of the module lies in.
func roomOf(folder string) (string, bool) {
	for room := range rooms {
		if folder == room || strings.HasPrefix(folder, room+"/") {
			return room, true
		}
	}
	return "", false
}

// edgeFault says what is wrong with a file of a folder importing a package, if
// anything is.
func edgeFault(folder string, test bool, imported string) string {
	from, ok := roomOf(folder)
	if !ok {
		return fmt.Sprintf("%s is in none of the rooms of docs/design.md", folder)
	}
	target, ours := strings.CutPrefix(imported, module)
	if !ours {
		if (from == "domain" || from == "docs") && !test && strings.Contains(strings.Split(imported, "/")[0], ".") {
			return from + " may import the standard library alone, not " + imported
		}
		return ""
	}
	to, ok := roomOf(target)
	switch {
	case !ok:
		return fmt.Sprintf("%s imports %s, which is in none of the rooms of docs/design.md", from, imported)
	case to == from, slices.Contains(rooms[from], to), test && slices.Contains(inTests, to):
		return ""
	case test:
		return fmt.Sprintf("tests of %s may not import %s; they may import %s", from, to, list(append(slices.Clone(rooms[from]), inTests...)))
	}
	return fmt.Sprintf("%s may not import %s; it may import %s", from, to, list(rooms[from]))
}

func list(names []string) string {
	if len(names) == 0 {
		return "none of the other rooms"
	}
	names = slices.Clone(names)
	slices.Sort(names)
	return strings.Join(slices.Compact(names), ", ")
}

func TestRoomsImportOnlyWhomTheyMay(t *testing.T) {
	t.Parallel()
	for _, file := range tree(t) {
		for _, imported := range file.imports {
			if fault := edgeFault(file.folder(), file.test(), imported); fault != "" {
				t.Errorf("%s: %s", file.path, fault)
			}
		}
	}
}

// TestEdgeFaults tries the rule on edges that must fail, and on neighbours of
// theirs that must not.
func TestEdgeFaults(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		folder, imported string
		test             bool
		want             string
	}{
		{"readapi", module + "projections", false, "readapi may not import projections; it may import access, domain, eventlog, internal"},
		{"readapi", module + "projections", true, "tests of readapi may not import projections"},
		{"readapi", module + "access", false, ""},
		{"delivery", module + "access", false, "delivery may not import access"},
		{"console", module + "delivery/mail", false, ""},
		{"access", module + "migrations", false, "access may not import migrations"},
		{"access", module + "migrations", true, ""},
		{"migrations", module + "eventlog", false, "migrations may not import eventlog"},
		{"internal/pg", module + "eventlog", false, "internal may not import eventlog"},
		{"internal/pg", module + "internal/localpg", false, ""},
		{"domain", module + "internal/pg", false, "domain may not import internal"},
		{"domain", "github.com/google/uuid", false, "domain may import the standard library alone"},
		{"domain", "pgregory.net/rapid", true, ""},
		{"docs/receivers/go", "net/http", false, ""},
		{"docs/receivers/go", "github.com/google/uuid", false, "docs may import the standard library alone"},
		{"docs/receivers/go", module + "delivery", false, "docs may not import delivery"},
		{"domain", "crypto/sha256", false, ""},
		{"cmd/ledgerfeed/bench", module + "console", false, ""},
		{"cmd/other", "fmt", false, "cmd/other is in none of the rooms"},
		{"domain/sub", "fmt", false, ""},
		{"domainlike", "fmt", false, "domainlike is in none of the rooms"},
		{".", "fmt", false, ". is in none of the rooms"},
		{"eventlog", module + "billing", false, "which is in none of the rooms"},
	} {
		got := edgeFault(c.folder, c.test, c.imported)
		if (c.want == "") != (got == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s (test: %v) imports %s: %q, want %q", c.folder, c.test, c.imported, got, c.want)
		}
	}
}
