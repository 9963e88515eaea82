package apicheck

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The packages of rules: what they decide follows from what they are given, so that a search can run them. What they
// import of this module is listed, too.
var rules = []string{"internal/admission", "internal/brief", "internal/lease", "internal/node", "internal/waiting"}

// notInRules are packages whose use would hide something that happens from whoever drives the rules.
var notInRules = []string{"sync", "net", "context", "os", "math/rand", "crypto/rand", "runtime", "io", "log", "syscall", "unsafe", redigo}

// clocks are the functions of package time that rules do not call.
var clocks = map[string]bool{
	"Now": true, "Since": true, "Until": true, "After": true, "AfterFunc": true, "NewTimer": true, "NewTicker": true, "Tick": true, "Sleep": true,
}

func TestRulesAreValues(t *testing.T) {
	for _, dir := range rules {
		files, err := filepath.Glob(filepath.Join("..", "..", dir, "*.go"))
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
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	f, err := parser.ParseFile(token.NewFileSet(), path, text, 0)
	require.NoError(t, err)
	for _, i := range f.Imports {
		name := strings.Trim(i.Path.Value, `"`)
		for _, not := range notInRules {
			if name == not || strings.HasPrefix(name, not+"/") {
				wrong = append(wrong, "imports "+name)
			}
		}
		if local, ours := strings.CutPrefix(name, module+"/"); ours && !strings.Contains(strings.Join(rules, " ")+" ", local+" ") {
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
