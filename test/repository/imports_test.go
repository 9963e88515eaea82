package repository

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const redigo = "github.com/gomodule/redigo/redis"

// mayImport says which packages of others and of the library each package of the library may
// import. The picture in docs/code.md shows the same.
var mayImport = map[string][]string{
	"internal/admission":  {},
	"internal/brief":      {},
	"internal/calls":      {"internal/admission", "internal/waiting"},
	"internal/clockwatch": {},
	"internal/conn":       {redigo, "internal/brief", "internal/redigo"},
	"internal/redigo":     {redigo},
	"internal/reserved":   {},
	"internal/dispatch":   {},
	"internal/fences":     {"internal/node"},
	"internal/lease":      {"internal/node", "internal/tokens"},
	"internal/holders":    {"internal/node", "internal/tokens"},
	"internal/lines":      {"internal/node", "internal/tokens"},
	"internal/link":       {"internal/conn", "internal/node"},
	"internal/node":       {"internal/brief"},
	"internal/quarantine": {"internal/brief", "internal/conn", "internal/link", "internal/node"},
	"internal/sets":       {"internal/tokens"},
	"internal/settings":   {"internal/calls", "internal/clockwatch"},
	"internal/tokens":     {"internal/brief"},
	"internal/waiting":    {"internal/admission"},
	"redlock": {
		redigo, "golang.org/x/sync/errgroup", "golang.org/x/sync/singleflight", "internal/admission", "internal/brief",
		"internal/calls", "internal/clockwatch", "internal/conn", "internal/dispatch", "internal/fences", "internal/holders",
		"internal/lease", "internal/lines", "internal/link", "internal/node", "internal/quarantine", "internal/reserved",
		"internal/sets", "internal/settings", "internal/tokens", "internal/waiting",
	},
	"redlock/dial":     {redigo, "internal/conn", "redlock"},
	"redlock/election": {"redlock"},
	"redlock/redlockcheck": {
		"internal/brief", "internal/conn", "internal/lines", "internal/link", "internal/node", "internal/quarantine",
		"internal/sets", "internal/settings", "internal/tokens", "redlock",
	},
	"redlock/redlockhttp": {"redlock", "redlock/semaphore"},
	"redlock/semaphore":   {"internal/settings", "internal/waiting", "redlock"},
	"redlock/shared":      {"internal/settings", "redlock", "redlock/semaphore"},
	"redlock/stored": {
		"internal/fences", "internal/lines", "internal/quarantine", "internal/reserved", "internal/sets",
		"internal/settings", "internal/tokens", "redlock",
	},
	"redlock/ticks": {"internal/settings", "redlock"},
}

// The compiler sees to it that imports make no circle, and nothing else does that they go down.
func TestImportsGoDownOnly(t *testing.T) {
	const format = `{{if not .Standard}}{{.ImportPath}}: {{join .Imports " "}}{{end}}`
	args := []string{"list", "-deps", "-f", format}
	for _, folder := range folders {
		if folder != "redlock/redlocktest" { // It has servers.
			args = append(args, module+"/"+folder)
		}
	}
	out, err := exec.CommandContext(t.Context(), "go", args...).Output()
	require.NoError(t, err)
	found := map[string]bool{}
	for line := range strings.Lines(string(out)) {
		path, imports, _ := strings.Cut(strings.TrimSpace(line), ": ")
		name, ours := strings.CutPrefix(strings.TrimSuffix(path, ":"), module+"/")
		if !ours {
			continue
		}
		found[name] = true
		for _, imported := range strings.Fields(imports) {
			i, local := strings.CutPrefix(imported, module+"/")
			standard := !local && !strings.Contains(i, ".")
			if !standard && !slices.Contains(mayImport[name], i) {
				t.Errorf("%s imports %s, which it is not meant to; see docs/code.md", name, i)
			}
		}
	}
	assert.ElementsMatch(t, slices.Collect(maps.Keys(mayImport)), slices.Collect(maps.Keys(found)), "packages of the library")
}

// released are the modules that users get besides the library, as scripts/release.sh has them. Each has a version of its
// own, and works with every later one of the library.
var released = []string{"cmd/redlock", "otelredlock", "integrations/*", "integrations/redsync/redis/goredis/*"}

func TestOtherModulesImportWhatTheLibraryExports(t *testing.T) {
	seen := 0
	for _, pattern := range released {
		files, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(pattern), "go.mod"))
		require.NoError(t, err)
		require.NotEmpty(t, files, pattern)
		for _, file := range files {
			seen += checkModule(t, filepath.Dir(file))
		}
	}
	assert.Greater(t, seen, 50, "imports of the library")
}

// checkModule checks what the files of a module import of the library, and counts that. Tests may import all of it: nobody
// has them but those who have this repository.
func checkModule(t *testing.T, dir string) (seen int) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(dir, func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") {
			return err
		}
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
		for _, i := range f.Imports {
			if local, ours := strings.CutPrefix(strings.Trim(i.Path.Value, `"`), module+"/"); ours && isOfTheLibrary(local) {
				seen++
				assert.Contains(t, folders, local, "%s imports it, and the library may change it in any version", file)
			}
		}
		return err
	}))
	return seen
}

// isOfTheLibrary reports whether a package is in the library's module, and in none that lies within its folder.
func isOfTheLibrary(folder string) bool {
	for ; folder != "."; folder = path.Dir(folder) {
		if _, err := os.Stat(filepath.Join(root, filepath.FromSlash(folder), "go.mod")); err == nil {
			return false
		}
	}
	return true
}

// The packages of rules: what they decide follows from what they are given, so that a search can run them. What they
// import of this module is listed, too.
var rules = []string{"internal/admission", "internal/brief", "internal/lease", "internal/node", "internal/waiting"}

// notInRules are packages whose use would hide something that happens from whoever drives the rules.
var notInRules = []string{
	"sync", "net", "context", "os", "math/rand", "crypto/rand", "runtime", "io", "log", "syscall", "unsafe", redigo,
}

// clocks are the functions of package time that rules do not call.
var clocks = map[string]bool{
	"Now": true, "Since": true, "Until": true, "After": true, "AfterFunc": true, "NewTimer": true, "NewTicker": true,
	"Tick": true, "Sleep": true,
}

func TestRulesAreValues(t *testing.T) {
	for _, dir := range rules {
		files, err := filepath.Glob(filepath.Join(root, dir, "*.go"))
		require.NoError(t, err)
		require.NotEmpty(t, files, dir)
		for _, file := range files {
			if !strings.HasSuffix(file, "_test.go") {
				for _, wrong := range notOfRules(t, file) {
					t.Errorf("%s %s, which rules do not; see docs/code.md", file, wrong)
				}
			}
		}
	}
}

// notOfRules is what a file of rules does that rules do not.
func notOfRules(t *testing.T, path string) (wrong []string) {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
	require.NoError(t, err)
	for _, i := range f.Imports {
		name := strings.Trim(i.Path.Value, `"`)
		for _, not := range notInRules {
			if name == not || strings.HasPrefix(name, not+"/") {
				wrong = append(wrong, "imports "+name)
			}
		}
		if local, ours := strings.CutPrefix(name, module+"/"); ours && !slices.Contains(rules, local) {
			wrong = append(wrong, "imports "+name)
		}
	}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			if x, ok := n.X.(*ast.Ident); ok && x.Name == "time" && clocks[n.Sel.Name] {
				wrong = append(wrong, "calls time."+n.Sel.Name)
			}
		case *ast.GoStmt:
			wrong = append(wrong, "starts a goroutine")
		case *ast.SendStmt, *ast.SelectStmt, *ast.ChanType:
			wrong = append(wrong, "uses a channel")
		}
		return true
	})
	return wrong
}
