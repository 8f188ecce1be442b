package archtest

import (
	"go/ast"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestNoPackageWithoutASubject: a package is named after what it is about.
func TestNoPackageWithoutASubject(t *testing.T) {
	t.Parallel()
	for _, file := range tree(t) {
		for _, name := range append(strings.Split(file.folder(), "/"), strings.TrimSuffix(file.pkg, "_test")) {
			if saysNothing(name) {
				t.Errorf("%s: %q says nothing about what is in it", file.path, name)
			}
		}
	}
}

func saysNothing(name string) bool {
	return slices.Contains([]string{"util", "utils", "common", "models", "model", "helper", "helpers", "misc", "shared", "types", "base"}, name)
}

// impure are the packages of the standard library through which time, chance,
// the network or the disk would influence the rules.
var impure = []string{
	"context", "crypto/rand", "database/sql", "embed", "io", "io/fs", "io/ioutil", "log", "log/slog", "math/rand", "math/rand/v2", "net",
	"net/http", "os", "os/exec", "os/signal", "plugin", "runtime", "sync", "sync/atomic", "syscall", "testing", "unsafe",
}

// impureTime are the parts of package time that look at a clock.
var impureTime = []string{"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTimer", "NewTicker", "Local", "LoadLocation"}

// rules are the packages that decide without looking at anything but what they are
// given: the fold, which a replay repeats, and the dispatcher's decisions, which
// tests run in virtual time.
var rules = []string{"domain", "domain/jsonform", "delivery/policy", "delivery/dispatch/scheduler"}

// TestRulesArePure: no input or output, no clock, no randomness, no goroutines.
func TestRulesArePure(t *testing.T) {
	t.Parallel()
	for _, file := range tree(t) {
		if !slices.Contains(rules, file.folder()) || file.test() {
			continue
		}
		for _, imported := range file.imports {
			if slices.Contains(impure, imported) {
				t.Errorf("%s imports %s", file.path, imported)
			}
		}
		ast.Inspect(file.syntax, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.SelectorExpr:
				if from, ok := n.X.(*ast.Ident); ok && from.Name == "time" && slices.Contains(impureTime, n.Sel.Name) {
					t.Errorf("%s uses time.%s", file.set.Position(n.Pos()), n.Sel.Name)
				}
			case *ast.GoStmt:
				t.Errorf("%s starts a goroutine", file.set.Position(n.Pos()))
			}
			return true
		})
	}
}

// TestNothingIsLeftForLater: what is not done is not in the tree.
func TestNothingIsLeftForLater(t *testing.T) {
	t.Parallel()
	later := regexp.MustCompile(`\b(TODO|FIXME|XXX|HACK)\b`)
	for _, file := range tree(t) {
		if path.Dir(file.path) == "internal/archtest" {
			continue // names the words
		}
		for _, group := range file.syntax.Comments {
			if word := later.FindString(group.Text()); word != "" {
				t.Errorf("%s: a comment says %s", file.set.Position(group.Pos()), word)
			}
		}
	}
}

// TestEveryPackageSaysWhatItIs: one file of each package has its docstring.
func TestEveryPackageSaysWhatItIs(t *testing.T) {
	t.Parallel()
	said := map[string]bool{}
	for _, file := range tree(t) {
		if !file.test() {
			said[file.folder()] = said[file.folder()] || file.syntax.Doc.Text() != ""
		}
	}
	for folder, has := range said {
		if !has {
			t.Errorf("the package in %s has no docstring", folder)
		}
	}
}
