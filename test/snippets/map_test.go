package snippets

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
)

// docs/code.md says where everything is: its tables have all files, and what it names is there.

var (
	sectionRE = regexp.MustCompile(`(?m)^##+ (.*)$`)
	fileRowRE = regexp.MustCompile(`(?m)^\| ([\w./*-]+\.(?:go|lua)(?:, [\w./*-]+)*) \|`)
	fileRE    = regexp.MustCompile(`[\w./*-]*\w\.(?:go|lua)\b`)
	inFileRE  = regexp.MustCompile("`([\\w.]+)` \\(([\\w/.]+\\.go)\\)")
	fileHasRE = regexp.MustCompile("([\\w/.]+\\.go):? (`[\\w.…]+`(?:, `[\\w.…]+`)*)")
)

func theMap(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "docs", "code.md"))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

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
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func matches(pattern, path string) bool {
	ok, _ := filepath.Match(pattern, path)
	return ok
}

// The tables have every file of the library, and no other.
func TestTheMapHasAllFiles(t *testing.T) {
	text, all := theMap(t), sources(t)
	listed := map[string]bool{}
	starts := sectionRE.FindAllStringSubmatchIndex(text, -1)
	for i, at := range starts {
		end := len(text)
		if i+1 < len(starts) {
			end = starts[i+1][0]
		}
		folder, _, _ := strings.Cut(text[at[2]:at[3]], ":")
		switch folder = strings.TrimSuffix(folder, "/"); {
		case folder == "The root", folder == "For tests":
			folder = "."
		case folder == "The small packages":
			folder = "internal"
		case !strings.Contains(folder, "/") && folder != "redlock":
			continue
		}
		for _, row := range fileRowRE.FindAllStringSubmatch(text[at[1]:end], -1) {
			within := folder
			for _, pattern := range strings.Split(row[1], ", ") {
				pattern = filepath.ToSlash(filepath.Join(within, strings.TrimSuffix(pattern, "/")))
				within = filepath.ToSlash(filepath.Dir(pattern))
				found := false
				for _, path := range all {
					if matches(pattern, path) {
						found, listed[path] = true, true
					}
				}
				if info, err := os.Stat(filepath.Join(root, pattern)); !found && (err != nil || !info.IsDir()) {
					t.Errorf("the map has %s, which is not there", pattern)
				}
			}
		}
	}
	for _, path := range all {
		folder, name := filepath.ToSlash(filepath.Dir(path)), filepath.Base(path)
		inside := folder == "redlock" || folder == "redlock/redlockcheck" || strings.HasPrefix(folder, "internal/")
		if inside && strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go") && name != "doc.go" && !listed[path] {
			t.Errorf("the map lacks %s", path)
		}
	}
}

func TestFilesThatTheMapNamesExist(t *testing.T) {
	all := sources(t)
	for _, name := range fileRE.FindAllString(theMap(t), -1) {
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
	text, all := theMap(t), sources(t)
	require := func(file, name string) {
		for _, path := range all {
			if isAt(path, file) && declares(t, path, name) {
				return
			}
		}
		t.Errorf("%s has no %s", file, name)
	}
	pairs := 0
	for _, m := range inFileRE.FindAllStringSubmatch(text, -1) {
		require(m[2], m[1])
		pairs++
	}
	for _, m := range fileHasRE.FindAllStringSubmatch(text, -1) {
		for _, name := range strings.Split(strings.ReplaceAll(m[2], "`", ""), ", ") {
			require(m[1], name)
			pairs++
		}
	}
	if pairs < 40 {
		t.Errorf("only %d names were found in the map", pairs)
	}
}

// declares reports whether a file declares a name: "name", "Type.name" with the type's methods and
// fields, "Name…" for several that begin so.
func declares(t *testing.T, path, name string) bool {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, path), nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	begins, several := strings.CutSuffix(name, "…")
	is := func(owner string, id *ast.Ident) bool {
		if _, _, full := strings.Cut(begins, "."); full && !several {
			return owner+"."+id.Name == name
		}
		return id.Name == name || several && strings.HasPrefix(id.Name, begins)
	}
	found := false
	owner := ""
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			owner = ""
			if n.Recv != nil {
				owner = typeOf(n.Recv.List[0].Type)
			}
			found = found || is(owner, n.Name)
			return false
		case *ast.TypeSpec:
			owner = n.Name.Name
			found = found || is("", n.Name)
		case *ast.Field:
			for _, id := range n.Names {
				found = found || is(owner, id)
			}
		case *ast.ValueSpec:
			for _, id := range n.Names {
				found = found || is("", id)
			}
		}
		return true
	})
	return found
}

// typeOf is the name of a receiver's type.
func typeOf(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return typeOf(e.X)
	case *ast.Ident:
		return e.Name
	}
	return ""
}
