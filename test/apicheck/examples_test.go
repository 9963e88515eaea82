package apicheck

import (
	"go/ast"
	"go/doc"
	"go/doc/comment"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// withoutExample says which functions and methods have no example, by their names for examples,
// and why. All others have one that is run.
var withoutExample = map[string]map[string]string{
	"redlock": {
		"Lock_Format":           "fmt calls it",
		"Node_Format":           "fmt calls it",
		"Node_MarshalText":      "encoding/json calls it",
		"NodeStats_MarshalJSON": "encoding/json calls it",
		"PoolFunc_GetContext":   "the library calls it; see ExamplePoolFunc",
		"QuorumError_Error":     "fmt calls it",
		"QuorumError_Is":        "errors.Is calls it",
		"QuorumError_Unwrap":    "errors.Is calls it",
		"Redlock_Format":        "fmt calls it",
		"SetDifference_String":  "fmt calls it",
		"Vote_String":           "fmt calls it",
	},
	"redlock/election": {
		"Election_Format": "fmt calls it",
		"Term_Format":     "fmt calls it",
	},
	"redlock/semaphore": {
		"Semaphore_Format": "fmt calls it",
	},
	"redlock/shared": {
		"Mutex_Format":  "fmt calls it",
		"Reader_Format": "fmt calls it",
	},
	"redlock/stored": {
		"Marker_String": "fmt calls it",
	},
	"redlock/redlockcheck": {
		"Finding_String":    "fmt calls it",
		"NodeReport_String": "fmt calls it",
		"Report_String":     "fmt calls it",
		"Verdict_String":    "fmt calls it",
	},
}

func TestEverythingHasAnExample(t *testing.T) {
	for _, folder := range folders {
		t.Run(folder, func(t *testing.T) {
			var without []string
			for name, examples := range callables(packageIn(t, folder)) {
				if !slices.ContainsFunc(examples, func(e *doc.Example) bool { return e.Output != "" || e.EmptyOutput }) {
					without = append(without, name)
				}
			}
			assert.ElementsMatch(t, slices.Collect(maps.Keys(withoutExample[folder])), without, "one without output is not run")
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

// What the documentation of a package shows as code is in its example_test.go, and so is run. In
// place of addresses, an example has nodes in memory. Its "go get" is run by test/publish.
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
