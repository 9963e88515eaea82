package repository

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// docs/code.md says where everything is: its table has all folders, and what it names is there.

var (
	rowRE     = regexp.MustCompile(`(?m)^\| ([\w/, ]+) \|`)
	fileRE    = regexp.MustCompile(`[\w./*-]*\w\.(?:go|lua)\b`)
	inFileRE  = regexp.MustCompile("`([\\w.]+)` \\(([\\w/.]+\\.go)\\)")
	fileHasRE = regexp.MustCompile("([\\w/.]+\\.go):? (`[\\w.…]+`(?:, `[\\w.…]+`)*)")
)

// sources returns the paths of all files of Go and Lua, from the root.
func sources(t *testing.T) []string {
	t.Helper()
	var found []string
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if d != nil && d.IsDir() && (d.Name() == "testdata" || path != root && strings.HasPrefix(d.Name(), ".")) {
			return filepath.SkipDir
		}
		if ext := filepath.Ext(path); ext == ".go" || ext == ".lua" {
			name, _ := filepath.Rel(root, path)
			found = append(found, filepath.ToSlash(name))
		}
		return err
	})
	require.NoError(t, err)
	return found
}

func matches(pattern, path string) bool {
	ok, _ := filepath.Match(pattern, path)
	return ok
}

// The table has every folder of the library, of the tests and of the proofs. Of other modules it has the first one at least.
func TestTheMapHasAllFolders(t *testing.T) {
	_, table, _ := strings.Cut(document(t, "docs/code.md"), "\n## The folders\n")
	table, _, _ = strings.Cut(table, "\n## ")
	listed := map[string]bool{}
	for _, row := range rowRE.FindAllStringSubmatch(table, -1) {
		for _, folder := range strings.Split(row[1], ", ") {
			if info, err := os.Stat(filepath.Join(root, folder)); folder != "folder" && (err != nil || !info.IsDir()) {
				t.Errorf("the map has %s, which is no folder", folder)
			}
			listed[folder] = true
		}
	}
	for _, path := range sources(t) {
		parts := strings.Split(path, "/")
		if len(parts) == 1 || filepath.Ext(path) != ".go" {
			continue
		}
		folder := strings.Join(parts[:min(2, len(parts)-1)], "/")
		each := slices.Contains([]string{"redlock", "internal", "test", "proof"}, parts[0])
		if !listed[folder] && (each || !listed[parts[0]]) {
			t.Errorf("the map lacks %s", folder)
			listed[folder] = true
		}
	}
}

func TestFilesThatTheMapNamesExist(t *testing.T) {
	all := sources(t)
	for _, name := range fileRE.FindAllString(document(t, "docs/code.md"), -1) {
		if !slices.ContainsFunc(all, func(path string) bool { return isAt(path, name) }) {
			t.Errorf("there is no %s", name)
		}
	}
}

// isAt reports whether a path ends with what a document calls the file, which may have stars.
func isAt(path, name string) bool {
	parts, ends := strings.Split(path, "/"), strings.Split(strings.TrimPrefix(name, "/"), "/")
	return len(parts) >= len(ends) && matches(strings.Join(ends, "/"), strings.Join(parts[len(parts)-len(ends):], "/"))
}

// What is said to be in a file is declared there: "`decide` (round.go)", "round.go: `decide`, `ask`".
func TestNamesAreInTheFilesThatTheMapSays(t *testing.T) {
	text, all := document(t, "docs/code.md"), sources(t)
	declared := func(file, name string) {
		for _, path := range all {
			if isAt(path, file) && declares(t, path, name) {
				return
			}
		}
		t.Errorf("%s has no %s", file, name)
	}
	pairs := 0
	for _, m := range inFileRE.FindAllStringSubmatch(text, -1) {
		declared(m[2], m[1])
		pairs++
	}
	for _, m := range fileHasRE.FindAllStringSubmatch(text, -1) {
		for _, name := range strings.Split(strings.ReplaceAll(m[2], "`", ""), ", ") {
			declared(m[1], name)
			pairs++
		}
	}
	assert.GreaterOrEqual(t, pairs, 20, "names that were found in the map")
}

// declares reports whether a file declares a name: "name", "Type.name" for a method or a field, "Name…" for several that
// begin so.
func declares(t *testing.T, path, name string) bool {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, path), nil, parser.SkipObjectResolution)
	require.NoError(t, err)
	name = name[strings.LastIndex(name, ".")+1:]
	begins, several := strings.CutSuffix(name, "…")
	found := false
	is := func(ids ...*ast.Ident) {
		for _, id := range ids {
			found = found || id.Name == name || several && strings.HasPrefix(id.Name, begins)
		}
	}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			is(n.Name)
			return false
		case *ast.TypeSpec:
			is(n.Name)
		case *ast.Field:
			is(n.Names...)
		case *ast.ValueSpec:
			is(n.Names...)
		}
		return true
	})
	return found
}
