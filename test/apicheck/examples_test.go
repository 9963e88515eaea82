package apicheck

import (
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"go/types"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode"

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
		"Vote_String":           "fmt calls it",
	},
	"redlock/semaphore": {
		"Semaphore_Format": "fmt calls it",
	},
	"redlock/redlockcheck": {
		"Finding_String":    "fmt calls it",
		"NodeReport_String": "fmt calls it",
		"Report_String":     "fmt calls it",
		"Verdict_String":    "fmt calls it",
	},
}

func TestEverythingHasAnExample(t *testing.T) {
	load := loader(t)
	for _, folder := range folders {
		t.Run(folder, func(t *testing.T) {
			pkg, err := load.Import(module + "/" + folder)
			require.NoError(t, err)
			reasons := withoutExample[folder]
			wanted, shown := callables(pkg), examples(t, folder)
			for _, name := range wanted {
				switch _, excused := reasons[name]; {
				case shown[name] && excused:
					t.Errorf("Example%s is there: strike it from the list", name)
				case !shown[name] && !excused:
					t.Errorf("Example%s is missing, or has no output and is not run", name)
				}
			}
			for name := range reasons {
				assert.Contains(t, wanted, name, "the list of those without an example")
			}
		})
	}
}

// callables are the functions and methods that users call, by their names for examples.
func callables(pkg *types.Package) []string {
	var names []string
	for _, name := range pkg.Scope().Names() {
		switch o := pkg.Scope().Lookup(name).(type) {
		case *types.Func:
			if o.Exported() {
				names = append(names, name)
			}
		case *types.TypeName:
			named, ok := o.Type().(*types.Named)
			if !ok || !o.Exported() {
				continue
			}
			for m := range named.Methods() { // Of an interface there are none.
				if m.Exported() {
					names = append(names, name+"_"+m.Name())
				}
			}
		}
	}
	return names
}

// examples are those of a package that are run, without their suffixes.
func examples(t *testing.T, folder string) map[string]bool {
	t.Helper()
	shown := map[string]bool{}
	for _, e := range doc.Examples(testFiles(t, folder)...) {
		if e.Output == "" && !e.EmptyOutput {
			continue
		}
		parts := strings.Split(e.Name, "_")
		if last := parts[len(parts)-1]; len(parts) > 1 && last != "" && unicode.IsLower(rune(last[0])) {
			parts = parts[:len(parts)-1]
		}
		shown[strings.Join(parts, "_")] = true
	}
	return shown
}

func testFiles(t *testing.T, folder string) []*ast.File {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(root, folder, "*_test.go"))
	require.NoError(t, err)
	fset := token.NewFileSet()
	files := make([]*ast.File, len(paths))
	for i, path := range paths {
		files[i], err = parser.ParseFile(fset, path, nil, parser.ParseComments)
		require.NoError(t, err)
	}
	return files
}

// What the documentation of a package shows as code is in its example_test.go, and so is run. In
// place of addresses, an example has nodes in memory. Its "go get" is run by test/publish.
func TestTheCodeInPackageDocumentationIsRun(t *testing.T) {
	for _, folder := range folders {
		run := trimmed(readFile(t, folder, "example_test.go"))
		for _, paragraph := range paragraphs(readFile(t, folder, "doc.go")) {
			paragraph = strings.TrimSpace(paragraph)
			other := strings.HasPrefix(paragraph, "nodes :=") || strings.HasPrefix(paragraph, "go get ")
			if !other && !strings.Contains(run, paragraph) {
				t.Errorf("%s/example_test.go does not have this code of doc.go:\n%s", folder, paragraph)
			}
		}
	}
}

// paragraphs are those of the code in a package's documentation.
func paragraphs(source string) []string {
	var code strings.Builder
	for line := range strings.Lines(source) {
		if text, isCode := strings.CutPrefix(line, "//\t"); isCode {
			code.WriteString(text)
		} else {
			code.WriteString("\n")
		}
	}
	found := strings.Split(trimmed(code.String()), "\n\n")
	return slices.DeleteFunc(found, func(p string) bool { return strings.TrimSpace(p) == "" })
}

// trimmed is a text without what lines begin and end with.
func trimmed(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString(strings.TrimSpace(line) + "\n")
	}
	return b.String()
}

func readFile(t *testing.T, folder, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, folder, name))
	require.NoError(t, err)
	return string(text)
}

// The checks themselves are checked.
func TestCallables(t *testing.T) {
	want := []string{"Generic", "Kind_String", "Record_Set", "Record_Less"}
	got := callables(typeCheck(t, strings.ReplaceAll(source, "func hidden() {}", "func (r Record) Less() {}")))
	assert.ElementsMatch(t, want, got)
	assert.Contains(t, slices.Collect(maps.Keys(examples(t, "redlock"))), "Redlock_Lock", "with and without a suffix")
}

func TestParagraphs(t *testing.T) {
	text := "// Text.\n//\n//\ta := 1\n//\tif a {\n//\t\tb()\n//\t}\n//\n//\tc()\n// Text.\n//\n//\td()\npackage p\n"
	assert.Equal(t, []string{"a := 1\nif a {\nb()\n}", "c()", "d()"}, clean(paragraphs(text)))
}

func clean(texts []string) []string {
	for i, s := range texts {
		texts[i] = strings.TrimSpace(s)
	}
	return texts
}
