//go:build unix

package main

import (
	"encoding/json"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// What people install beside the library is in modules of its own, with versions of their own.
var published = []string{"integrations", "otelredlock", "cmd/redlock"}

const root = "github.com/seed6c881748/redlock"

// Whoever upgrades the library alone can still build: the modules of the older version compile with the library as it is.
// The other way round, a module may need a newer library than the older one, as its go.mod says; the test shows which.
func TestModulesOfTwoVersions(t *testing.T) {
	if testing.Short() {
		t.Skip("it compiles all modules twice: make fleet")
	}
	requireHistory(t)
	_, err := versions()
	require.NoError(t, err)
	now, err := filepath.Abs("../..")
	require.NoError(t, err)
	for _, dir := range modules(t, tree) {
		if why := buildOver(t, tree, dir, now); why != "" && !usesInternals(t, filepath.Join(tree, dir)) {
			t.Errorf("%s of %s does not build with the library as it is: %s", dir, oldName(), why)
		}
	}
	for _, dir := range modules(t, now) {
		require.False(t, usesInternals(t, filepath.Join(now, dir)), "%s is bound to one version of the library", dir)
		if why := buildOver(t, now, dir, tree); why != "" {
			t.Logf("%s needs a newer library than %s: %s", dir, oldName(), why)
		}
	}
}

// modules returns the folders of a version's published modules.
func modules(t *testing.T, version string) (dirs []string) {
	t.Helper()
	for _, top := range published {
		require.NoError(t, filepath.WalkDir(filepath.Join(version, top), func(path string, d fs.DirEntry, err error) error {
			if d != nil && d.IsDir() && (d.Name() == "node_modules" || d.Name() == "testdata") {
				return filepath.SkipDir
			}
			if err == nil && d.Name() == "go.mod" {
				dir, relErr := filepath.Rel(version, filepath.Dir(path))
				require.NoError(t, relErr)
				dirs = append(dirs, dir)
			}
			return err
		}))
	}
	return dirs
}

// buildOver builds a module with the library of another version, and returns why that fails.
func buildOver(t *testing.T, version, dir, library string) (why string) {
	t.Helper()
	dir = filepath.Join(version, dir)
	mod := filepath.Join(t.TempDir(), "go.mod")
	for from, to := range map[string]string{"go.mod": mod, "go.sum": strings.TrimSuffix(mod, "mod") + "sum"} {
		text, err := os.ReadFile(filepath.Join(dir, from))
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(to, text, 0o600))
	}
	cmd := exec.Command("go", "mod", "edit", "-json", mod)
	out, err := cmd.Output()
	require.NoError(t, err)
	var file struct {
		Replace []struct{ Old, New struct{ Path string } }
	}
	require.NoError(t, json.Unmarshal(out, &file))
	edit := []string{"mod", "edit", "-replace", root + "=" + library} // Also where a release requires the published one.
	for _, r := range file.Replace {
		if r.Old.Path != root && strings.HasPrefix(r.New.Path, ".") {
			edit = append(edit, "-replace", r.Old.Path+"="+filepath.Join(dir, r.New.Path))
		}
	}
	require.NoError(t, run(dir, "go", append(edit, mod)...))
	if err = run(dir, "go", "build", "-mod=mod", "-modfile="+mod, "./..."); err != nil {
		return err.Error()
	}
	return ""
}

// usesInternals reports whether a module, without its tests, imports what only one version of the library has for it: the
// packages below an internal folder of another module. Those of before the first release did.
func usesInternals(t *testing.T, dir string) (uses bool) {
	t.Helper()
	own, err := exec.Command("go", "-C", dir, "list", "-m").Output()
	require.NoError(t, err)
	out, err := exec.Command("go", "-C", dir, "list", "-f", `{{join .Imports "\n"}}`, "-e", "./...").Output()
	require.NoError(t, err)
	for imported := range strings.FieldsSeq(string(out)) {
		if strings.HasPrefix(imported, root) && strings.Contains(imported, "/internal/") &&
			!strings.HasPrefix(imported, strings.TrimSpace(string(own))+"/") {
			t.Logf("%s imports %s", dir, imported)
			uses = true
		}
	}
	return uses
}
