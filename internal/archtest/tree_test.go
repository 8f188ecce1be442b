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
	"sync"
	"testing"
)

// root is the module's root, seen from the folder in which the tests run.
var root = filepath.Join("..", "..")

// source is a Go file as the rules look at it.
type source struct {
	path    string // from the module's root, with slashes
	imports []string
	syntax  *ast.File
	set     *token.FileSet
}

// test reports whether the file is compiled for tests alone.
func (s *source) test() bool { return strings.HasSuffix(s.path, "_test.go") }

// folder is the file's package, as a path from the module's root.
func (s *source) folder() string { return path.Dir(s.path) }

// tree returns every Go file of the module, whatever system it is built for. The tests share
// the files, so none may change them.
func tree(t *testing.T) []*source {
	t.Helper()
	files, err := parsedTree()
	if err != nil {
		t.Fatal(err)
	}
	if len(files) == 0 {
		t.Fatal("no Go files found: this is not the module's root")
	}
	return files
}

var parsedTree = sync.OnceValues(func() (files []*source, err error) {
	err = filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			return enter(name, entry.Name())
		}
		if filepath.Ext(name) != ".go" {
			return nil
		}
		file, err := parse(name)
		if err == nil {
			files = append(files, file)
		}
		return err
	})
	return files, err
})

// enter skips folders that the go command does not build from, and modules of their own.
func enter(name, base string) error {
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

func parse(name string) (*source, error) {
	set := token.NewFileSet()
	syntax, err := parser.ParseFile(set, name, nil, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	relative, err := filepath.Rel(root, name)
	if err != nil {
		return nil, err
	}
	s := &source{path: filepath.ToSlash(relative), syntax: syntax, set: set}
	for _, spec := range syntax.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return nil, err
		}
		s.imports = append(s.imports, imported)
	}
	return s, nil
}
