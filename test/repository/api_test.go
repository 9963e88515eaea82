package repository

import (
	"cmp"
	"flag"
	"fmt"
	"go/ast"
	"go/doc"
	"go/doc/comment"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/test/testkit"
)

// What the library exports is compared with a listing that is part of the repository: api.txt in the folder of each
// package. So every change of the API is seen in review, and none is made by accident. "make api" writes the listings
// anew.

var update = flag.Bool("update", false, "write the listings")

const header = "# What package %s exports. A test compares it with the code; \"make api\" writes it.\n"

// folders are those of the packages that users import.
var folders = []string{
	"redlock", "redlock/dial", "redlock/election", "redlock/redlockcheck", "redlock/redlockhttp", "redlock/redlocktest",
	"redlock/semaphore", "redlock/shared", "redlock/stored", "redlock/ticks",
}

func TestAPI(t *testing.T) {
	load := testkit.Importer(t, root, "./redlock/...")
	for _, folder := range folders {
		t.Run(folder, func(t *testing.T) {
			pkg, err := load.Import(module + "/" + folder)
			require.NoError(t, err)
			lines := list(pkg)
			for _, l := range lines {
				assert.NotContains(t, l, module+"/internal/", "users cannot import what this names")
			}
			file := folder + "/api.txt"
			path := filepath.Join(root, filepath.FromSlash(file))
			text := fmt.Sprintf(header, pkg.Name()) + strings.Join(lines, "\n") + "\n"
			if *update {
				require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
				return
			}
			listed, err := os.ReadFile(path)
			require.NoError(t, err)
			assert.Equal(t, strings.ReplaceAll(string(listed), "\r\n", "\n"), text,
				"If that is meant, run \"make api\", commit %s, and say in CHANGELOG.md what has changed.", file)
		})
	}
}

// A lister lists what a package exports, a line for each thing, so that a line says all that a
// user of the thing depends on, and can be understood alone in a diff.
type lister struct {
	pkg   *types.Package
	lines []string
}

// list returns the exported API of pkg: constants with their values, variables, functions,
// and each type with its fields, in their order, and its methods.
func list(pkg *types.Package) []string {
	l := &lister{pkg: pkg}
	objects := make([]types.Object, 0, pkg.Scope().Len())
	for _, name := range pkg.Scope().Names() { // They are sorted.
		if o := pkg.Scope().Lookup(name); o.Exported() {
			objects = append(objects, o)
		}
	}
	slices.SortStableFunc(objects, func(a, b types.Object) int { return cmp.Compare(rank(a), rank(b)) })
	for _, o := range objects {
		l.object(o)
	}
	return l.lines
}

func rank(o types.Object) int {
	switch o.(type) {
	case *types.Const:
		return 0
	case *types.Var:
		return 1
	case *types.Func:
		return 2
	default:
		return 3
	}
}

func (l *lister) add(format string, args ...any) {
	l.lines = append(l.lines, fmt.Sprintf(format, args...))
}

func (l *lister) object(o types.Object) {
	switch o := o.(type) {
	case *types.Const:
		l.add("const %s %s = %s", o.Name(), l.text(o.Type()), o.Val().ExactString())
	case *types.TypeName:
		l.typeName(o)
	default:
		l.add("%s", types.ObjectString(o, l.qualify))
	}
}

func (l *lister) typeName(o *types.TypeName) {
	named, ok := o.Type().(*types.Named)
	if o.IsAlias() || !ok {
		l.add("type %s = %s", o.Name(), l.text(types.Unalias(o.Type())))
		return
	}
	name := o.Name()
	switch u := named.Underlying().(type) {
	case *types.Struct:
		l.add("type %s struct%s", name, unexported(!allFields(u)))
		l.fields(name, u)
	case *types.Interface:
		l.interfaceType(name, u)
		return // Its methods are its elements.
	default:
		l.add("type %s %s", name, l.opaque(u))
	}
	l.methods(named)
}

// fields lists the fields that users can name, also those of embedded structs that they
// cannot name.
func (l *lister) fields(of string, s *types.Struct) {
	for i := range s.NumFields() {
		f, tag, embedded := s.Field(i), s.Tag(i), ""
		if !f.Exported() {
			if inner, ok := f.Type().Underlying().(*types.Struct); ok && f.Embedded() {
				l.fields(of, inner)
			}
			continue
		}
		if f.Embedded() {
			embedded = " (embedded)"
		}
		if tag != "" {
			tag = " " + strconv.Quote(tag)
		}
		l.add("field %s.%s %s%s%s", of, f.Name(), l.text(f.Type()), tag, embedded)
	}
}

func (l *lister) interfaceType(name string, u *types.Interface) {
	sealed := slices.ContainsFunc(slices.Collect(u.Methods()), func(m *types.Func) bool { return !m.Exported() })
	l.add("type %s interface%s", name, unexported(sealed))
	for m := range u.Methods() {
		if m.Exported() {
			l.add("method %s.%s%s", name, m.Name(), l.signature(m))
		}
	}
}

// methods lists the methods that can be called on a variable of the type, those of embedded
// fields included.
func (l *lister) methods(named *types.Named) {
	onValue := types.NewMethodSet(named)
	all := types.NewMethodSet(types.NewPointer(named))
	for s := range all.Methods() {
		m := s.Obj()
		if !m.Exported() {
			continue
		}
		receiver := "*" + named.Obj().Name()
		if onValue.Lookup(m.Pkg(), m.Name()) != nil {
			receiver = named.Obj().Name()
		}
		l.add("method (%s) %s%s", receiver, m.Name(), l.signature(m.(*types.Func)))
	}
}

func (l *lister) signature(f *types.Func) string {
	return strings.TrimPrefix(l.text(f.Signature()), "func")
}

// opaque is a type's text, without names that users cannot write.
func (l *lister) opaque(t types.Type) string {
	if f, ok := t.(*types.Signature); ok {
		for v := range f.Params().Variables() {
			if hidden(v.Type()) {
				return "func" + unexported(true)
			}
		}
	}
	return l.text(t)
}

// hidden reports whether t is, or points to, a type that is not exported.
func hidden(t types.Type) bool {
	if p, ok := t.(*types.Pointer); ok {
		t = p.Elem()
	}
	named, ok := t.(*types.Named)
	return ok && named.Obj().Pkg() != nil && !named.Obj().Exported()
}

func (l *lister) text(t types.Type) string { return types.TypeString(t, l.qualify) }

// qualify names a package as users do, and one that they cannot import by its path.
func (l *lister) qualify(p *types.Package) string {
	switch {
	case p == l.pkg:
		return ""
	case isInternal(p.Path()):
		return p.Path()
	default:
		return p.Name()
	}
}

func isInternal(path string) bool { return slices.Contains(strings.Split(path, "/"), "internal") }

func unexported(has bool) string {
	if has {
		return " (with unexported parts)"
	}
	return ""
}

func allFields(s *types.Struct) bool {
	for f := range s.Fields() {
		if !f.Exported() {
			return false
		}
	}
	return true
}

// withoutExample are the methods that fmt, errors and encoding/json call, and so have no example: by the ends of their
// names for examples. All other functions and methods are in one that is run: their own, or another of their package.
var withoutExample = []string{
	"_Format", "_String", "_Error", "_Is", "_Unwrap", "_MarshalText", "_MarshalJSON",
	"PoolFunc_GetContext", // The library calls it; see ExamplePoolFunc.
}

func TestEverythingHasAnExample(t *testing.T) {
	for _, folder := range folders {
		t.Run(folder, func(t *testing.T) {
			code := ""
			files, err := filepath.Glob(filepath.Join(root, folder, "example*_test.go"))
			require.NoError(t, err)
			for _, file := range files {
				text, err := os.ReadFile(file)
				require.NoError(t, err)
				code += string(text)
			}
			for name, examples := range callables(packageIn(t, folder)) {
				isRun := slices.ContainsFunc(examples, func(e *doc.Example) bool { return e.Output != "" || e.EmptyOutput })
				excused := slices.ContainsFunc(withoutExample, func(end string) bool { return strings.HasSuffix(name, end) })
				isCalled := strings.Contains(code, "."+name[strings.Index(name, "_")+1:]+"(")
				if !isRun && !isCalled && !excused {
					t.Errorf("%s is in no example, or only in one without output, which is not run", name)
				}
			}
		})
	}
}

// callables are the functions and methods that users call, by their names for examples, with those.
func callables(pkg *doc.Package) map[string][]*doc.Example {
	all := map[string][]*doc.Example{}
	add := func(of string, funcs []*doc.Func) {
		for _, f := range funcs {
			all[of+f.Name] = f.Examples
		}
	}
	add("", pkg.Funcs)
	for _, typ := range pkg.Types {
		add("", typ.Funcs)
		add(typ.Name+"_", typ.Methods)
	}
	return all
}

func packageIn(t *testing.T, folder string) *doc.Package {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(root, folder, "*.go"))
	require.NoError(t, err)
	fset := token.NewFileSet()
	files := make([]*ast.File, len(paths))
	for i, path := range paths {
		files[i], err = parser.ParseFile(fset, path, nil, parser.ParseComments)
		require.NoError(t, err)
	}
	pkg, err := doc.NewFromFiles(fset, files, module+"/"+folder)
	require.NoError(t, err)
	return pkg
}

// What the documentation of a package shows as code is in its example_test.go, and so is run. In place of addresses, an
// example has nodes in memory. Its "go get" is run by
// TestATestBuildsAfterGoGetOfRedlocktest.
func TestTheCodeInPackageDocumentationIsRun(t *testing.T) {
	for _, folder := range folders {
		text, err := os.ReadFile(filepath.Join(root, folder, "example_test.go"))
		require.NoError(t, err)
		for _, block := range new(comment.Parser).Parse(packageIn(t, folder).Doc).Content {
			code, ok := block.(*comment.Code)
			if !ok {
				continue
			}
			for _, paragraph := range strings.Split(code.Text, "\n\n") {
				if !strings.HasPrefix(paragraph, "nodes :=") && !strings.HasPrefix(paragraph, "go get ") {
					assert.Contains(t, trimmed(string(text)), trimmed(paragraph), "%s/example_test.go does not have this code of doc.go", folder)
				}
			}
		}
	}
}

// trimmed is a text without what lines begin and end with.
func trimmed(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString(strings.TrimSpace(line) + "\n")
	}
	return b.String()
}
