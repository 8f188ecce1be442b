package archtest

import (
	"go/ast"
	"testing"
)

// maxFunctionLines is the longest that a function may be, tests aside.
const maxFunctionLines = 100

// TestFunctionsAreShort: a function that is longer does several things.
func TestFunctionsAreShort(t *testing.T) {
	t.Parallel()
	for _, file := range tree(t) {
		if file.test() {
			continue
		}
		for _, declaration := range file.syntax.Decls {
			f, ok := declaration.(*ast.FuncDecl)
			if !ok {
				continue
			}
			at := file.set.Position(f.Pos())
			if n := file.set.Position(f.End()).Line - at.Line + 1; n > maxFunctionLines {
				t.Errorf("%s: %s has %d lines. Split it: at most %d are allowed", at, f.Name.Name, n, maxFunctionLines)
			}
		}
	}
}
