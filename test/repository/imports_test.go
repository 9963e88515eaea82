package repository

import (
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
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
	"internal/settings":   {"internal/calls"},
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

// The modules that users get besides the library have versions of their own, and work with every later one of the library:
// they import what it exports. Tests may import all of it: nobody has them but those who have this repository.
func TestOtherModulesImportWhatTheLibraryExports(t *testing.T) {
	seen, inside := 0, regexp.MustCompile(`\t"`+module+`/(redlock[\w/]*|internal/[\w/]+|test/[\w/]+)"`)
	for _, folder := range []string{"cmd/redlock", "otelredlock", "integrations"} {
		require.NoError(t, filepath.WalkDir(filepath.Join(root, folder), func(file string, d fs.DirEntry, err error) error {
			if d != nil && d.Name() == "internal" {
				return filepath.SkipDir // What their tests share.
			}
			if err != nil || d.IsDir() || !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") {
				return err
			}
			text, err := os.ReadFile(file)
			for _, found := range inside.FindAllStringSubmatch(string(text), -1) {
				seen++
				assert.Contains(t, folders, found[1], "%s imports it, and the library may change it in any version", file)
			}
			return err
		}))
	}
	assert.Greater(t, seen, 50, "imports of the library")
}

// The rules are values: what they decide follows from what they are given, so that a search can run them. What they import
// of this module is listed above.
func TestRulesAreValues(t *testing.T) {
	happens := regexp.MustCompile(`\t"(sync|net|context|os|math/rand|crypto/rand|runtime|io|log|syscall|unsafe)[/"]` +
		`|\btime\.(Now|Since|Until|After|New|Tick|Sleep)|^\s*(go|select) |\bchan `)
	for _, dir := range []string{"internal/admission", "internal/brief", "internal/lease", "internal/node", "internal/waiting"} {
		files, err := filepath.Glob(filepath.Join(root, dir, "*.go"))
		require.NoError(t, err)
		require.NotEmpty(t, files, dir)
		for _, file := range files {
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			for line := range strings.Lines(string(text)) {
				code, _, _ := strings.Cut(line, "//")
				if !strings.HasSuffix(file, "_test.go") && happens.MatchString(code) {
					t.Errorf("%s: rules do nothing of the kind, see docs/code.md: %s", file, line)
				}
			}
		}
	}
}
