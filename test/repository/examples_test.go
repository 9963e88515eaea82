package repository

import (
	"go/ast"
	"go/doc"
	"go/doc/comment"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// withoutExample are the methods that fmt, errors and encoding/json call, and so have no example: by the ends of their
// names for examples. All other functions and methods have one that is run.
var withoutExample = []string{
	"_Format", "_String", "_Error", "_Is", "_Unwrap", "_MarshalText", "_MarshalJSON",
	"PoolFunc_GetContext", // The library calls it; see ExamplePoolFunc.
}

func TestEverythingHasAnExample(t *testing.T) {
	for _, folder := range folders {
		t.Run(folder, func(t *testing.T) {
			for name, examples := range callables(packageIn(t, folder)) {
				isRun := slices.ContainsFunc(examples, func(e *doc.Example) bool { return e.Output != "" || e.EmptyOutput })
				excused := slices.ContainsFunc(withoutExample, func(end string) bool { return strings.HasSuffix(name, end) })
				if !isRun && !excused {
					t.Errorf("%s has no example, or one without output, which is not run", name)
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
