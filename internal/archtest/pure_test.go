package archtest

import (
	"go/ast"
	"slices"
	"testing"
)

// impure are the packages of the standard library through which time, chance, the network or
// the disk would influence the rules.
var impure = []string{
	"context", "crypto/rand", "database/sql", "embed", "io", "io/fs", "io/ioutil", "log", "log/slog", "math/rand", "math/rand/v2", "net",
	"net/http", "os", "os/exec", "os/signal", "plugin", "runtime", "sync", "sync/atomic", "syscall", "testing", "unsafe",
}

// impureTime are the parts of package time that look at a clock.
var impureTime = []string{"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTimer", "NewTicker", "Local", "LoadLocation"}

// rules are the packages that decide from their arguments alone: the fold, which a replay
// repeats, and the dispatcher's decisions, which tests run in virtual time.
var rules = []string{"domain", "domain/jsonform", "delivery/policy", "delivery/dispatch/scheduler"}

// TestRulesArePure: no input or output, no clock, no randomness, no goroutines.
func TestRulesArePure(t *testing.T) {
	t.Parallel()
	found := map[string]bool{}
	for _, file := range tree(t) {
		if !slices.Contains(rules, file.folder()) || file.test() {
			continue
		}
		found[file.folder()] = true
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
	for _, folder := range rules {
		if !found[folder] {
			t.Errorf("no files found in %s: if it has moved, name its new folder in rules", folder)
		}
	}
}
