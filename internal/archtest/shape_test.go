package archtest

import (
	"cmp"
	"go/ast"
	"go/token"
	"go/types"
	"maps"
	"path"
	"slices"
	"strings"
	"testing"
)

// Limits of what one piece of code may hold, for code that is not a test.
const (
	maxFileLines     = 450
	maxFunctionLines = 90
	maxParameters    = 8
	maxMethods       = 25
	maxFields        = 20

	// maxAgainstOrder is the largest share, in percent, of the references between
	// the files of a package that may run against the order of its files.
	maxAgainstOrder = 6
	// fewReferences are too few for a share to mean anything.
	fewReferences = 40
)

// manyFields are the types that may have more than maxFields fields: what the
// contract gives a resource, and settings, which are lists by nature.
var manyFields = []string{
	"domain.Invoice", "domain.TimeEntry", "domain.Charge",
}

// TestShape holds files, functions and types to sizes that can be read, and the
// files of a package to an order in which they build on each other. Run it with
// -v for the table.
func TestShape(t *testing.T) {
	t.Parallel()
	byFolder := map[string][]*source{}
	for _, file := range tree(t) {
		if !file.test() {
			byFolder[file.folder()] = append(byFolder[file.folder()], file)
		}
	}
	for _, folder := range slices.Sorted(maps.Keys(byFolder)) {
		checkSizes(t, byFolder[folder])
		order := orderOf(byFolder[folder])
		t.Logf("%-28s %3d files, %4d references between them, %4.1f %% against the order", folder, len(byFolder[folder]), order.total, order.share())
		if order.total > fewReferences && order.share() > maxAgainstOrder {
			t.Errorf("%s: %.1f %% of the references between its files run against the best order of the files, at most %d %% may. The largest: %s",
				folder, order.share(), maxAgainstOrder, strings.Join(order.worst(6), ", "))
		}
	}
}

func checkSizes(t *testing.T, files []*source) {
	t.Helper()
	methods := map[string]int{}
	for _, file := range files {
		if n := file.set.File(file.syntax.Pos()).LineCount(); n > maxFileLines {
			t.Errorf("%s has %d lines, at most %d", file.path, n, maxFileLines)
		}
		ast.Inspect(file.syntax, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				checkFunction(t, file, n, methods)
			case *ast.TypeSpec:
				checkType(t, file, n)
			}
			return true
		})
	}
	for name, n := range methods {
		if n > maxMethods {
			t.Errorf("%s has %d methods, at most %d", name, n, maxMethods)
		}
	}
}

func checkFunction(t *testing.T, file *source, f *ast.FuncDecl, methods map[string]int) {
	t.Helper()
	at := file.set.Position(f.Pos())
	if n := file.set.Position(f.End()).Line - at.Line + 1; n > maxFunctionLines {
		t.Errorf("%s: %s has %d lines, at most %d", at, f.Name.Name, n, maxFunctionLines)
	}
	if n := f.Type.Params.NumFields(); n > maxParameters {
		t.Errorf("%s: %s has %d parameters, at most %d", at, f.Name.Name, n, maxParameters)
	}
	if f.Recv != nil {
		methods[file.pkg+"."+receiver(f.Recv.List[0].Type)]++
	}
}

func receiver(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return receiver(e.X)
	case *ast.IndexExpr:
		return receiver(e.X)
	case *ast.IndexListExpr:
		return receiver(e.X)
	case *ast.Ident:
		return e.Name
	}
	return "?"
}

func checkType(t *testing.T, file *source, spec *ast.TypeSpec) {
	t.Helper()
	s, ok := spec.Type.(*ast.StructType)
	name := file.pkg + "." + spec.Name.Name
	if !ok || slices.Contains(manyFields, name) || strings.HasSuffix(strings.ToLower(name), "settings") || strings.HasSuffix(name, "Config") {
		return
	}
	if n := s.Fields.NumFields(); n > maxFields {
		t.Errorf("%s: %s has %d fields, at most %d", file.set.Position(spec.Pos()), name, n, maxFields)
	}
}

// fileOrder is an order of a package's files in which as few references as
// possible run from an earlier file to a later one.
type fileOrder struct {
	names   []string
	uses    [][]int // uses[i][j]: references of file i to what file j defines
	order   []int
	total   int
	against int
}

func (o *fileOrder) share() float64 {
	if o.total == 0 {
		return 0
	}
	return 100 * float64(o.against) / float64(o.total)
}

// worst names the pairs of files with the most references against the order.
func (o *fileOrder) worst(most int) []string {
	type pair struct{ from, to, n int }
	var list []pair
	for at, i := range o.order {
		for _, j := range o.order[at+1:] {
			if o.uses[i][j] > 0 {
				list = append(list, pair{i, j, o.uses[i][j]})
			}
		}
	}
	slices.SortFunc(list, func(a, b pair) int { return cmp.Compare(b.n, a.n) })
	var names []string
	for _, p := range list[:min(most, len(list))] {
		names = append(names, o.names[p.from]+" → "+o.names[p.to])
	}
	return names
}

// orderOf type-checks a package on its own; what it imports is left unknown,
// because references to other packages do not matter here.
func orderOf(files []*source) *fileOrder {
	set := token.NewFileSet()
	o := &fileOrder{uses: make([][]int, len(files))}
	fileAt := map[string]int{}
	var parsed []*ast.File
	for i, file := range files {
		o.names = append(o.names, path.Base(file.path))
		o.order = append(o.order, i)
		o.uses[i] = make([]int, len(files))
		again := parseFile(set, file)
		fileAt[set.Position(again.Pos()).Filename] = i
		parsed = append(parsed, again)
	}
	info := &types.Info{Uses: map[*ast.Ident]types.Object{}, Selections: map[*ast.SelectorExpr]*types.Selection{}}
	config := types.Config{Importer: noImports{}, Error: func(error) {}, DisableUnusedImportCheck: true}
	checked, _ := config.Check(files[0].folder(), set, parsed, info) // errors are expected: imports are unknown
	for id, object := range info.Uses {
		if object.Pkg() != checked || !object.Pos().IsValid() || !isShared(object, checked) {
			continue
		}
		from, to := fileAt[set.Position(id.Pos()).Filename], fileAt[set.Position(object.Pos()).Filename]
		if from != to {
			o.uses[from][to]++
			o.total++
		}
	}
	o.improve()
	return o
}

// isShared tells whether an object can be used from another file: it belongs to
// the package, or is a method or field.
func isShared(object types.Object, pkg *types.Package) bool {
	if object.Parent() == pkg.Scope() {
		return true
	}
	switch object := object.(type) {
	case *types.Func:
		return true
	case *types.Var:
		return object.IsField()
	}
	return false
}

// improve moves single files, and then pairs that stand together, as long as
// that lowers the number of references against the order. Later files may use
// earlier ones.
func (o *fileOrder) improve() {
	o.against = o.cost(o.order)
	for improved := true; improved; {
		improved = false
		for from := range o.order {
			for to := range o.order {
				if moved := move(o.order, from, to); o.cost(moved) < o.against {
					o.order, o.against, improved = moved, o.cost(moved), true
				}
			}
		}
	}
}

func (o *fileOrder) cost(order []int) (n int) {
	for at, i := range order {
		for _, j := range order[at+1:] {
			n += o.uses[i][j]
		}
	}
	return n
}

func move(order []int, from, to int) []int {
	moved := slices.Delete(slices.Clone(order), from, from+1)
	return slices.Insert(moved, to, order[from])
}

// noImports gives an empty package for every import.
type noImports struct{}

func (noImports) Import(name string) (*types.Package, error) {
	p := types.NewPackage(name, path.Base(name))
	p.MarkComplete()
	return p, nil
}
