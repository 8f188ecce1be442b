package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// module is the module's path, before a package's folder.
const module = "github.com/ledgerfeed/ledgerfeed/"

// source is a Go file as the rules look at it.
type source struct {
	name    string // as the system has it
	path    string // from the module's root, with slashes
	pkg     string
	imports []string
	syntax  *ast.File
	set     *token.FileSet
}

// test reports whether the file is compiled for tests alone.
func (s *source) test() bool { return strings.HasSuffix(s.path, "_test.go") }

// folder is the file's package, as a path from the module's root.
func (s *source) folder() string { return path.Dir(s.path) }

// tree parses every Go file of the module, whatever system it is built for:
// an import that only one of them compiles counts too.
func tree(t *testing.T) []*source {
	t.Helper()
	root := filepath.Join("..", "..")
	var files []*source
	err := filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			return enter(root, name, entry.Name())
		}
		if filepath.Ext(name) != ".go" {
			return nil
		}
		file, err := parse(root, name)
		if err == nil {
			files = append(files, file)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(files) < 50 {
		t.Fatalf("only %d files found: this is not the module's root", len(files))
	}
	return files
}

// enter skips folders that the go command does not build from, and modules of
// their own.
func enter(root, name, base string) error {
	if name == root {
		return nil
	}
	if base == "testdata" || base == "node_modules" || strings.HasPrefix(base, ".") || strings.HasPrefix(base, "_") {
		return fs.SkipDir
	}
	if _, err := os.Stat(filepath.Join(name, "go.mod")); err == nil {
		return fs.SkipDir
	}
	return nil
}

func parse(root, name string) (*source, error) {
	set := token.NewFileSet()
	syntax, err := parser.ParseFile(set, name, nil, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	relative, err := filepath.Rel(root, name)
	if err != nil {
		return nil, err
	}
	s := &source{name: name, path: filepath.ToSlash(relative), pkg: syntax.Name.Name, syntax: syntax, set: set}
	for _, spec := range syntax.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return nil, err
		}
		s.imports = append(s.imports, imported)
	}
	return s, nil
}

// parseFile parses a file again, into a set of its own.
func parseFile(set *token.FileSet, file *source) *ast.File {
	syntax, err := parser.ParseFile(set, file.name, nil, parser.SkipObjectResolution)
	if err != nil {
		return file.syntax // not reached: it was parsed before
	}
	return syntax
}
