package redlock

import (
	"flag"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/node"
)

var updateScripts = flag.Bool("update-scripts", false, "write docs/scripts")

// scriptsFolder has the text of every script, so that a change of what is on the wire is seen in review.
const scriptsFolder = "../docs/scripts"

func TestScriptsAreWrittenDown(t *testing.T) {
	const run = "0123456789abcdef0123456789abcdef01234567"
	texts := map[string]string{}
	comments := scriptComments(t)
	for _, s := range append([]*node.Script{node.Look}, handshakeScripts...) {
		require.Contains(t, comments, s.Name)
		texts[s.Name] = comments[s.Name] + "\n" + strings.TrimSpace(s.Source.(string)) + "\n"
		if s.Grants {
			texts["quarantine-"+s.Name] = "-- The same with quarantine: KEYS end with the marker, and ARGV with 0, the number of nodes and maxTTL in ms.\n\n" +
				strings.TrimSpace(grantingScripts.Slow(s).Source.(string)) + "\n"
		}
	}
	fast := grantingScripts.Fast(run, "the marker", "3")[lockScript].Source.(string)
	texts["quarantine-lock-fast"] = "-- quarantine-lock for a server in a run, here " + run + ", and clients with 3 nodes.\n\n" + strings.TrimSpace(fast) + "\n"

	if *updateScripts {
		require.NoError(t, os.RemoveAll(scriptsFolder))
		require.NoError(t, os.MkdirAll(scriptsFolder, 0o755))
		for name, text := range texts {
			require.NoError(t, os.WriteFile(filepath.Join(scriptsFolder, name+".lua"), []byte(text), 0o600))
		}
	}
	files, err := filepath.Glob(scriptsFolder + "/*.lua")
	require.NoError(t, err)
	assert.Len(t, files, len(texts), "make lua removes what is too much")
	for name, want := range texts {
		got, err := os.ReadFile(filepath.Join(scriptsFolder, name+".lua"))
		require.NoError(t, err, "make lua writes it")
		assert.Equal(t, want, string(got), "%s.lua: make lua writes it, after a change that is meant", name)
	}
}

// scriptComments returns what Go's comments say of each script, as Lua's.
func scriptComments(t *testing.T) map[string]string {
	t.Helper()
	comments := map[string]string{}
	var files []string
	for _, pattern := range []string{"scripts*.lua.go", "../internal/quarantine/scripts.lua.go", "../internal/node/look.lua.go"} {
		found, err := filepath.Glob(pattern)
		require.NoError(t, err)
		files = append(files, found...)
	}
	for _, file := range files {
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
		require.NoError(t, err)
		for _, d := range f.Decls {
			g, ok := d.(*ast.GenDecl)
			if !ok || g.Tok != token.VAR || g.Doc == nil {
				continue
			}
			ast.Inspect(g, func(n ast.Node) bool {
				if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING && !strings.Contains(lit.Value, "`") {
					name := strings.Trim(lit.Value, `"`)
					if comments[name] == "" {
						comments[name] = "-- " + strings.ReplaceAll(strings.TrimSpace(g.Doc.Text()), "\n", "\n-- ") + "\n"
					}
				}
				return true
			})
		}
	}
	for name, c := range comments {
		comments[name] = strings.NewReplacer("-- \n", "--\n", "-- \t", "--    ").Replace(c)
	}
	return comments
}
